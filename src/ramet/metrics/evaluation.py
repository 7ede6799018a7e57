"""All scores of a model on one part of a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ramet.metrics.metric import Labels, Metric, Predicted
from ramet.scale import Scale


@dataclass(frozen=True)
class ClassScores:
    """How well one class is found."""

    name: str
    precision: float
    recall: float
    f1: float
    samples: int


@dataclass(frozen=True)
class Evaluation:
    """All metrics of a model on one part of a split."""

    samples: int
    metrics: dict[str, float]
    """Without those that the samples do not allow, such as R² of a single one."""
    constant: dict[str, float]
    """The same metrics for always predicting what the training samples say: their most frequent
    class, their means, or the share of each label."""
    scales: dict[str, Scale]
    """How the metrics are read."""
    outputs: dict[str, dict[str, float]] = field(default_factory=dict)
    """The metrics of each target or label, if there may be several."""
    calibration_error: float | None = None
    """The expected calibration error (ECE) of the most likely class, in 15 bins."""
    brier: float | None = None
    classes: list[ClassScores] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)
    """Samples by true class (rows) and predicted class (columns)."""

    def to_json(self) -> dict[str, Any]:
        facts = asdict(self)
        del facts["scales"]
        return {name: fact for name, fact in facts.items() if fact not in ({}, [], None)}


def scored(
    true: Labels,
    predicted: Predicted,
    constant: Predicted,
    metrics: Mapping[str, Metric],
    unit: str = "",
    **more: Any,
) -> Evaluation:
    """The metrics of predictions, and of a constant row of them."""
    always = np.tile(constant, (len(true), 1))
    return Evaluation(
        samples=len(true),
        metrics=_known(metrics, true, predicted),
        constant=_known(metrics, true, always),
        scales={name: metric.in_unit(unit).scale for name, metric in metrics.items()},
        **more,
    )


def scored_by_output(
    true: Labels,
    predicted: Predicted,
    names: Sequence[str],
    constant: Predicted,
    metrics: Mapping[str, Metric],
    unit: str = "",
) -> Evaluation:
    """The metrics of numbers or labels: those of each output, and their means."""
    columns = [slice(number, number + 1) for number in range(len(names))]
    outputs = {
        output: _known(metrics, true[:, column], predicted[:, column])
        for output, column in zip(names, columns, strict=True)
    }
    return scored(true, predicted, constant, metrics, unit, outputs=outputs)


def _known(metrics: Mapping[str, Metric], true: Labels, predicted: Predicted) -> dict[str, float]:
    """The metrics that can be computed."""
    scores = {name: metric(true, predicted) for name, metric in metrics.items()}
    return {name: score for name, score in scores.items() if score is not None}
