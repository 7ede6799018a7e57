"""How a model does on new data whose classes are known by now, beside its own test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ramet.data.own.kept_parts import KeptParts
from ramet.data.splits import PARTS
from ramet.errors import RametError
from ramet.experiment.run_models import check_metrics, evaluated
from ramet.experiment.site_record import load_parts
from ramet.metrics.evaluation import Evaluation
from ramet.prediction.decision import Decision, saved
from ramet.prediction.held_out import on_own_parts, predicted_on
from ramet.prediction.late import late_site, name_of, seen, without
from ramet.prediction.lines import LEVEL, Line, by_threshold, lines
from ramet.prediction.source import Source
from ramet.prediction.trained import Trained
from ramet.tasks import Predictions

_TEST = PARTS.index("test")


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
        if not first.p_value < LEVEL:
            return f"{self.name} differs from the test no more than by chance, by {told}"
        better = first.scale.gain(first.difference.value, 0) > 0
        return f"{self.client} does {'better' if better else 'worse'} on {self.name}, by {told}"

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.name,
            "verdict": self.verdict,
            "lines": [one.to_json("test") for one in self.lines],
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
    read = late_site(trained, client, source, source.context_in(trained, client))
    was_trained = seen(trained, client, read, ["train"])
    text = "that the model was trained on are not scored"
    site, notes = without(read, was_trained, text, source)
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
    return BesideTest(
        client=client,
        name=name_of(source),
        lines=(
            *lines(experiment, new, found, test, tested),
            *by_threshold((decision, new), (decision, test)),
        ),
        new=new,
        evaluation=found,
        test=test,
        test_evaluation=tested,
        decision=decision,
        notes=(*notes, *(one for one in (warning, note) if one)),
    )


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
