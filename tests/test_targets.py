"""Numbers and several labels of sites: trained, scored, agreed on and predicted, or refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.nn import SAGEConv

import ramet
from command_line import ramet as command
from planted_targets import UNIT, molecule_site, person_site
from ramet.data.own.site import check_site, read_site
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.run_models import start_model_of
from ramet.metrics.regression import METRICS
from ramet.scale import Scale
from ramet.studies.trial.candidate import Candidate
from ramet.tasks import Numbers, SeveralLabels

SITES = "abc"
OF_NUMBERS = """
from dataclasses import replace

from ramet.methods.fedavg import fedavg
from ramet.tasks import NodeRegression


def mine():
    return replace(fedavg(), task=NodeRegression())
"""


def run(folder: Path, sites: list[Path], **given: Any) -> ramet.Result:
    options = {"network": "sage", "rounds": 120, "dropout": 0, "method": "fedavg", **given}
    return ramet.run(
        setting="own", sites=sites, out=folder / "run", observe=lambda record: None, **options
    )


def people(folder: Path, **given: Any) -> list[Path]:
    return [person_site(folder / name, seed, **given) for seed, name in enumerate(SITES)]


def test_ages_that_only_neighbours_tell_are_learned_in_years(tmp_path: Path) -> None:
    result = run(tmp_path, people(tmp_path), metric="r2")
    assert result.summary.scores.test > 0.98
    alone = run(tmp_path / "blind", people(tmp_path), network="hops", hops=0, metric="r2")
    assert alone.summary.scores.test < 0.3
    baseline = result.summary.baselines["a"].constant
    assert baseline is not None
    assert baseline < 0.1
    found = result.evaluation("a")["test"]
    assert found.metrics["mae"] < 0.1 * found.constant["mae"]
    assert found.scales["mae"].unit == "years"
    table = pd.read_csv(tmp_path / "a" / "people.csv")
    predicted = result.predict("a", tmp_path / "a" / "site.toml")
    assert predicted.columns.tolist() == ["id", "age"]
    assert np.corrcoef(predicted["age"], table["age"])[0, 1] > 0.99
    assert abs(predicted["age"] - table["age"]).mean() < 1


def test_errors_are_better_when_lower(tmp_path: Path) -> None:
    result = run(tmp_path, people(tmp_path), rounds=12)
    summary = result.summary
    assert (summary.metric, summary.scale) == (
        "mae",
        Scale(low=0.0, lower_is_better=True, unit="years"),
    )
    means = result.frame.groupby("round")["val"].mean()
    assert summary.scores.best_val_round == means.idxmin()
    shown = command("report", result.folder, "--out", tmp_path / "page")
    assert shown.code == 0, shown.stderr
    page = (tmp_path / "page" / "report.html").read_text()
    assert "mae, years" in page
    assert "%" not in page.split("<thead>")[1].split("</thead>")[0]


def test_gains_and_verdicts_count_lower_errors_as_better(tmp_path: Path) -> None:
    people(tmp_path)
    files = [str(tmp_path / name / "site.toml") for name in SITES]
    sites = [word for file in files for word in ("--site", file)]
    found = command(
        *("compare", "local", "fedavg", *sites, "--seeds", "1-2", "--rounds", "30", "--json"),
        *("--network", "sage", "--out", tmp_path / "sweep", "--set", "dropout=0", "--jobs", "1"),
    )
    assert found.code == 0, found.stderr
    local, fedavg = json.loads(found.stdout)
    assert fedavg["gain"] == pytest.approx(local["test"] - fedavg["test"])


def test_several_targets_and_several_labels(tmp_path: Path) -> None:
    both = run(tmp_path, people(tmp_path, label='["age", "score"]', more=""), metric="r2")
    assert both.summary.scores.test > 0.97
    assert [*both.evaluation("b")["test"].outputs] == ["age", "score"]
    labels = people(tmp_path / "l", task="node-multilabel", label='["near", "own"]', more="")
    several = run(tmp_path / "l", labels)
    assert several.summary.metric == "average-precision"
    assert several.summary.scores.test > 0.98
    predicted = several.predict("a", labels[0])
    assert predicted.columns.tolist() == ["id", "p_near", "p_own"]
    shown = command("evaluate", several.folder)
    assert shown.code == 0, shown.stderr
    assert "own" in shown.stdout


def test_graphs_with_a_number_and_with_several_labels(tmp_path: Path) -> None:
    sites = [molecule_site(tmp_path / name, seed) for seed, name in enumerate(SITES)]
    options = {"network": "gin", "same_schema": True, "rounds": 60}
    result = run(tmp_path, sites, metric="r2", **options)
    assert result.summary.scores.test_at_best_val > 0.98
    weights = pd.read_csv(tmp_path / "a" / "graphs.csv")["weight"]
    assert abs(result.predict("a", sites[0])["weight"] - weights).mean() < 5
    flags = [
        molecule_site(tmp_path / "f" / n, s, "graph-multilabel", '["light", "polar"]')
        for s, n in enumerate(SITES)
    ]
    assert run(tmp_path / "f", flags, **options).summary.scores.test_at_best_val > 0.95


def test_a_method_for_another_task_is_refused(tmp_path: Path) -> None:
    sites = [molecule_site(tmp_path / name, seed) for seed, name in enumerate(SITES)]
    with pytest.raises(RametError, match=r"fedstar is for graph-classification, but .* fedavg"):
        run(tmp_path, sites, method="fedstar", network=None)


def test_means_of_what_is_predicted_do_not_leave_a_private_run(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="predicts numbers, whose sums would leave without noise"):
        run(tmp_path, people(tmp_path), rounds=1, dp="unit=site,epsilon=8,delta=1e-3")


def test_sites_agree_on_means_and_deviations(tmp_path: Path) -> None:
    sites = people(tmp_path)
    result = run(tmp_path, sites, rounds=1)
    ages = [pd.read_csv(path.parent / "people.csv")["age"] for path in sites]
    every = pd.concat(ages)
    scale = result.samples("a").graph.label_scale
    assert scale[:, 0].tolist() == pytest.approx([every.mean(), every.std(ddof=0)], rel=1e-5)
    assert any("label age: count 240" in line for line in read_site(sites[0]).sums.in_words())


@pytest.mark.parametrize(
    ("task", "label"), [("node-regression", '"age"'), ("node-multilabel", '["near", "own"]')]
)
def test_the_check_describes_numbers_and_labels(task: str, label: str, tmp_path: Path) -> None:
    site = person_site(tmp_path / "a", 0, task, label, "")
    shown = command("data", "check", site)
    assert shown.code == 0, shown.stderr
    assert f"label: {label.strip('[]').split(',')[0][1:-1]}" in shown.stdout
    assert "class" not in shown.stdout
    inspected = command(
        "data", "inspect", "--site", site, "--site", person_site(tmp_path / "b", 1, task, label, "")
    )
    assert inspected.code == 0, inspected.stderr


def test_numbers_are_split_by_time_with_means_of_training_rows(tmp_path: Path) -> None:
    split = '[split]\nby = "time"\nshares = [0.5, 0.25, 0.25]\n'
    sites = people(tmp_path)
    for path in sites:
        table = pd.read_csv(path.parent / "people.csv")
        table["seen"] = pd.date_range("2026-01-01", periods=len(table)).strftime("%Y-%m-%d")
        table.to_csv(path.parent / "people.csv", index=False)
        text = path.read_text().replace("[nodes.person]", f"{split}[nodes.person]")
        path.write_text(text.replace('label = "age"', 'label = "age"\ntime = "seen"'))
    shown = command("data", "check", sites[0])
    assert shown.code == 0, shown.stdout
    result = run(tmp_path, sites, rounds=2)
    trained = [pd.read_csv(path.parent / "people.csv")["age"][:120] for path in sites]
    mean = result.samples("a").graph.label_scale[0, 0]
    assert float(mean) == pytest.approx(pd.concat(trained).mean(), rel=1e-5)


@pytest.mark.parametrize("given", [{"secure": True}, {"workers": 2}])
def test_with_other_capabilities(given: dict[str, Any], tmp_path: Path) -> None:
    plain = run(tmp_path, people(tmp_path), rounds=3, merge="fixed-point")
    other = run(tmp_path / "other", people(tmp_path), rounds=3, **{"merge": "fixed-point", **given})
    assert other.summary.sha256 == plain.summary.sha256


def test_a_round_equals_plain_pyg(tmp_path: Path) -> None:
    """One epoch on the whole graph: one step of Adam, written with PyG's layers alone."""
    result = run(tmp_path, people(tmp_path)[:1], rounds=1, method="local", epochs=1)
    experiment = RunFolder(result.folder).experiment()
    start = start_model_of(experiment, "a").state_dict()
    graph, split = result.samples("a").graph, result.samples("a").split
    layers = torch.nn.ModuleList([SAGEConv(2, 64), SAGEConv(64, 1)])
    theirs = {"neighbours": "lin_l", "own": "lin_r"}
    layers.load_state_dict(
        {
            f"{number}.{theirs[part]}.{what}": start[f"layers.{number}.{part}.{what}"]
            for number in (0, 1)
            for part, what in (("neighbours", "weight"), ("neighbours", "bias"), ("own", "weight"))
        }
    )
    training: Any = experiment.method.training
    optimiser = torch.optim.Adam(
        layers.parameters(), lr=training.lr, weight_decay=training.weight_decay
    )
    mean, deviation = graph.label_scale
    wanted = (graph.labels - mean) / deviation
    hidden = layers[0](graph.x, graph.edge_index).relu()
    output = layers[1](hidden, graph.edge_index)
    torch.nn.functional.mse_loss(output[split.train], wanted[split.train]).backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    trained = result.model("a").state_dict()
    for number in (0, 1):
        for part, name in theirs.items():
            expected = layers.state_dict()[f"{number}.{name}.weight"]
            torch.testing.assert_close(
                trained[f"layers.{number}.{part}.weight"], expected, rtol=0, atol=1e-6
            )


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"more": 'classes = ["x", "y"]'}, "node-regression has no classes"),
        ({"label": '["age", "age"]'}, "lists the column 'age' twice"),
        ({"label": '"years"'}, "there is no such column"),
        ({"label": '"id"'}, "has 'id' as 'label' and as 'id'"),
        ({"label": "[]"}, "label"),
        ({"label": '["age", "a"]'}, "'a' of .* cannot be a feature: it is the label"),
        ({"more": "unit = 3"}, "unit"),
        ({"task": "node-multilabel", "more": UNIT}, "'unit' is for numbers"),
        ({"task": "node-multilabel", "label": '["age"]', "more": ""}, "is not"),
        ({"task": "node-classification", "label": '["near", "own"]',
          "more": 'classes = ["0", "1"]'}, "takes a single column as 'label'"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_to_do(change: dict[str, str], detail: str, tmp_path: Path) -> None:
    checked = check_site(person_site(tmp_path / "a", 0, **change))
    assert checked.site is None
    assert any(re.search(detail, str(one)) for one in checked.problems)


def test_a_missing_number_is_named_by_its_row(tmp_path: Path) -> None:
    path = person_site(tmp_path / "a", 0)
    table = pd.read_csv(path.parent / "people.csv").astype({"age": object})
    table.loc[4, "age"] = ""
    table.to_csv(path.parent / "people.csv", index=False)
    (problem,) = check_site(path).problems
    assert "row 6" in str(problem)
    assert "the number is missing" in str(problem)


def test_methods_that_compute_with_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="computes with classes, and the task has none"):
        run(tmp_path, people(tmp_path), method="fedproto", rounds=1)


