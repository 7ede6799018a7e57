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
