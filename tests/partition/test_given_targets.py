"""Numbers and several labels of PyG objects."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import planted_targets
import ramet
from own_settings import molecules
from own_settings import people as classified
from ramet import RametError, Reading, Setting, from_pyg
from ramet.data import Split
from ramet.experiment import RunFolder
from ramet.partition.checked import data_of
from ramet.partition.given import with_given

READING = Reading(Path(), split_seed=3)
NAMES = "abc"
OPTIONS: dict[str, Any] = {
    "network": "sage",
    "rounds": 120,
    "dropout": 0,
    "observe": lambda record: None,
}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of this test."""
    monkeypatch.setenv("RAMET_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def people(seed: int, *columns: str) -> Data:
    """The people of the planted sites, with these columns as y."""
    table, links = planted_targets.people(Path(), seed)
    row = {name: n for n, name in enumerate(table["id"])}
    ends = [links[end].map(row).to_numpy() for end in ("source", "target")]
    return Data(
        x=torch.tensor(table[["a", "b"]].to_numpy(), dtype=torch.float32),
        y=torch.tensor(table[[*columns]].to_numpy()).squeeze(1),
        edge_index=torch.tensor(np.stack(ends)),
    )


def clients(*columns: str) -> dict[str, Data]:
    return {name: people(seed, *columns) for seed, name in enumerate(NAMES)}


def measured(seed: int) -> list[Data]:
    """Graphs with two numbers: the means of two features."""
    graphs = molecules(seed, 60)
    for graph in graphs:
        graph.y = 100 + 20 * graph.x.mean(dim=0)[:2]
    return graphs


def test_floats_are_numbers_in_a_common_unit(tmp_path: Path) -> None:
    result = ramet.run("fedavg", clients=clients("age"), metric="r2", out=tmp_path / "r", **OPTIONS)
    assert result.summary.scores.test > 0.98
    samples = {name: result.samples(name) for name in NAMES}
    trained = torch.cat([one.graph.labels[one.split.train] for one in samples.values()]).double()
    expected = [float(trained.mean()), float(trained.std(correction=0))]
    for one in samples.values():
        assert one.graph.label_scale[:, 0].tolist() == pytest.approx(expected, rel=1e-5)
    predicted, known = result.predict("a")["0"], people(0, "age").y.numpy()
    assert abs(predicted - known).mean() < 1
    exported = result.export("a", tmp_path / "model", programs=False).folder
    config = json.loads((exported / "config.json").read_text())
    assert [row[0] for row in config["scale"]] == pytest.approx(expected, rel=1e-5)


def test_every_way_of_running_gives_the_same_numbers(tmp_path: Path) -> None:
    options = {**OPTIONS, "rounds": 3}
    first = ramet.run("fedavg", clients=clients("age", "score"), out=tmp_path / "a", **options)
    workers = ramet.run(
        "fedavg", clients=clients("age", "score"), workers=2, out=tmp_path / "b", **options
    )
    told: dict[str, Any] = RunFolder(first.folder).experiment().settings.options
    again = ramet.run("fedavg", "given", out=tmp_path / "c", **{**options, **told})
    assert {run.summary.sha256 for run in (workers, again)} == {first.summary.sha256}
    assert [*first.evaluation("b")["test"].outputs] == ["0", "1"]


def test_booleans_are_several_labels_if_the_task_says_so(tmp_path: Path, data: Path) -> None:
    labels = clients("near", "own")
    for one in labels.values():
        one.y = one.y.bool()
    result = ramet.run(
        "fedavg", clients=labels, task="node-multilabel", out=tmp_path / "r", **OPTIONS
    )
    assert result.summary.metric == "average-precision"
    assert result.summary.scores.test > 0.98
    assert result.predict("a").columns.tolist() == ["id", "p_0", "p_1"]
    assert result.samples("a").graph.label_scale is None
    floats = {name: people(seed, "near", "own") for seed, name in enumerate(NAMES)}
    for one in floats.values():
        one.y = one.y.float()
    hashes = {
        with_given("tiny", {"clients": floats}, data, task)[1]["sha256"]
        for task in ("node-multilabel", "node-regression")
    }
    assert len(hashes) == 2


def test_graphs_with_numbers_and_with_labels(tmp_path: Path) -> None:
    numbers = {name: measured(seed) for seed, name in enumerate(NAMES)}
    options = {**OPTIONS, "network": "gin", "rounds": 60}
    result = ramet.run("fedavg", clients=numbers, metric="r2", out=tmp_path / "n", **options)
    assert result.summary.scores.test_at_best_val > 0.9
    assert result.samples("b").block.classes == 2
    for graphs in numbers.values():
        for graph in graphs:
            graph.y = graph.y > 100
    labels = ramet.run(
        "fedavg", clients=numbers, task="graph-multilabel", out=tmp_path / "l", **options
    )
    assert labels.summary.scores.test_at_best_val > 0.9


def test_nodes_without_any_number_are_in_no_part() -> None:
    one = people(1, "age", "score")
    one.y[:10] = torch.nan
    one.y[10:20, 1] = torch.nan
    held = from_pyg(one, READING)
    parts = torch.cat([held.split.train, held.split.val, held.split.test])
    assert sorted(parts.tolist()) == [*range(10, 240)]
    assert held.content.labels.shape == (240, 2)
    assert held.content.classes == 2


def test_whole_numbers_are_numbers_if_the_task_says_so() -> None:
    held = from_pyg(classified(1), READING, task="node-regression")
    assert held.content.labels.dtype == torch.float32
    assert held.content.labels.shape == (40, 1)


def changed(y: Any) -> Data:
    one = classified(1)
    one.y = y
    return one


MISTAKES: dict[str, tuple[Any, str | None, str]] = {
    "level": (classified(1), "graph-regression", "which is not for graph-regression. Give one"),
    "links": (classified(1), "link-prediction", "which is not for link-prediction"),
    "classes": (changed(torch.rand(40)), "node-classification", r"classes are whole.*y\.long"),
    "infinite": (changed(torch.full((40,), torch.inf)), None, "inf in row 0, column 0, but a fin"),
    "not a label": (changed(torch.full((40, 2), 0.5)), "node-multilabel", "0.5 in .* but 0 or 1"),
    "shape": (changed(torch.rand(3)), None, r"shape \[3\], but a number for 40 nodes is due"),
    "no y": (changed(None), "node-regression", "has no y. Give each node its number"),
    "unknown": (changed(torch.full((40,), torch.nan)), None, "has 0 nodes with a known y"),
    "nothing": (
        [*measured(1), Data(x=torch.ones(2, 3), y=torch.tensor([torch.nan] * 2))],
        None,
        "y of graph 60 of the data is not known. Give it its number, or leave out the graph",
    ),
    "columns": (
        [*measured(1), Data(x=torch.ones(2, 3), y=torch.tensor([1.0]))],
        None,
        "y of graph 0 of the data has 2 columns and that of graph 60 of the data 1",
    ),
    "both": (
        [*measured(1), Data(x=torch.ones(2, 3), y=torch.tensor([1]))],
        None,
        "floats, but of graph 60 of the data whole numbers. Give all the same",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_where_it_is_and_what_to_do(mistake: str) -> None:
    given, task, message = MISTAKES[mistake]
    with pytest.raises(RametError, match=message):
        from_pyg(given, READING, task=task)  # type: ignore[arg-type]


def test_means_of_all_clients_have_no_noise(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="mean and deviation over all clients, which no noise"):
        ramet.run(
            "fedavg",
            clients=clients("age"),
            out=tmp_path / "r",
            dp="unit=site,epsilon=8,delta=1e-3",
            **{**OPTIONS, "rounds": 1},
        )


class Overlapping(Setting):
    """A setting whose split has a node twice."""

    clients = ("one",)

    def __init__(self, task: Any) -> None:
        self._task = task

    @property
    def task(self) -> Any:
        return self._task

    def client_data(self, client: str, reading: Reading) -> Any:
        held = from_pyg(people(1, "age"), reading)
        return replace(held, split=Split(held.split.train, held.split.train, held.split.test))


@pytest.mark.parametrize("task", ["node-regression", None])
def test_a_split_is_checked_whatever_the_task_is_called(task: str | None) -> None:
    with pytest.raises(RametError, match="is in two parts of the split"):
        data_of(Overlapping(task), "one", READING)
