"""Two years of a consortium that trains every month by itself, in fast motion.

Real nginx, SuperLink, SuperNodes and SuperExecs on loopback; people type documented commands. The
day is given with `ramet deploy due --date`. Each month the sites' tables have new rows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from resource import RLIMIT_FSIZE
from typing import Any

import psutil
import pytest
import tomli_w

import ramet
from consortia import Members, consortium
from operators import PATH, Operators, blocks
from own_sites import node_site
from ramet.deploy import keys
from ramet.deploy.init import init
from ramet.deploy.releases import Releases
from ramet.deploy.site import Site
from ramet.experiment import RunFolder
from ramet.experiment.accepted import accepted_run
from ramet.experiment.site_record import load_parts
from ramet.flower.programs import free_ports

PROGRAMS = ("nginx", "sqlite3")
missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}"),
]
MONTHS = int(os.environ.get("RAMET_MONTHS", "24"))
SITES = ("north", "south", "west", "east")
SCHEDULE = {"every": "month", "sites": 2, "gate": {"worse": 0.15}}
SETTINGS = {
    "name": "hospitals",
    "method": "fedavg",
    "network": "sage",
    "rounds": 1,
    "quorum": 2,
    "deadline": 60.0,
    "schedule": SCHEDULE,
    "options": {"task": "node-classification", "epochs": "20", "lr": "0.02"},
}


def test_two_years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with consortium(tmp_path, dict.fromkeys(SITES[:3], ("mass",)), **SETTINGS) as members:
        story = Story(members, tmp_path, monkeypatch)
        try:
            for month in range(1, MONTHS + 1):
                story.begin(month)
                getattr(story, f"month_{month}", story.usual)()
        finally:
            story.stop_new_sites()
    story.check_nothing_is_lost()


class Story(Operators):
    """The months, each with what happens in it."""

    def __init__(self, members: Members, root: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(members, root)
        self.patch, self.began, self.month = patch, time.monotonic(), 0
        self.of_fixture = members.sites

    # What people do

    def tell(self, text: str) -> None:
        minutes = (time.monotonic() - self.began) / 60
        line = f"{minutes:6.1f} min  month {self.month:2}  {text}"
        with (self.root / "two-years.log").open("a") as log:
            log.write(line + "\n")
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def begin(self, month: int) -> None:
        """New rows at all sites."""
        self.month = month
        for number, site in enumerate(SITES):
            self.write_rows(site, number)

    def write_rows(self, site: str, number: int, extra: int = 0, swapped: bool = False) -> None:
        toml = node_site(self.root / "graphs" / site, number, 40 + 10 * self.month + extra)
        if swapped:
            table = toml.parent / "patients.csv"
            other = {"ill": "healthy", "healthy": "ill"}
            state = re.compile(r"(ill|healthy)$", re.MULTILINE)
            table.write_text(state.sub(lambda word: other[word[0]], table.read_text()))

    @property
    def day(self) -> str:
        return f"{2026 + (self.month - 1) // 12}-{(self.month - 1) % 12 + 1:02}-05"

    @property
    def period(self) -> str:
        return self.day[:7]

    def due_command(self, *words: str) -> list[str]:
        due = ["deploy", "due", "hospitals", "--date", self.day]
        return [sys.executable, "-m", "ramet", *due, *words]

    def due(self, *words: str, code: int = 0) -> str:
        """What the timer calls every day."""
        done = subprocess.run(
            self.due_command(*words), cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def ramet(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ramet", *words],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def change_sites(self, *sites: str) -> None:
        """Edit the coordinator's settings, and let them take effect."""
        settings = self.root / "consortium.toml"
        settings.write_text(tomli_w.dumps({**tomllib.loads(settings.read_text()), "sites": sites}))
        self.ramet("deploy", "init", "consortium.toml")

    @property
    def releases(self) -> Releases:
        return Releases.read(self.root / "hospitals")

    def outcome(self) -> str:
        """What became of this month's run, and who uses which run now."""
        of_month = self.releases.of(self.period)
        last = of_month[-1]
        sites = next(one.sites for one in reversed(of_month) if one.event == "begun")
        return f"{last.run} {last.event} with {len(sites)} sites: {last.reason}"

    def usual(self, *words: str) -> None:
        self.due(*words)
        assert self.releases.of(self.period)[-1].event == "accepted", self.outcome()
        self.check_used(*self.releases.sites_of(str(self.releases.current)))
        self.tell(self.outcome())

    def check_used(self, *sites: str) -> None:
        """These sites use the run that counts."""
        run = RunFolder(self.root / "hospitals" / "runs" / str(self.releases.current)).run_name
        assert {site: accepted_run(self.state(site)) for site in sites} == dict.fromkeys(sites, run)

    def state(self, site: str) -> Path:
        return self.members.site(site).folder / "state"

    def stop_new_sites(self) -> None:
        for site in self.members.sites:
            if site not in self.of_fixture:
                site.stop(self.members.output.append)

    # The months

    def month_3(self) -> None:
        """A site joins."""
        self.change_sites(*SITES)
        self.send_invitations(["east"])
        port = str(free_ports(1)[0])
        data = str(self.root / "graphs" / "east" / "site.toml")
        self.ramet("deploy", "join", "east.toml", "--data", data, "--runtime-port", port)
        self.ramet("deploy", "admit", "hospitals-east/east.application.toml", "hospitals")
        self.ramet("deploy", "start", "hospitals-east")
        east = Site.open(self.root / "hospitals-east")
        self.members = replace(self.members, sites=(*self.members.sites, east))
        self.tell("east joins: init, join, admit, start")
        self.usual()

    def month_4(self) -> None:
        """Two timers call at once: one waits, and finds nothing to do."""
        with ThreadPoolExecutor(2) as both:
            said = sorted(both.map(lambda _: self.due(), range(2)), key=len)
        assert "nothing is due" in said[0]
        assert [one.event for one in self.releases.of(self.period)] == ["begun", "accepted"]
        self.tell(f"two calls at once: one waited. {self.outcome()}")

    def month_5(self) -> None:
        """An export that swaps two classes at one site makes the model worse for the others."""
        before = self.releases.current
        self.write_rows("east", SITES.index("east"), extra=400, swapped=True)
        self.due()
        assert self.releases.of(self.period)[-1].event == "refused", self.outcome()
        assert self.releases.current == before
        self.check_used(*SITES)
        self.tell(f"east's classes are swapped. {self.outcome()}")

    def month_7(self) -> None:
        """A site leaves."""
        self.ramet("deploy", "revoke", "south", "hospitals")
        self.change_sites("north", "west", "east")
        self.ramet("deploy", "stop", "hospitals-south")
        self.tell("south leaves: revoke, init, stop")
        self.usual()

    def month_8(self) -> None:
        self.usual()
        before, now = self.releases.accepted[-2:]
        self.ramet("deploy", "roll-back", "hospitals")
        assert self.releases.current == before != now
        self.check_used("north", "west", "east")
        self.tell(f"rolled back from {now} to {before}, which sites use again")

    def month_9(self) -> None:
        """The command is killed in the middle; the next call goes on."""
        with (self.root / "killed.log").open("w") as log:
            killed = subprocess.Popen(self.due_command(), cwd=self.root, stdout=log, stderr=log)
        folder = self.root / "hospitals" / "runs" / self.period
        self.wait_until(lambda: (folder / "settings.json").exists())
        killed.kill()
        killed.wait()
        start = self.releases.begun(self.period)
        assert start is not None
        assert start.start_from == "2026-07"
        self.tell("`due` is killed during the run")
        self.usual()

    def month_10(self) -> None:
        """A full disk at a site."""
        with full_disk(self.members.site("north")):
            said = self.due(code=2)
        assert "north" in said
        assert "could not unpack the app" in said
        reason = self.releases.of(self.period)[-1].reason
        self.tell(f"north's disk is full: {reason[:160]}")
        self.usual()

    def month_11(self) -> None:
        """Certificates are about to expire, which is noticed weeks before; keys are renewed."""
        with self.patch.context() as shorter:
            shorter.setattr(keys, "_SERVER_VALIDITY", timedelta(days=20))
            init(self.root / "consortium.toml", self.root / "hospitals", self.members.output.append)
        said = self.ramet("doctor", "hospitals", code=1)
        assert "days left" in said
        (renew,) = blocks("Renew the server's certificate")
        self.type(renew)
        self.await_online("north", "west", "east")
        self.ramet("doctor", "hospitals")
        self.tell(f"the doctor, 20 days before: {bad_lines(said)}; renewed")
        for block in blocks("Renew a site's key"):
            self.type(block)
        self.tell("north has a new key")
        self.usual()

    def month_13(self) -> None:
        """All but one site upgrade; the late one refuses the new Ramet's app until it has, too."""
        new = upgraded(self.root / "upgraded")
        coordinator, site = blocks("Upgrade")
        site = site.replace("ramet doctor", "ramet doctor hospitals-north || true #")
        self.patch.setenv("PYTHONPATH", str(new))
        self.type(coordinator)
        self.await_online("north", "west", "east")
        for name in ("west", "east"):
            self.upgrade(site, name)
        said = self.due(code=2)
        assert "north" in said
        self.tell(f"north has not upgraded: {said.strip().splitlines()[-1][:200]}")
        self.upgrade(site, "north")
        self.usual()
        self.tell("north has upgraded")

    def upgrade(self, block: str, site: str) -> None:
        self.type(block, site)
        said = self.ramet("doctor", f"hospitals-{site}", code=1)
        (line,) = re.findall(r"add this line to the list: (\w+)", said)
        with (self.root / f"hospitals-{site}" / "guard" / "accepted.txt").open("a") as accepted:
            accepted.write(line + "\n")
        self.ramet("doctor", f"hospitals-{site}")

    def month_15(self) -> None:
        """A site is silent for two months; the others go on."""
        self.ramet("deploy", "stop", "hospitals-west")
        self.wait_until(lambda: self.have_status("offline", "west"))
        self.tell("west is silent")
        self.usual()
        assert "west" not in self.releases.sites_of(self.period)

    def month_16(self) -> None:
        self.usual()
        assert "west" not in self.releases.sites_of(self.period)
        _, _, online, _, _ = blocks("Back up and restore")
        self.type(online)
        self.tell("a backup of the coordinator")

    def month_17(self) -> None:
        """West is back; then the coordinator's machine is lost, and restored from the backup."""
        self.ramet("deploy", "start", "hospitals-west")
        self.usual()
        _, _, _, restore, _ = blocks("Back up and restore")
        self.type(restore)
        self.await_online("north", "west", "east")
        assert self.releases.accepted[-1] == "2027-04"
        self.tell("the coordinator is restored from the backup of month 16")
        self.usual()

    def month_19(self) -> None:
        """A site moves to another machine: here another folder and port."""
        (move,) = blocks("Move a site")
        moved = self.root / "elsewhere"
        moved.mkdir()
        port = str(free_ports(1)[0])
        text = move.replace("/srv/graphs/site.toml", f"DATA --runtime-port {port}")
        self.type(text, DATA=str(self.root / "graphs" / "north" / "site.toml"))
        north = Site.open(moved / "hospitals-north")
        others = [site for site in self.members.sites if site.settings.site != "north"]
        self.members = replace(self.members, sites=(north, *others))
        self.tell("north has moved")
        self.usual()

    def month_20(self) -> None:
        """The policy of a site allows 20 runs; owners allow more."""
        self.due()
        entry = self.releases.of(self.period)[-1]
        assert entry.event == "refused"
        assert "`runs`" in entry.reason
        self.tell(self.outcome())
        for site in self.members.sites:
            policy = site.folder / "policy.toml"
            policy.write_text(policy.read_text().replace("runs = 20", "runs = 60"))
        self.usual("--again")

    def await_online(self, *sites: str) -> None:
        self.wait_until(lambda: self.have_status("online", *sites))

    def have_status(self, status: str, *sites: str) -> bool:
        command = [sys.executable, "-m", "ramet", "deploy", "status", "hospitals"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        return all(f"site {site}: {status}" in done.stdout for site in sites)

    def wait_until(self, holds: Any, seconds: float = 300.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.2)

    def check_nothing_is_lost(self) -> None:
        releases = self.releases
        months = [f"{2026 + n // 12}-{n % 12 + 1:02}" for n in range(MONTHS)]
        assert [month for month in months if releases.is_done(month)] == months
        runs = self.root / "hospitals" / "runs"
        for entry in releases.entries:
            if entry.event == "begun" and entry.start_from:
                start = json.loads((runs / entry.run / "start.json").read_text())
                assert start["run"] == RunFolder(runs / entry.start_from).run_name
        for site in self.members.sites:
            check_no_row_is_tested_after_training(site, releases, runs)
        said = self.ramet("deploy", "releases", "hospitals")
        (self.root / "releases.txt").write_text(said)


def check_no_row_is_tested_after_training(site: Site, releases: Releases, runs: Path) -> None:
    """The accepted model is not tested on what it, or one that it came from, was trained on."""
    started = {one.run: one.start_from for one in releases.entries if one.event == "begun"}
    line = [str(releases.current)]
    while start := started[line[0]]:
        line.insert(0, start)
    trained: set[str] = set()
    for run in line:
        state = site.folder / "state" / "clients" / RunFolder(runs / run).run_name
        parts = load_parts(state / site.settings.site)
        if parts is None:
            continue
        held_out = {one for one, part in parts.part_of.items() if part != 0}
        assert not trained & held_out, (run, site.settings.site)
        trained |= parts.part_of.keys() - held_out
    assert trained


def bad_lines(said: str) -> str:
    return "; ".join(line for line in said.splitlines() if line.startswith("BAD"))


def upgraded(folder: Path) -> Path:
    """A later version of Ramet, with another app."""
    package = folder / "ramet"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(ramet.__file__).parent, package, ignore=ignored)
    for file in (package / "version.py", package / "flower" / "thin_app.py"):
        text = file.read_text()
        assert '"0.1.0"' in text
        file.write_text(text.replace('"0.1.0"', '"0.2.0"'))
    return folder


@contextmanager
def full_disk(site: Site) -> Iterator[None]:
    """The site's programs can write nothing."""
    processes = []
    for service in site.services():
        process = service.process()
        assert process is not None
        processes += [process, *process.children(recursive=True)]
    limits = [(one, one.rlimit(RLIMIT_FSIZE)) for one in processes]
    for process, (_, hard) in limits:
        process.rlimit(RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        for process, (_, hard) in limits:
            if psutil.pid_exists(process.pid):
                process.rlimit(RLIMIT_FSIZE, (hard, hard))