def test_a_method_for_numbers_is_tried_on_numbers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OF_NUMBERS)
    given = Candidate(f"{tmp_path}/mine.py:mine", tmp_path).arguments()
    assert given["setting"] == "planted-targets"
    assert given["options"] == {"predicts": "node-regression"}


def test_sites_with_other_units_cannot_train_together(tmp_path: Path) -> None:
    sites = [person_site(tmp_path / "a", 0), person_site(tmp_path / "b", 1, more='unit = "days"')]
    with pytest.raises(RametError, match="its unit is 'days', not 'years'"):
        run(tmp_path, sites, rounds=1)


def test_unknown_numbers_count_in_no_loss_and_no_score() -> None:
    output = torch.tensor([[1.0, 5.0], [2.0, 7.0]], requires_grad=True)
    labels = torch.tensor([[1.5, torch.nan], [torch.nan, 7.0]])
    loss = Numbers().loss(output, labels)
    assert float(loss) == pytest.approx(0.25 / 4)
    loss.backward()  # type: ignore[no-untyped-call]
    assert output.grad is not None
    assert output.grad.isfinite().all()
    assert float(SeveralLabels().loss(output, (labels > 1).float())) > 0
    true = np.array([[1.0, np.nan], [3.0, 2.0]])
    assert METRICS["mae"](true, np.array([[2.0, 9.0], [3.0, 4.0]])) == pytest.approx((0.5 + 2) / 2)
    assert METRICS["r2"](true[:1], np.zeros((1, 2))) is None
