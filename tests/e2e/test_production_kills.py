"""kill -9 of every process of a consortium: the numbers of a run in which nobody died.

In CI four kinds die in one run. `make e2e` has a run for each kind; `make faults` has twenty runs,
and ten deaths of the SuperLink in one.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.numpy import load_file

import ramet
from consortia import DeployRun, Members, consortium, forks, kill
from ramet.engine.audit import audit_entries
from ramet.experiment import RunFolder

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
FULL = "RAMET_FAULTS" in os.environ
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin", "mass", "charge")}
ROUNDS = 10
A_RUN = 75.0
"""Seconds that ten rounds take on two cores; moments are drawn from them."""

Find = Callable[[DeployRun, str], psutil.Process | None]


def _of_coordinator(name: str) -> Find:
    return lambda run, site: run.members.service("coordinator", name).process()


def _of_site(name: str) -> Find:
    return lambda run, site: run.members.service(site, name).process()


def _client_app(run: DeployRun, site: str) -> psutil.Process | None:
    found = forks(run.members.service(site, "superexec"))
    return found[0] if found else None


VICTIMS: dict[str, Find] = {
    "superlink": _of_coordinator("superlink"),
    "superexec": _of_coordinator("superexec"),
    "proxy": _of_coordinator("proxy"),
    "server app": lambda run, site: run.server_app(),
    "command": lambda run, site: psutil.Process(run.process.pid),
    "supernode": _of_site("supernode"),
    "site's superexec": _of_site("superexec"),
    "client app": _client_app,
}


@dataclass(frozen=True)
class Undisturbed:
    members: Members
    local: ramet.Result


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """All three sites must answer in every round, so a dead one is waited for."""
    root = tmp_path_factory.mktemp("kills")
    with consortium(root, SITES, method="fedstar", rounds=ROUNDS, seed=5, quorum=3) as members:
        files = shlex.join(str(site.settings.data) for site in members.sites)
        local = ramet.run("fedstar", "own", rounds=ROUNDS, seed=5, out=root / "local", sites=files)
        yield Undisturbed(members, local)


def test_four_die_in_one_run(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """The run's command is begun again when the run failed; the rest is waited for."""
    run = DeployRun(undisturbed.members, tmp_path / "r")
    for number, name in enumerate(("superlink", "server app", "supernode", "client app"), start=1):
        while len(run.rounds()) < number:
            run.begin_again_if_failed()
            time.sleep(0.05)
        victim = _living(run, VICTIMS[name], [*SITES][number % len(SITES)])
        assert victim is not None, f"the run was over before its {name} could be killed"
        kill(victim)
        undisturbed.members.start()
    result = run.result()
    _check(run, result, undisturbed.local)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(20 if FULL else len(VICTIMS)))
def test_any_process_may_die_at_any_moment(
    number: int,
    undisturbed: Undisturbed,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(number)
    name = [*VICTIMS][number % len(VICTIMS)]
    site, moment = draw.choice([*SITES]), draw.uniform(0.0, A_RUN)
    members = undisturbed.members
    members.start()
    run = DeployRun(members, tmp_path / "r")
    begun = time.monotonic()
    while (seconds := time.monotonic() - begun) < moment and run.process.poll() is None:
        time.sleep(0.05)
    victim = _living(run, VICTIMS[name], site)
    at_round = len(run.rounds())
    assert victim is not None, f"the run was over before its {name} could be killed"
    kill(victim)
    members.start()
    result = run.result()
    record_property("killed", f"{name} ({site}), {seconds:.1f} s, round {at_round + 1}")
    record_property("begun", run.attempts)
    _check(run, result, undisturbed.local)


def _living(run: DeployRun, find: Find, site: str) -> psutil.Process | None:
    """The process that is to die, once it is there."""
    while run.process.poll() != 0:
        run.begin_again_if_failed()
        if (found := find(run, site)) is not None:
            return found
        time.sleep(0.01)
    return None


def _check(run: DeployRun, result: dict[str, Any], expected: ramet.Result) -> None:
    """The same result; each round once, with all sites; what a site sent twice was the same."""
    records, summary = run.rounds(), expected.summary.to_json()
    for fact in ("sha256", "scores", "model"):
        assert result[fact] == summary[fact]
    if not any(record["retries"] for record in records):  # who is asked again is sent more
        assert result["traffic"] == summary["traffic"]
    there = _states(expected.folder / "clients", RunFolder(expected.folder).run_name)
    assert [record["round"] for record in records] == list(range(1, ROUNDS + 1))
    assert all(record["trained"].keys() == SITES.keys() for record in records)
    name = RunFolder(run.out).run_name
    for site in run.members.sites:
        left, _ = audit_entries(site.folder / "state")
        sent: dict[int, set[tuple[str, ...]]] = {}
        for reply in left:
            if reply.run == name:
                sent.setdefault(reply.round, set()).add(tuple(t.sha256 for t in reply.tensors))
        assert _states(site.folder / "state" / "clients", name).items() <= there.items()
        assert sent.keys() >= set(range(1, ROUNDS + 1))
        assert all(len(different) == 1 for different in sent.values())


def _states(clients: Path, run: str) -> dict[str, bytes]:
    """Private parameters, optimiser's moments and the final model, as they lie on the disk."""
    found = {
        f"{path.relative_to(clients / run)}: {name}": array.tobytes()
        for path in (clients / run).rglob("*.safetensors")
        for name, array in load_file(path).items()
    }
    assert found
    return found


@pytest.mark.thorough
def test_the_superlink_may_die_again_and_again(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """Ten times in one run: no reply is lost, none is merged twice."""
    members, draw = undisturbed.members, random.Random(11)
    members.start()
    run = DeployRun(members, tmp_path / "r")
    while not run.rounds():
        time.sleep(0.1)
    killed = 0
    while killed < 10:
        time.sleep(draw.uniform(3.0, 7.0))
        run.begin_again_if_failed()
        victim = members.service("coordinator", "superlink").process()
        assert victim is not None
        kill(victim)
        killed += 1
        members.start()
    result = run.result()
    _check(run, result, undisturbed.local)
