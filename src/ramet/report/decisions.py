"""How well probabilities find the last of two classes, and whether they can be taken literally."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from ramet.errors import RametError
from ramet.prediction import Decision
from ramet.report.drawing import legend_right, line_style, new_figure
from ramet.tasks import Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn: TypeAlias = Mapping[str, tuple[Predictions, Decision | None]]
_BINS = 10


def decision_figure(clients: Drawn) -> Figure:
    """Precision over recall, with a mark at the threshold, and a reliability diagram."""
    from sklearn.calibration import calibration_curve  # takes a second to import
    from sklearn.metrics import precision_recall_curve

    if any(given.predicted.shape[1] != 2 for given, _ in clients.values()):
        raise RametError("the picture is for two classes. Leave out --figure.")
    with new_figure(9, 3.8, panels=2) as (figure, (curves, reliability)):
        for index, (name, (given, decision)) in enumerate(clients.items()):
            found = given.predicted if decision is None else decision.calibrated(given.predicted)
            style, scores = line_style(index), found[:, 1]
            if given.labels.any():
                precision, recall, _ = precision_recall_curve(given.labels, scores)
                curves.step(recall, precision, where="post", label=name, **style)
            if decision is not None and decision.threshold is not None:
                at = decision.scored(given)
                curves.plot(at["recall"], at["precision"], "o", color=style["color"])
            true, predicted = calibration_curve(
                given.labels, scores, n_bins=_BINS, strategy="quantile"
            )
            reliability.plot(predicted, true, marker=".", label=name, **style)
        largest = max(reliability.get_xlim()[1], reliability.get_ylim()[1])
        reliability.plot([0, largest], [0, largest], color="0.7", linewidth=1)
        curves.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
        reliability.set(xlabel="mean predicted probability", ylabel="share of the class")
        legend_right(reliability, "client")
    return figure
