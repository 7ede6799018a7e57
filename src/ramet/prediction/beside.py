"""How a model does on new data whose classes are known by now, beside its own test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.new_data import read_new_data
from ramet.data.own.site import Site
from ramet.data.own.tables import NO_PART
from ramet.data.splits import PARTS
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.run_models import check_metrics, evaluated
from ramet.experiment.site_record import load_parts
from ramet.metrics.bootstrap import Resampled, Score, exchangeable, share
from ramet.metrics.evaluation import Evaluation
from ramet.metrics.metric import Metric
from ramet.prediction.decision import Decision, saved
from ramet.prediction.held_out import on_own_parts, predicted_on
from ramet.prediction.source import Source
from ramet.prediction.trained import Trained
from ramet.scale import SHARE, Scale
from ramet.tasks import Predictions

_LEVEL = 0.05
_TRAIN, _TEST = PARTS.index("train"), PARTS.index("test")


@dataclass(frozen=True)
class Line:
    """One metric on new data and in the test."""

    metric: str
    scale: Scale
    new: Score
    test: Score | None = None
    difference: Score | None = None
    """New minus test, for the metric of the run."""
    p_value: float | None = None
    """That the new samples are like those of the test, by that metric."""

    def to_json(self) -> dict[str, Any]:
        facts = asdict(self)
        del facts["scale"]
        return facts


@dataclass(frozen=True)
class BesideTest:
    """A client's scores on new data and in the test."""

    client: str
    name: str
    """Of the new data."""
    lines: tuple[Line, ...]
    """The metric of the run is the first."""
    new: Predictions
    evaluation: Evaluation
    test: Predictions | None
    """None if the data of training is not on this machine."""
    test_evaluation: Evaluation | None
    decision: Decision | None
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Whether the metric of the run differs from that of the test by more than chance."""
        first = self.lines[0]
        if first.difference is None or first.p_value is None:
            return f"There is no test to compare {self.name} with"
        told = f"{first.metric} (p = {first.p_value:.2g})"
        if not first.p_value < _LEVEL:
            return f"{self.name} differs from the test no more than by chance, by {told}"
        better = first.scale.gain(first.difference.value, 0) > 0
        return f"{self.client} does {'better' if better else 'worse'} on {self.name}, by {told}"

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.name,
            "verdict": self.verdict,
            "lines": [one.to_json() for one in self.lines],
            "new": self.evaluation.to_json(),
            "notes": [*self.notes],
        }


def beside_test(trained: Trained, source: Source, given: str | None = None) -> BesideTest:
    """Score the new data that ``source`` names with a client's model.

    Rows that the model, or one that it started from, was trained on are left out, and so are rows
    without a class.
    """
    experiment, client = trained.experiment, source.client_in(trained, given)
    check_metrics(experiment)
    site, notes = _new_samples(trained, client, source)
    model = trained.model(client)
    decision, warning = saved(trained, client, model)
    test, note = _test(trained, client, model)
    new = predicted_on(experiment, site, model)["test"]
    if test is not None:
        new = replace(new, constant=test.constant)
    found, tested = (
        None if one is None else evaluated(experiment, client, one) for one in (new, test)
    )
    assert found is not None
    assert source.path is not None
    path = source.path
    name = path.parent.name if path.is_file() and path.name == "site.toml" else path.stem
    return BesideTest(
        client=client,
        name=name or "the new data",
        lines=(*_lines(experiment, new, found, test, tested), *_by_threshold(decision, new, test)),
        new=new,
        evaluation=found,
        test=test,
        test_evaluation=tested,
        decision=decision,
        notes=(*notes, *(one for one in (warning, note) if one)),
    )


def _new_samples(trained: Trained, client: str, source: Source) -> tuple[Site, list[str]]:
    """The new data, with the samples to score in the test; and how many are left out."""
    assert source.path is not None
    schema, context = trained.schema(client), source.context_in(trained, client)
    if schema.task == "link-prediction" and context is None:
        raise RametError(
            "new links are scored by the graph that they continue. Name their folder with --new."
        )
    given = schema, trained.preparation, context
    site = read_new_data(source.path, *given, purpose="scoring")
    assert site.parts is not None
    known = load_parts(trained.states / client) or KeptParts()
    was_trained = (site.parts == _TEST) & (known.parts_in(site) == _TRAIN)
    parts = torch.where(was_trained, NO_PART, site.parts)
    count, notes = int((parts == _TEST).sum()), [*site.remarks]
    if was_trained.any():
        notes.append(f"{was_trained.sum():,} rows that the model was trained on are not scored")
    if not count:
        raise RametError(
            f"{source.path} has no row to score: {'; '.join(notes) or 'none has a class'}. Fill in "
            "the column with the classes or numbers."
        )
    return replace(site, parts=parts), notes


def _test(trained: Trained, client: str, model: nn.Module) -> tuple[Predictions | None, str]:
    """What the model predicts for the samples that were its test; with a note if there is none."""
    try:
        found = on_own_parts(trained, client, model)["test"]
    except RametError as reason:
        return None, f"there is no test to compare with: {reason}".removesuffix(".")
    known = load_parts(trained.states / client) or KeptParts()
    lacking = sum(part == _TEST for part in known.part_of.values()) - len(found.labels)
    if not len(found.labels):
        return None, f"{client} has no test samples"
    is_link = trained.schema(client).task == "link-prediction"
    if lacking > 0 and not is_link:
        return found, f"{lacking:,} samples of the test are not in the data of {client} any more"
    return found, ""


def _lines(
    experiment: Experiment,
    new: Predictions,
    found: Evaluation,
    test: Predictions | None,
    tested: Evaluation | None,
) -> Iterator[Line]:
    """All metrics; that of the run first, with intervals."""
    metrics = new.target.metrics
    chosen = getattr(experiment.scored_method.task, "chosen", None) or metrics.get("roc-auc")
    first = chosen or next(iter(metrics.values()))
    ours, theirs = (
        None if given is None else Resampled.of(given.labels, given.predicted, first, seed)
        for seed, given in enumerate((new, test))
    )
    assert ours is not None
    yield Line(
        metric=first.name,
        scale=first.scale,
        new=_with_interval(ours, new, first),
        test=None if theirs is None or test is None else _with_interval(theirs, test, first),
        difference=None if theirs is None else ours.minus(theirs),
        p_value=None if test is None else _p_value(new, test, first),
    )
    for name, value in found.metrics.items():
        if name != first.name:
            other = None if tested is None else tested.metrics.get(name)
            beside = None if other is None else Score(other)
            yield Line(name, found.scales[name], Score(value), beside)
    for name, attribute in (("ECE", "calibration_error"), ("Brier", "brier")):
        value = getattr(found, attribute)
        if value is not None:
            beside = None if tested is None else Score(getattr(tested, attribute))
            yield Line(name, SHARE if name == "ECE" else Scale(), Score(value), beside)


def _by_threshold(
    decision: Decision | None, new: Predictions, test: Predictions | None
) -> Iterator[Line]:
    """Recall and precision at the threshold, with exact binomial intervals."""
    if decision is None or decision.threshold is None:
        return
    ours, theirs = (None if one is None else _found(decision, one) for one in (new, test))
    assert ours is not None
    for name, score in ours.items():
        beside = None if theirs is None else theirs[name]
        yield Line(f"{name} at threshold", SHARE, score, beside)


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


def _p_value(new: Predictions, test: Predictions, metric: Metric) -> float:
    return exchangeable((new.labels, new.predicted), (test.labels, test.predicted), metric)
