"""What links add, and gradient boosting at each site as a yardstick."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import ramet
from command_line import ramet as command
from own_sites import NODES_TOML, graph_site, link_site, node_site, write_csv, write_toml
from planted_edges import bank
from planted_targets import UNIT, molecule_site, person_site
from ramet.experiment import RunFolder
from ramet.studies.finished_run import FinishedRun
from ramet.studies.table_only import TREES, boosted, tree_standings
from ramet.tasks import TargetTask


def experiment(folder: Path, toml: Path, **options: Any) -> Any:
    given = {"setting": "own", "sites": str(toml), "network": "mlp", "method": "local", **options}
    ramet.run(rounds=1, out=folder / "run", observe=lambda _: None, **given)
    return RunFolder(folder / "run").experiment()


def test_trees_are_those_of_scikit_learn(tmp_path: Path) -> None:
    found = experiment(tmp_path, node_site(tmp_path / "north", 1, 200), seed=3)
    samples, task = found.samples("north"), found.scored_method.task
    predicted = boosted(samples, task, 3)
    x, y, split = samples.graph.features.numpy(), samples.graph.labels.numpy(), samples.split
    trees = HistGradientBoostingClassifier(random_state=3).fit(x[split.train], y[split.train])
    assert predicted.predicted == pytest.approx(trees.predict_proba(x[split.test]))
    assert predicted.labels.tolist() == y[split.test].tolist()
    run = FinishedRun.of(RunFolder(tmp_path / "run"))
    assert run is not None
    (standing,) = tree_standings({"local": {run.draw: run}})[0].sites
    assert standing.alone == trees.score(x[split.test], y[split.test])
    assert standing.together == run.summary.scores.clients["north"]
    assert TREES


@pytest.mark.parametrize("task", ["graphs", "edges", "graph-regression"])
def test_rows_of_graphs_and_edges(task: str, tmp_path: Path) -> None:
    if task == "graphs":
        toml = graph_site(tmp_path / "north", ("mass", "charge"), 60)
    elif task == "edges":
        toml = bank(tmp_path / "north", 1)
    else:
        toml = molecule_site(tmp_path / "north", 1, task, '["weight"]', UNIT)
    found = experiment(tmp_path, toml)
    samples, one = found.samples("north"), found.scored_method.task
    assert isinstance(one, TargetTask)
    predicted = boosted(samples, one, 0)
    assert len(predicted.predicted) == len(samples.split.test) > 0
    if task == "graph-regression":
        block, split = samples.block, samples.split
        of = np.repeat(np.arange(block.graphs), np.diff(block.node_starts))
        counts = np.bincount(of)
        sums = [np.bincount(of, column) for column in block.features.numpy().T]
        x = np.stack([*(total / counts for total in sums), counts], axis=1).astype(np.float32)
        y = block.labels[:, 0].numpy()
        trees = HistGradientBoostingRegressor(random_state=0).fit(x[split.train], y[split.train])
        assert predicted.predicted[:, 0] == pytest.approx(trees.predict(x[split.test]), rel=1e-4)


def test_several_labels_and_a_label_that_all_rows_have(tmp_path: Path) -> None:
    toml = person_site(tmp_path / "north", 1, "node-multilabel", '["near", "own"]', "")
    found = experiment(tmp_path, toml)
    samples = found.samples("north")
    samples.graph.labels[:, 1] = 1.0
    predicted = boosted(samples, found.scored_method.task, 0)
    assert (predicted.predicted[:, 1] == 1).all()
    assert 0 < predicted.predicted[:, 0].std() < 1


def by_friends(folder: Path, seed: int) -> Path:
    """Patients are ill if those that they met have a high dose; their own dose says nothing."""
    draw = random.Random(seed)
    doses = [draw.gauss(0, 1) for _ in range(240)]
    met = {n: draw.sample(range(120, 240), 2) for n in range(120)}
    ill = [sum(doses[m] for m in met[n]) > 0 if n in met else None for n in range(240)]
    text = {True: "ill", False: "healthy", None: ""}
    part = ["train", "val", "test"]
    rows = [
        (f"p{n}", 1.0, round(doses[n], 3), text[ill[n]], part[n // 4 % 3] if n in met else "none")
        for n in range(240)
    ]
    write_csv(folder / "patients.csv", "id,age,dose,state,part", rows)
    links = [(f"p{n}", f"p{m}") for n, of in met.items() for m in of]
    write_csv(folder / "contacts.csv", "source,target", links)
    toml = NODES_TOML.format(site=folder.name)
    return write_toml(folder, toml.replace('label = "state"', 'label = "state"\nsplit = "part"'))


def test_compare_answers_whether_links_and_joining_help(tmp_path: Path) -> None:
    sites = [by_friends(tmp_path / name, seed) for seed, name in enumerate(("north", "south"))]
    given: list[str | Path] = ["--site", sites[0], "--site", sites[1], "--network", "sage"]
    given += ["--set", "lr=0.05"]
    given += ["--seeds", "1-2", "--rounds", "15", "--out", tmp_path / "sweep", "--without-links"]
    done = command("compare", "fedavg", *given)
    assert done.code == 0, done.stderr
    assert "Does the graph help? Each method, compared with itself without links:" in done.stdout
    assert "Is a table enough? Each method, compared with gradient boosting" in done.stdout
    rows = json.loads(command("compare", "fedavg", *given, "--json").stdout)
    by_label = {row["label"]: row for row in rows}
    assert set(by_label) == {"local", "fedavg", "local,network=mlp", "fedavg,network=mlp"}
    assert not by_label["fedavg,network=mlp"]["links"]
    for question in ("links", "trees"):
        for site in by_label["fedavg"][question]:
            assert site["gain"]["mean"] > 0.15, (question, site)
            assert site["gain"]["low"] is not None
    assert [site["site"] for site in by_label["fedavg,network=mlp"]["sites"]] == ["north", "south"]


def test_links_to_predict_have_no_rows(tmp_path: Path) -> None:
    found = experiment(tmp_path, link_site(tmp_path / "north"))
    assert found.method.task.name == "link-prediction"
    run = FinishedRun.of(RunFolder(tmp_path / "run"))
    assert run is not None
    assert tree_standings({"local": {run.draw: run}}) == []
