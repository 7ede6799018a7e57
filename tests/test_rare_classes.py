"""Rare classes: weights of classes and focal loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import ramet
from planted_rare import rare_site
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
