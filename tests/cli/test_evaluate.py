"""`ramet evaluate` and `--metric`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import ramet as command
from own_sites import messy_site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("evaluate")
    sites = [messy_site(root / name, n, 50) for n, name in enumerate(("north", "south"))]
    words = [word for path in sites for word in ("--site", path)]
    out, metric = root / "run", ("--metric", "average-precision")
    done = command("run", "fedavg", *words, "--rounds", "2", "--out", out, *metric, "--json")
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["metric"] == "average-precision"
    return out


def test_all_metrics_of_each_client(folder: Path) -> None:
    found = json.loads(command("evaluate", folder, "--json").stdout)
    assert {*found} == {"north", "south"}
    result = json.loads((folder / "result.json").read_text())
    for client, parts in found.items():
        test = parts["test"]
        assert test["metrics"]["average-precision"] == result["scores"]["clients"][client]
        assert sum(map(sum, test["confusion"])) == test["samples"] == 10
        assert [one["name"] for one in test["classes"]] == ["healthy", "ill"]


def test_a_table_of_one_client(folder: Path) -> None:
    shown = command("evaluate", folder, "--client", "north")
    assert shown.code == 0
    assert "balanced-accuracy" in shown.stdout
    assert "south" not in shown.stdout


def test_the_best_round(folder: Path) -> None:
    found = json.loads(command("evaluate", folder, "--best", "--json").stdout)
    scores = [parts["test"]["metrics"]["average-precision"] for parts in found.values()]
    expected = json.loads((folder / "result.json").read_text())["scores"]["test_at_best_val"]
    assert sum(scores) / 2 == pytest.approx(expected)


def test_an_unknown_metric(folder: Path) -> None:
    done = command("run", "fedavg", "--metric", "f1")
    assert done.code != 0
    assert "Choose one of: accuracy" in done.stderr
