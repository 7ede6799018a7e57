"""A consortium whose sites require secure sums, over nginx, TLS and a SuperLink."""

from __future__ import annotations

import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest

import ramet
from consortia import DeployRun, Members, consortium
from ramet.deploy.run import run_consortium
from ramet.deploy.site import POLICY, add_member
from ramet.engine.audit import audit_entries
from ramet.experiment import RunFolder

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
FIVE = dict.fromkeys(("north", "south", "east", "west", "centre"), ("mass",))


def require_secure_sums(members: Members) -> None:
    """Let the sites accept each other, and require secure sums of at least three."""
    for site in members.sites:
        for other in members.sites:
            name = other.settings.site
            add_member(other.folder / f"{name}.application.toml", site.folder)
        (site.folder / POLICY).write_text('secure = "required"\nmembers = 3\n')


def in_fixed_point(members: Members, rounds: int, folder: Path) -> ramet.Result:
    files = shlex.join(str(site.settings.data) for site in members.sites)
    return ramet.run(
        "fedstar", "own", rounds=rounds, seed=3, out=folder, sites=files, merge="fixed-point"
    )


def test_three_sites_that_require_secure_sums(tmp_path: Path) -> None:
    three = dict([*FIVE.items()][:3])
    with consortium(tmp_path, three, method="fedstar", rounds=2, seed=3, secure=True) as members:
        require_secure_sums(members)
        run = run_consortium(
            members.coordinator, tmp_path / "run", tmp_path, 300.0, lambda _: None, lambda _: None
        )
        summary = run.summary()
        expected = in_fixed_point(members, 2, tmp_path / "local")
        assert summary is not None
        assert summary.sha256 == expected.summary.sha256
        clear = {t.sha256 for e in audit_entries(expected.folder)[0] for t in e.tensors}
        for site in members.sites:
            sent = {t.sha256 for e in audit_entries(site.folder / "state")[0] for t in e.tensors}
            assert sent
            assert not sent & clear


def test_two_of_five_sites_die_and_the_run_completes(tmp_path: Path) -> None:
    with consortium(
        tmp_path, FIVE, method="fedstar", rounds=3, seed=3, quorum=3, secure=True, deadline=20.0
    ) as members:
        require_secure_sums(members)
        run, folder = DeployRun(members, tmp_path / "run"), RunFolder(tmp_path / "run")
        while not (folder.started and folder.rounds_done()):
            assert run.process.poll() is None, run.output
            time.sleep(0.2)
        for name in ("north", "south"):
            for service in members.site(name).services():
                process = service.process()
                if process is not None:
                    process.send_signal(signal.SIGKILL)
            time.sleep(4.0)
        assert run.result()["rounds"] == 3
        last = folder.records()[-1]
        assert {"north", "south"} <= last.failed.keys()
        assert set(last.trained) == {"east", "west", "centre"}
