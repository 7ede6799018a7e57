"""kill -9 of the server app at five points of a run, for three methods, then rerun the command."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ramet
from consortia import DeployRun, Members, consortium, forks, kill
from ramet.engine.site.audit import audit_entries
from ramet.experiment import RunFolder

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
FULL = "RAMET_FAULTS" in os.environ
SITES = {"north": ("mass", "charge"), "south": ("mass", "charge"), "east": ("mass", "charge")}
ROUNDS, SEED = 3, 5
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedstar": ("fedstar", {}),
    "feddense with explore": ("feddense", {"activation": "explore"}),
    "gcfl": ("gcfl", {}),
}


def _working(run: DeployRun) -> bool:
    return any(forks(run.members.service(site, "superexec")) for site in SITES)


def _sent(run: DeployRun, round_number: int) -> int:
    """How many sites have sent their reply for this round."""
    return sum(round_number in _reply_counts(run, site.folder) for site in run.members.sites)


def _reply_counts(run: DeployRun, folder: Path) -> Counter[int]:
    """How often a site sent a reply in each round of this run."""
    if not (run.out / "settings.json").exists() or not (folder / "state").exists():
        return Counter()
    sent, _ = audit_entries(folder / "state")
    return Counter(reply.round for reply in sent if reply.run == RunFolder(run.out).run_name)


POINTS: dict[str, Callable[[DeployRun], bool]] = {
    "sites introduce themselves": _working,
    "sites train": lambda run: len(run.rounds()) == 1 and _working(run),
    "some have replied": lambda run: _sent(run, 2) > 0,
    "between two rounds": lambda run: len(run.rounds()) == 2,
    "the last models are evaluated": lambda run: len(run.rounds()) == ROUNDS - 1 and _working(run),
}
CASES = [(method, point) for method in METHODS for point in POINTS]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("server")
    settings = {"method": "fedstar", "rounds": ROUNDS, "seed": SEED, "quorum": 3}
    task = {"task": "graph-classification"}  # GCFL runs on any
    with consortium(root, SITES, **settings, options=task) as found:
        found.allow(methods=[name for name, _ in METHODS.values()])
        yield found


@pytest.mark.parametrize(("method", "point"), CASES if FULL else [CASES[2]])
def test_the_server_app_may_be_killed(
    method: str, point: str, members: Members, tmp_path: Path
) -> None:
    name, options = METHODS[method]
    files = shlex.join(str(site.settings.data) for site in members.sites)
    local = ramet.run(
        name, "own", rounds=ROUNDS, seed=SEED, out=tmp_path / "local", sites=files, **options
    )
    members.change_settings(method=name, activation=options.get("activation"))
    run = DeployRun(members, tmp_path / "r")
    while not POINTS[point](run):
        assert run.process.poll() is None, "the run ended before it reached the point"
        time.sleep(0.01)
    server = run.server_app()
    assert server is not None, "the server app ended before the run reached the point"
    kill(server)
    result = run.result()
    assert run.attempts == 2
    expected = local.summary.to_json()
    for fact in ("sha256", "scores", "traffic", "model"):
        assert result[fact] == expected[fact]
    assert [record["round"] for record in run.rounds()] == list(range(1, ROUNDS + 1))
    repeated = {
        round_number
        for site in members.sites
        for round_number, times in _reply_counts(run, site.folder).items()
        if times > 1
    }
    assert len(repeated) <= 1
