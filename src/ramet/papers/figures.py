"""Papers' figures, drawn from our runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ramet.report.drawing import line_style, new_figure
from ramet.studies.finished_run import FinishedRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reproduced_curves(panels: Sequence[tuple[str, FinishedRuns, bool]]) -> Figure:
    """A paper's curves on all data, one panel each: mean over seeds, or best and worst seed."""
    rows = [panels[at : at + 2] for at in range(0, len(panels), 2)]
    with new_figure(11, 4.2 * len(rows), 2, len(rows)) as (figure, axes):
        for panel in np.atleast_1d(axes).flat[len(panels) :]:
            panel.set_axis_off()
        for panel, (title, by_label, extremes) in zip(
            np.atleast_1d(axes).flat, panels, strict=False
        ):
            for index, (label, runs) in enumerate(by_label.items()):
                if not runs:
                    continue
                scores = 100 * np.array(
                    [[one.overview for one in run.rounds] for run in runs.values()], dtype=float
                )
                rounds = [one.number for one in next(iter(runs.values())).rounds]
                colour, name = line_style(index)["color"], f"{label} ({len(runs)})"
                if extremes:
                    panel.plot(rounds, scores.max(axis=0), color=colour, label=name, linewidth=1.4)
                    panel.plot(rounds, scores.min(axis=0), ":", color=colour, linewidth=1.4)
                else:
                    panel.plot(rounds, scores.mean(axis=0), color=colour, label=name, linewidth=1.4)
            statistic = "best (solid) and worst (dotted) seed" if extremes else "mean over seeds"
            panel.set(
                xlabel="round", ylabel="ROC-AUC on all data, %", title=f"{title}: {statistic}"
            )
            panel.legend(title="method (runs)", fontsize=8)
    return figure
