"""A site is told which run counts, and uses it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ramet
from joined_sites import Joined, joined_site
from own_sites import node_site
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.experiment import RunFolder
from ramet.experiment.accepted import accepted_run
from ramet.flower.releases import RELEASE
from ramet.payload import Payload
from ramet.prediction.trained import Trained


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    return joined_site(tmp_path, monkeypatch)


def trained_runs(joined: Joined, root: Path) -> list[str]:
    """Two runs in which the site has taken part, and their names."""
    names = []
    sites = [joined.site.settings.data, node_site(root / "graphs" / "south", 2)]
    for number in range(2):
        done = ramet.run("fedavg", "own", rounds=1, sites=sites, out=root / f"run-{number}")
        run = RunFolder(done.folder)
        names.append(run.run_name)
        own = joined.site.folder / "state" / "clients" / run.run_name / "north"
        shutil.copytree(run.clients / "north", own)
    return names


def tell(joined: Joined, run: str) -> Payload:
    message = joined.signed(Payload({}, {"round": 0}, {RELEASE: run, "run": run}))
    return joined.deliver(message, joined.config())


def test_a_site_uses_the_run_that_counts(joined: Joined, tmp_path: Path) -> None:
    first, second = trained_runs(joined, tmp_path)
    folder = joined.site.folder
    assert Trained.open(folder).states.name == second
    for run in (first, second, first):
        assert tell(joined, run).notes[RELEASE] == run
        assert accepted_run(folder / "state") == run
        assert Trained.open(folder).states.name == run
        assert Trained.open(folder / "state").states.name == run
    told = [one["run"] for one in read_lines(joined.site.events) if one["event"] == "run accepted"]
    assert told == [first, second, first]


def test_a_site_refuses_a_run_of_which_it_has_no_model(joined: Joined, tmp_path: Path) -> None:
    (first, _) = trained_runs(joined, tmp_path)
    tell(joined, first)
    with pytest.raises(RametError, match="north has no final model of the run"):
        tell(joined, "a" * 32)
    with pytest.raises(RametError, match="expected the run's name"):
        tell(joined, "../" + first)
    assert accepted_run(joined.site.folder / "state") == first


def test_only_the_coordinator_can_tell(joined: Joined, tmp_path: Path) -> None:
    (first, second) = trained_runs(joined, tmp_path)
    tell(joined, first)
    unsigned = Payload({}, {"round": 0}, {RELEASE: second, "run": second, "nonce": "0" * 64})
    with pytest.raises(RametError, match="answers only its coordinator"):
        joined.deliver(unsigned, joined.config())
    assert accepted_run(joined.site.folder / "state") == first
