"""Scores side by side with intervals, and whether chance explains the difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ramet.experiment import Experiment
from ramet.metrics.bootstrap import Resampled, Score, exchangeable, share, swappable
from ramet.metrics.evaluation import Evaluation
from ramet.metrics.metric import Metric
from ramet.prediction.decision import Decision
from ramet.scale import SHARE, Scale
from ramet.tasks import Predictions

LEVEL = 0.05


@dataclass(frozen=True)
class Line:
    """One metric on new data, and in the test or of another model."""

    metric: str
    scale: Scale
    new: Score
    other: Score | None = None
    """In the test, or of the other model on the same samples."""
    difference: Score | None = None
    """New minus other, for the metric of the run."""
    p_value: float | None = None
    """That both are alike, by that metric."""

    def to_json(self, other: str) -> dict[str, Any]:
        """``other`` is the name of the other score."""
        facts = asdict(self)
        del facts["scale"]
        return {other if key == "other" else key: value for key, value in facts.items()}


def lines(
    experiment: Experiment,
    new: Predictions,
    found: Evaluation,
    other: Predictions | None,
    evaluation: Evaluation | None,
    paired: bool = False,
) -> Iterator[Line]:
    """All metrics; that of the run first, with intervals.

    ``paired``: the other predictions are of another model for the same samples.
    """
    metrics = new.target.metrics
    chosen = getattr(experiment.scored_method.task, "chosen", None) or metrics.get("roc-auc")
    first = chosen or next(iter(metrics.values()))
    ours, theirs = (
        None if given is None else Resampled.of(given.labels, given.predicted, first, seed)
        for seed, given in ((0, new), (0 if paired else 1, other))
    )
    assert ours is not None
    yield Line(
        metric=first.name,
        scale=first.scale,
        new=_with_interval(ours, new, first),
        other=None if theirs is None or other is None else _with_interval(theirs, other, first),
        difference=None if theirs is None else ours.minus(theirs),
        p_value=None if other is None else _p_value(new, other, first, paired),
    )
    for name, value in found.metrics.items():
        if name != first.name:
            score = None if evaluation is None else evaluation.metrics.get(name)
            beside = None if score is None else Score(score)
            yield Line(name, found.scales[name], Score(value), beside)
    for name, attribute in (("ECE", "calibration_error"), ("Brier", "brier")):
        value = getattr(found, attribute)
        if value is not None:
            beside = None if evaluation is None else Score(getattr(evaluation, attribute))
            yield Line(name, SHARE if name == "ECE" else Scale(), Score(value), beside)


def by_threshold(
    new: tuple[Decision | None, Predictions], other: tuple[Decision | None, Predictions | None]
) -> Iterator[Line]:
    """Recall and precision at the threshold, with exact binomial intervals."""
    ours, theirs = (
        None if by is None or by.threshold is None or given is None else _found(by, given)
        for by, given in (new, other)
    )
    for name, score in (ours or {}).items():
        yield Line(f"{name} at threshold", SHARE, score, None if theirs is None else theirs[name])


def _found(decision: Decision, given: Predictions) -> dict[str, Score]:
    """How many of the class are found, and how many of those found are right."""
    chosen = decision.classes(decision.calibrated(given.predicted)) == 1
    is_class = given.labels == 1
    right = int((chosen & is_class).sum())
    return {
        "recall": share(right, int(is_class.sum())),
        "precision": share(right, int(chosen.sum())),
    }


def _with_interval(found: Resampled, given: Predictions, metric: Metric) -> Score:
    """Of an accuracy the exact interval."""
    if metric.name != "accuracy" or not given.target.has_classes:
        return found.score
    right = given.predicted.argmax(axis=1) == given.labels
    return share(int(right.sum()), len(right))


def _p_value(new: Predictions, other: Predictions, metric: Metric, paired: bool) -> float:
    if paired:
        return swappable(new.labels, (new.predicted, other.predicted), metric)
    return exchangeable((new.labels, new.predicted), (other.labels, other.predicted), metric)
