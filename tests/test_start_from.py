"""Runs that start with the models of another run."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from numpy.testing import assert_array_equal

import ramet
from command_line import ramet as command
from own_sites import messy_site, node_site
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import MODEL, model_arrays
from ramet.errors import RametError, RametWarning
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_wire
from ramet.payload import under
from ramet.studies.trial.wires import StoppedError, StoppingWire


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> ramet.Result:
    return ramet.run("fedstar", rounds=3, seed=1, out=tmp_path_factory.mktemp("from") / "first")


def started_with(run: Path, client: str) -> Snapshots:
    """The states of a client in a run."""
    return Snapshots(next((run / "clients").iterdir()) / client)


def test_clients_start_with_the_final_models_of_the_other_run(
    first: ramet.Result, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = ramet.run("fedstar", rounds=2, start_from=first.folder, out=tmp_path / "r")
    for client in ("rings", "trees", "blocks"):
        start = under(MODEL, started_with(second.folder, client).load(0).arrays)
        for name, array in model_arrays(first.model(client)).items():
            assert_array_equal(start[name], array)
    alone = ramet.run("fedstar", rounds=2, out=tmp_path / "alone")
    assert second.summary.sha256 != alone.summary.sha256
    losses = [run.frame[run.frame["round"] == 1]["loss"].mean() for run in (second, alone)]
    assert losses[0] < losses[1]


def test_where_it_started_is_kept(first: ramet.Result, tmp_path: Path) -> None:
    second = ramet.run("fedstar", rounds=1, start_from=first.folder, out=tmp_path / "r")
    settings = RunFolder(second.folder).experiment().settings
    assert settings.start_from == f"first@{first.summary.sha256}"
    assert "--from first" in settings.command
    kept = json.loads((second.folder / "start.json").read_text())
    assert kept["run"] == RunFolder(first.folder).run_name
    assert kept["sha256"] == first.summary.sha256


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_stopped_run_ends_the_same(stop: int, first: ramet.Result, tmp_path: Path) -> None:
    whole = ramet.run("fedstar", rounds=2, start_from=first.folder, out=tmp_path / "whole")
    from ramet.experiment import create_from

    settings = RunFolder(whole.folder).experiment().settings
    run = create_from(first.folder, tmp_path / "r", settings).folder
    with suppress(StoppedError):
        execute(run, StoppingWire(local_wire(run), stop), lambda _: None)
    assert run.summary() is None
    assert ramet.resume(run.path).summary.sha256 == whole.summary.sha256


def test_what_does_not_fit_is_new_and_said(tmp_path: Path) -> None:
    sites = [node_site(tmp_path / name, n) for n, name in enumerate(("north", "south"))]
    files = " ".join(map(str, sites))
    first = ramet.run("fedper", "own", rounds=2, sites=files, hidden=8, out=tmp_path / "first")
    west = node_site(tmp_path / "west", 5)
    with pytest.warns(RametWarning) as said:
        second = ramet.run(
            *("fedper", "own"),
            rounds=1,
            sites=f"{sites[0]} {west}",
            hidden=8,
            start_from=first.folder,
            out=tmp_path / "second",
        )
    assert [str(one.message) for one in said] == [
        "west starts with new values of 2 arrays, 'layers.1.weight' among them."
    ]
    fresh = json.loads((second.folder / "start.json").read_text())["fresh"]
    assert fresh["server"] == fresh["north"] == []
    north = model_arrays(first.model("north"))
    start = {
        client: under(MODEL, started_with(second.folder, client).load(0).arrays)
        for client in ("north", "west")
    }
    for name in north:
        assert_array_equal(start["north"][name], north[name])
        if name not in fresh["west"]:
            assert_array_equal(start["west"][name], north[name])


def test_another_network_takes_nothing(first: ramet.Result, tmp_path: Path) -> None:
    with pytest.warns(RametWarning, match="server starts with new values"):
        ramet.run("fedavg", rounds=1, hidden=7, start_from=first.folder, out=tmp_path / "r")


def test_columns_are_prepared_as_in_the_other_run(tmp_path: Path) -> None:
    sites = [messy_site(tmp_path / name, n, 50) for n, name in enumerate(("north", "south"))]
    files = " ".join(map(str, sites))
    first = ramet.run("fedavg", "own", rounds=1, sites=files, out=tmp_path / "first")
    later = [messy_site(tmp_path / "later" / s.parent.name, 7, 60) for s in sites]
    alone = ramet.run(
        "fedavg", "own", rounds=1, sites=" ".join(map(str, later)), out=tmp_path / "alone"
    )
    second = ramet.run(
        *("fedavg", "own"),
        rounds=1,
        sites=" ".join(map(str, later)),
        start_from=first.folder,
        out=tmp_path / "second",
    )
    prepared = [RunFolder(run.folder).experiment().preparation for run in (first, alone, second)]
    assert prepared[2] == prepared[0] != prepared[1]


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    first = ramet.run("local", rounds=1, out=tmp_path / "first")
    (first.folder / "result.json").unlink()
    with pytest.raises(RametError, match=r"first is not finished.*ramet resume"):
        ramet.run("local", rounds=1, start_from=first.folder, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_the_command_says_what_is_new(first: ramet.Result, tmp_path: Path) -> None:
    out = tmp_path / "r"
    words = ("--rounds", "1", "--set", "hidden=7", "--from", first.folder, "--out", out)
    done = command("run", "fedstar", *words)
    assert done.code == 0, done.stderr
    assert "server starts with new values of" in done.stderr


@pytest.mark.e2e
@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["superlink", "ray"])
def test_engines_agree(
    engine: Literal["ray", "superlink"], first: ramet.Result, tmp_path: Path
) -> None:
    local = ramet.run("fedstar", rounds=2, start_from=first.folder, out=tmp_path / "local")
    other = ramet.run(
        "fedstar", rounds=2, start_from=first.folder, engine=engine, out=tmp_path / "r"
    )
    assert other.summary.sha256 == local.summary.sha256
