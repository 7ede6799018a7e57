"""What one model gains over another, month after month: for those who decide about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from ramet.metrics.bootstrap import Score
from ramet.report.beside import INTERVALS, cells
from ramet.report.drawing import COLOURS, new_figure
from ramet.report.plain_table import plain_table
from ramet.studies.months import Months

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BESIDE = 0.08
"""How far the two models' marks are apart, in months."""


def months_table(found: Months) -> Table:
    """A row per month, by the metric of the run."""
    (new, other), first = found.first.runs, found.lines[0]
    table = plain_table(f"{found.first.client}: {first.metric}{first.scale.suffix}")
    table.add_column("month", overflow="fold")
    table.add_column("samples", justify="right")
    for head in (other, new, "gain"):
        table.add_column(head, justify="right")
        table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("p (Holm)", justify="right")
    for one, line, p_value in zip(found.found, found.lines, found.p_values, strict=True):
        scores = (line.other, line.new, line.difference)
        row = [cell for score in scores for cell in cells(score, line.scale)]
        row[4] = "" if line.difference is None else line.scale.change(line.difference.value)
        samples = f"{len(one.scored[0].predictions.labels):,}"
        table.add_row(one.name, samples, *row, f"{p_value:.2g}")
    table.caption = f"{INTERVALS}; p: a paired permutation test, adjusted for the months (Holm)"
    return table


def months_figure(found: Months) -> Figure:
    """Both models' scores, and below them the gain with its interval; filled if beyond chance."""
    (new, other), lines = found.first.runs, found.lines
    scale, months = lines[0].scale, np.arange(len(lines))
    with new_figure(6.5, 5.5, rows=2) as (figure, (scores, gains)):
        for shift, name, colour, given in (
            (-_BESIDE, other, COLOURS[2], [line.other for line in lines]),
            (_BESIDE, new, COLOURS[1], [line.new for line in lines]),
        ):
            _draw(scores, months + shift, given, scale.factor, color=colour, label=name)
        scores.set(ylabel=scale.label(lines[0].metric))
        scores.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
        differences = [line.difference for line in lines]
        for index, (difference, sure) in enumerate(zip(differences, found.told, strict=True)):
            fill = COLOURS[1] if sure else "white"
            _draw(gains, months[[index]], [difference], scale.factor, color=COLOURS[1], mfc=fill)
        gains.axhline(0, color="0.3", linewidth=1)
        gains.set(
            ylabel=scale.label(f"gain of {new}").replace("%", "points"),
            xlabel="filled: more than chance",
        )
        for axes in (scores, gains):
            axes.set_xticks(months, [one.name for one in found.found])
            axes.set_xlim(-0.5, len(lines) - 0.5)
        figure.suptitle(_title(found), fontsize=11)
    return figure


def _draw(
    axes: Axes, places: Any, given: Sequence[Score | None], factor: float, **style: Any
) -> None:
    """Marks with their intervals, as far as there are any."""
    known = [(place, one) for place, one in zip(places, given, strict=True) if one is not None]
    values = factor * np.array([one.value for _, one in known])
    ends = [[one.value if end is None else end for end in (one.low, one.high)] for _, one in known]
    around = np.abs(factor * np.array(ends).T - values) if known else np.empty((2, 0))
    at = [place for place, _ in known]
    axes.errorbar(at, values, yerr=around, fmt="o", capsize=3, **style)


def _title(found: Months) -> str:
    """What the picture says, on two lines."""
    head, _, tail = found.verdict.partition(", by ")
    return f"{head},\nby {tail}"
