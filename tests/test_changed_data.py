"""Changed data is noticed: an error for `resume`, a warning for `Result`."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import ramet
from command_line import ramet as command
from own_sites import node_site
from ramet.errors import RametError, RametWarning


@pytest.fixture
def result(tmp_path: Path) -> ramet.Result:
    sites = [node_site(tmp_path / name, n) for n, name in enumerate(("north", "south"))]
    return ramet.run(
        "fedavg", "own", rounds=1, sites=" ".join(map(str, sites)), out=tmp_path / "r", hidden=4
    )


def change(site: Path) -> None:
    """Change a feature of the first patient."""
    table = site / "patients.csv"
    head, first, *others = table.read_text().splitlines()
    number, _, *rest = first.split(",")
    table.write_text("\n".join([head, ",".join([number, "0.125", *rest]), *others]) + "\n")


def test_a_stopped_run_is_not_resumed_on_changed_data(result: ramet.Result) -> None:
    (result.folder / "result.json").unlink()
    change(result.folder.parent / "south")
    with pytest.raises(RametError, match=r"the data of south has changed.*Restore it.*--from"):
        ramet.resume(result.folder)


def test_a_finished_run_does_not_go_on_with_changed_data(result: ramet.Result) -> None:
    change(result.folder.parent / "north")
    with pytest.raises(RametError, match="the data of north has changed"):
        ramet.resume(result.folder, rounds=2)


def test_models_and_metrics_come_with_a_warning(result: ramet.Result) -> None:
    change(result.folder.parent / "north")
    with pytest.warns(RametWarning, match="the data of north has changed since the run"):
        result.model("north")
    with pytest.warns(RametWarning, match="north"):
        result.evaluation("north")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.evaluation("south")


def test_the_command_prints_the_warning_as_a_line(result: ramet.Result) -> None:
    change(result.folder.parent / "north")
    done = command("evaluate", result.folder)
    assert done.code == 0
    assert "ramet: the data of north has changed since the run in" in done.stderr


def test_models_do_not_need_the_data(result: ramet.Result) -> None:
    (result.folder.parent / "north" / "patients.csv").unlink()
    with pytest.warns(RametWarning, match="the data of north cannot be compared"):
        assert result.model("north")


def test_a_run_of_an_older_version_has_no_hash(result: ramet.Result) -> None:
    (result.folder / "result.json").unlink()
    split = json.loads((result.folder / "split.json").read_text())
    for facts in split["clients"].values():
        del facts["data_sha256"]
    (result.folder / "split.json").write_text(json.dumps(split))
    assert ramet.resume(result.folder).summary.sha256 == result.summary.sha256


@pytest.fixture
def compared(tmp_path: Path) -> tuple[str | Path, ...]:
    """A comparison of two sites that has finished."""
    sites = [node_site(tmp_path / name, n) for n, name in enumerate(("north", "south"))]
    words = ("compare", "fedavg", *(word for site in sites for word in ("--site", site)))
    words += ("--rounds", "2", "--seeds", "1", "--out", tmp_path / "s", "--set", "hidden=4")
    assert command(*words, "--keep", tmp_path / "kept").code == 0
    return words


@pytest.mark.thorough
def test_a_comparison_is_not_shown_for_changed_data(
    compared: tuple[str | Path, ...], tmp_path: Path
) -> None:
    sweep = tmp_path / "s"
    before = {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()}
    assert command(*compared).code == 0
    change(tmp_path / "south")
    done = command(*compared)
    assert done.code == 2
    assert "the data of south has changed since the run in" in done.stderr
    assert "Choose another folder with --out" in done.stderr
    assert not done.stdout
    assert {path: path.read_bytes() for path in sweep.rglob("*") if path.is_file()} == before


def test_a_kept_result_is_not_used_for_changed_data(
    compared: tuple[str | Path, ...], tmp_path: Path
) -> None:
    again = (*compared, "--keep", tmp_path / "kept", "--out", tmp_path / "t")
    assert command(*again).code == 0
    change(tmp_path / "south")
    done = command(*again)
    assert done.code == 2
    assert "the data has changed since the kept result of local" in done.stderr
    assert not (tmp_path / "t").exists()


def test_a_search_does_not_go_on_with_changed_data(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    sites = " ".join(str(node_site(tmp_path / name)) for name in ("north", "south"))

    def search() -> None:
        ramet.tune("fedavg", "own", trials=1, rounds=1, sites=sites, out=tmp_path / "t")

    search()
    before = (tmp_path / "t" / "tune.json").read_bytes()
    change(tmp_path / "south")
    with pytest.raises(RametError, match="the data of south has changed since the run in"):
        search()
    assert (tmp_path / "t" / "tune.json").read_bytes() == before
