"""A new model against the one that is in use, on rows that neither has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ramet.data.own.schema import differences
from ramet.data.own.site import Site
from ramet.errors import RametError
from ramet.experiment.run_models import check_metrics, evaluated
from ramet.metrics.evaluation import Evaluation
from ramet.prediction.decision import Decision, saved
from ramet.prediction.held_out import predicted_on
from ramet.prediction.late import late_site, name_of, seen, without
from ramet.prediction.lines import LEVEL, Line, by_threshold, lines
from ramet.prediction.source import Source
from ramet.prediction.trained import Trained
from ramet.tasks import Predictions

_SEEN = ("train", "val")


class Scored(NamedTuple):
    """What one model predicts for the samples."""

    predictions: Predictions
    evaluation: Evaluation
    decision: Decision | None
    warning: str


@dataclass(frozen=True)
class Against:
    """A client's models of two runs on the same new data."""

    client: str
    name: str
    """Of the new data."""
    runs: tuple[str, str]
    """The new run, and the other."""
    lines: tuple[Line, ...]
    """The metric of the new run is the first."""
    scored: tuple[Scored, Scored]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Which model to use, by the metric of the run."""
        first, (new, other) = self.lines[0], self.runs
        assert first.difference is not None
        assert first.p_value is not None
        told = f"by {first.metric} (p = {first.p_value:.2g})"
        if not first.p_value < LEVEL:
            return (
                f"{new} and {other} differ on {self.name} no more than by chance, {told}: nothing "
                f"speaks against keeping {other}"
            )
        if first.scale.gain(first.difference.value, 0) > 0:
            return f"{new} is better than {other} on {self.name}, {told}: use {new}"
        return f"{new} is worse than {other} on {self.name}, {told}: keep {other}"

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.name,
            "runs": [*self.runs],
            "verdict": self.verdict,
            "samples": len(self.scored[0].predictions.labels),
            "lines": [one.to_json("other") for one in self.lines],
            "notes": [*self.notes],
        }


def against(trained: Trained, other: Trained, source: Source, given: str | None = None) -> Against:
    """Score a client's models of two runs on new data whose classes are known by now.

    Rows that either model, or one that it started from, was trained on or chosen by are left out.
    Both models see the graph of the new run.
    """
    if source.path is None:
        raise RametError("two models are compared on new rows. Name their folder with --new.")
    client = source.client_in(trained, given)
    pairs = [(trained, client), (other, other.client_of(client, None))]
    _check_alike(pairs)
    context = source.context_in(trained, client)
    sites = [late_site(one, name, source, context) for one, name in pairs]
    have_seen = [seen(*pair, site, _SEEN) for pair, site in zip(pairs, sites, strict=True)]
    text = "that one of the models was trained on, or chosen by, are not scored"
    left = [without(site, have_seen[0] | have_seen[1], text, source) for site in sites]
    scored = [_scored(*pair, site) for pair, (site, _) in zip(pairs, left, strict=True)]
    ours, theirs = scored
    return Against(
        client=client,
        name=name_of(source),
        runs=_names(trained, other),
        lines=(
            *lines(trained.experiment, *ours[:2], *theirs[:2], paired=True),
            *by_threshold((ours.decision, ours.predictions), (theirs.decision, theirs.predictions)),
        ),
        scored=(ours, theirs),
        notes=(*left[0][1], *(one.warning for one in scored if one.warning)),
    )


def _check_alike(pairs: Sequence[tuple[Trained, str]]) -> None:
    ours, theirs = (trained.schema(client) for trained, client in pairs)
    for text in differences(ours, theirs, ("classes", "features", "types", "links")):
        raise RametError(
            f"the two runs were trained on other columns or classes: {text}. Score each by itself, "
            "without --against."
        )


def _scored(trained: Trained, client: str, site: Site) -> Scored:
    check_metrics(trained.experiment)
    model = trained.model(client)
    decision, warning = saved(trained, client, model)
    predictions = predicted_on(trained.experiment, site, model)["test"]
    evaluation = evaluated(trained.experiment, client, predictions)
    return Scored(predictions, evaluation, decision, warning)


def _names(trained: Trained, other: Trained) -> tuple[str, str]:
    """What the runs are called: their folders, with more of their paths if these are alike."""
    first, second = ((one.run.path if one.run else one.states) for one in (trained, other))
    return (first.name, second.name) if first.name != second.name else (str(first), str(second))
