"""Rare classes: weights of classes and focal loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

import ramet
from planted_rare import rare_site
from planted_targets import person_site
from ramet.data.own.site import check_site, read_site
from ramet.errors import RametError
from ramet.experiment.checks import checked_experiment
from ramet.tasks import GraphClassification
from ramet.tasks.targets import CLASSES, Classes, rare_classes

OUTPUT = torch.tensor([[2.0, -1.0], [0.5, 0.25], [-1.0, 3.0]])
LABELS = torch.tensor([0, 1, 1])


def sites(folder: Path) -> list[Path]:
    return [rare_site(folder / name, seed) for seed, name in enumerate("abc")]


def run(folder: Path, files: list[Path], **given: Any) -> ramet.Result:
    options = {"network": "sage", "rounds": 40, "method": "fedavg", **given}
    return ramet.run(setting="own", sites=files, out=folder, observe=lambda record: None, **options)


def recall(result: ramet.Result) -> float:
    """Of fraud, over the test samples of all sites."""
    found = [result.evaluation(name)["test"].classes[1] for name in "abc"]
    return sum(one.recall * one.samples for one in found) / sum(one.samples for one in found)


def test_weights_and_focal_loss_find_more_of_a_rare_class(tmp_path: Path) -> None:
    files = sites(tmp_path)
    plain = recall(run(tmp_path / "plain", files))
    assert plain < 0.4
    assert recall(run(tmp_path / "balanced", files, weights="balanced")) > plain + 0.3
    assert recall(run(tmp_path / "stated", files, weights="1:30", focal=2.0)) > plain + 0.3


def test_balanced_weights_are_of_a_clients_own_training_samples(tmp_path: Path) -> None:
    result = run(tmp_path / "run", sites(tmp_path), rounds=1, weights="balanced")
    samples = result.samples("a")
    training = samples.graph.labels[samples.split.train]
    counts = training.bincount(minlength=2)
    assert samples.graph.label_scale.tolist() == pytest.approx(
        (len(training) / 2 / counts).tolist()
    )
    assert samples.graph.label_scale[training].mean() == pytest.approx(1.0)


COUNTED = "class_counts = true"
SHARES = {"a": 0.02, "b": 0.05, "c": 0.11}


def counting(folder: Path, more: str = COUNTED, **shares: float) -> list[Path]:
    """Sites with other shares of fraud; those of 1000 accounts."""
    every = {**SHARES, **shares}
    return [
        rare_site(folder / name, seed, share=share, more=more)
        for seed, (name, share) in enumerate(every.items())
    ]


@pytest.mark.parametrize("given", [{}, {"secure": True, "merge": "fixed-point"}, {"workers": 2}])
def test_sites_may_agree_on_balanced_weights(given: dict[str, Any], tmp_path: Path) -> None:
    result = run(tmp_path / "run", counting(tmp_path), rounds=1, weights="balanced", **given)
    fraud = 20 + 50 + 110
    due = torch.tensor([3000 / (2 * (3000 - fraud)), 3000 / (2 * fraud)])
    for name in SHARES:
        torch.testing.assert_close(result.samples(name).graph.label_scale, due)
    assert "class fraud: count 1000, sum 20" in "; ".join(
        read_site(tmp_path / "a" / "site.toml").sums.in_words()
    )


def test_agreed_weights_stay_when_a_run_is_verified_resumed_or_goes_on(tmp_path: Path) -> None:
    files = counting(tmp_path)
    given: dict[str, Any] = {"rounds": 1, "weights": "balanced"}
    first = run(tmp_path / "first", files, verified=True, **given)
    due = first.samples("a").graph.label_scale
    assert ramet.resume(first.folder).samples("a").graph.label_scale.equal(due)
    table = pd.read_csv(tmp_path / "a" / "accounts.csv")
    table["state"] = np.where(table["a"] > 0, "fraud", "honest")
    table.to_csv(tmp_path / "a" / "accounts.csv", index=False)
    later = run(tmp_path / "later", files, start_from=first.folder, **given)
    assert later.samples("a").graph.label_scale.equal(due)
    afresh = run(tmp_path / "afresh", files, **given)
    assert afresh.samples("a").graph.label_scale[1] < due[1] / 2


def test_counts_alone_change_nothing(tmp_path: Path) -> None:
    told = run(tmp_path / "told", counting(tmp_path / "one"), rounds=2)
    silent = run(tmp_path / "silent", counting(tmp_path / "two", more=""), rounds=2)
    assert told.samples("a").graph.label_scale is None
    assert told.summary.sha256 == silent.summary.sha256
    folder = tmp_path / "one" / "a"
    found = told.predict("a", folder / "site.toml")
    assert found.equals(silent.predict("a", tmp_path / "two" / "a" / "site.toml"))


def test_a_site_with_few_samples_of_a_class_tells_no_counts(tmp_path: Path) -> None:
    files = counting(tmp_path, a=0.009)
    assert not read_site(files[0]).sums.types[".classes"]["honest"].count
    result = run(tmp_path / "run", files, rounds=1, weights="balanced")
    due = torch.tensor([2000 / (2 * (2000 - 160)), 2000 / (2 * 160)])
    torch.testing.assert_close(result.samples("a").graph.label_scale, due)


def test_counts_of_training_samples_with_a_given_split(tmp_path: Path) -> None:
    (path,) = counting(tmp_path)[:1]
    table = pd.read_csv(path.parent / "accounts.csv")
    table["part"] = np.repeat(["train", "val", "test"], [700, 150, 150])
    table.to_csv(path.parent / "accounts.csv", index=False)
    path.write_text(path.read_text().replace('label = "state"', 'label = "state"\nsplit = "part"'))
    fraud = read_site(path).sums.types[".classes"]["fraud"]
    assert fraud.count == 700
    assert fraud.total == (table["state"][:700] == "fraud").sum()


def test_counts_of_classes_do_not_leave_a_private_run(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="has class_counts, whose sums would leave without noise"):
        run(tmp_path / "run", counting(tmp_path), rounds=1, dp="unit=site,epsilon=8,delta=1e-3")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('class_counts = "true"', None),
        ("class_counts = 1", None),
        ("class_count = true", "there is no such key. Did you mean 'class_counts'?"),
    ],
)
def test_a_mistake_with_the_key_says_what_to_do(
    more: str, problem: str | None, tmp_path: Path
) -> None:
    hint = "class_counts: is not understood. Write class_counts = true, without quotes."
    (found,) = check_site(rare_site(tmp_path / "a", 0, more=more)).problems
    assert str(found).endswith(problem or hint)


def test_numbers_have_no_class_counts(tmp_path: Path) -> None:
    (found,) = check_site(person_site(tmp_path / "a", 0, more=COUNTED)).problems
    assert "'class_counts' is for classes, and node-regression has none. Remove it" in str(found)


@pytest.mark.parametrize("given", [{"secure": True}, {"workers": 2}])
def test_with_other_capabilities(given: dict[str, Any], tmp_path: Path) -> None:
    files = sites(tmp_path)
    options = {"rounds": 3, "merge": "fixed-point", "weights": "balanced", "focal": 1.5}
    plain = run(tmp_path / "plain", files, **options)
    other = run(tmp_path / "other", files, **{**options, **given})
    assert other.summary.sha256 == plain.summary.sha256


def test_verified_rounds(tmp_path: Path) -> None:
    result = run(tmp_path / "run", sites(tmp_path), rounds=2, weights="balanced", verified=True)
    assert result.summary.rounds == 2


def test_weights_from_data_are_refused_in_private_runs_and_stated_ones_are_not() -> None:
    given: dict[str, Any] = {
        "method": "fedavg",
        "setting": "single",
        "dp": "unit=graph,epsilon=8,delta=1e-3",
    }
    with pytest.raises(RametError, match="weights=balanced does not work with --dp unit=graph"):
        checked_experiment(**given, options={"weights": "balanced"})
    stated = checked_experiment(**given, options={"weights": "1:30", "focal": "2"})
    assert stated.method.task == GraphClassification(Classes((1.0, 30.0), 2.0))


def test_the_loss_is_a_mean_of_weighted_and_focused_terms() -> None:
    weights = torch.tensor([1.0, 30.0])
    terms = functional.cross_entropy(OUTPUT, LABELS, reduction="none")
    right = OUTPUT.softmax(dim=1)[torch.arange(3), LABELS]
    weighted = CLASSES.loss(OUTPUT, LABELS, weights)
    torch.testing.assert_close(weighted, (weights[LABELS] * terms).mean())
    focused = Classes(focal=2.0).loss(OUTPUT, LABELS)
    torch.testing.assert_close(focused, ((1 - right) ** 2 * terms).mean())
    assert torch.equal(CLASSES.loss(OUTPUT, LABELS), functional.cross_entropy(OUTPUT, LABELS))


def test_focal_loss_of_a_certain_sample_has_a_gradient() -> None:
    certain = torch.tensor([[100.0, -100.0]], requires_grad=True)
    Classes(focal=0.5).loss(certain, torch.tensor([0])).backward()  # type: ignore[no-untyped-call]
    assert certain.grad is not None
    assert certain.grad.isfinite().all()


@pytest.mark.parametrize("weights", ["even", "1:", "1:-2", "0:1", "1:inf", "1,2"])
def test_a_mistake_says_what_to_do(weights: str) -> None:
    with pytest.raises(RametError, match="neither 'balanced' nor a positive number"):
        rare_classes(weights, 0.0)


def test_each_class_needs_a_weight() -> None:
    assert rare_classes("1:30", 0.0).weights == (1.0, 30.0)
    with pytest.raises(RametError, match="3 weights, but 2 classes"):
        rare_classes("1:2:3", 0.0).class_weights(LABELS, 2)
