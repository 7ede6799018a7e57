"""kill -9 of every process of a consortium in a secure run: the SHA-256 of the run without masks.

`make faults` has twenty runs, `make e2e` two.
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
from typing import TypeAlias

import pytest

import ramet
from consortia import DeployRun, Members, consortium, kill
from federations import merged_sha256
from ramet.deploy.site import add_member
from ramet.engine.site.audit import audit_entries
from ramet.experiment import RunFolder
from victims import VICTIMS, find_victim

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
KILLS = 20 if "RAMET_FAULTS" in os.environ else 2
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin", "mass", "charge")}
ROUNDS = 3
MESSAGES = len(SITES) * (2 + 2 * (ROUNDS + 1))
"""Replies of all sites in a run: keys and shares, and two in each round and the closing one."""


@dataclass(frozen=True)
class Baseline:
    members: Members
    without_masks: ramet.Result


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Baseline]:
    """Three sites, all of which each sum needs, so that every step waits for a dead one."""
    root = tmp_path_factory.mktemp("kills")
    with consortium(
        root, SITES, method="fedstar", rounds=ROUNDS, seed=5, quorum=3, secure=True
    ) as members:
        for site in members.sites:
            for other in members.sites:
                name = f"{other.settings.site}.application.toml"
                add_member(other.folder / name, site.folder)
        sites = shlex.join(str(site.settings.data) for site in members.sites)
        local = ramet.run(
            "fedstar",
            "own",
            rounds=ROUNDS,
            seed=5,
            merge="fixed-point",
            out=root / "local",
            sites=sites,
        )
        yield Baseline(members, local)


Variants: TypeAlias = set[frozenset[tuple[str, str]]]


def sent(run: DeployRun) -> dict[tuple[str, int, str], Variants]:
    """What each site has sent in each step of each round; more than one if it sent variants."""
    variants: dict[tuple[str, int, str], Variants] = {}
    if not (run.out / "versions.json").exists():
        return variants
    for site in run.members.sites:
        state = site.folder / "state"
        for entry in audit_entries(state)[0] if any(state.rglob("audit.jsonl")) else ():
            if entry.run == RunFolder(run.out).run_name:
                key = (site.settings.site, entry.round, entry.stage)
                tensors = frozenset((tensor.name, tensor.sha256) for tensor in entry.tensors)
                variants.setdefault(key, set()).add(tensors)
    return variants


@pytest.mark.parametrize("number", range(KILLS))
def test_any_process_of_a_secure_run_may_be_killed(
    number: int,
    baseline: Baseline,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    draw, members = random.Random(number), baseline.members
    name = [*VICTIMS][number % len(VICTIMS)]
    site, moment = draw.choice([*SITES]), draw.randrange(MESSAGES - len(SITES))
    members.start()
    run = DeployRun(members, tmp_path / "r")
    while len(sent(run)) < moment:
        assert run.process.poll() is None, run.output
        time.sleep(0.1)
    time.sleep(draw.uniform(0.0, 1.0))
    victim = find_victim(run, VICTIMS[name], site)
    assert victim is not None, f"the run was over before its {name} could be killed"
    kill(victim)
    members.start()
    result, expected = run.result(), baseline.without_masks.summary
    record_property("killed", f"{name} ({site}), after {moment} of {MESSAGES} messages")
    record_property("attempts", run.attempts)
    assert result["sha256"] == merged_sha256(baseline.without_masks.folder)
    assert result["scores"]["test"] == pytest.approx(expected.scores.test, abs=1e-6)
    assert [record["round"] for record in run.rounds()] == list(range(1, ROUNDS + 1))
    assert all(record["trained"].keys() == SITES.keys() for record in run.rounds())
    for (_, _, step), variants in sent(run).items():
        assert len(variants) == 1 or step in ("keys", "shares"), "a reply under other masks"
