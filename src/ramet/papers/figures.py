"""Papers' figures, drawn from our runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ramet.report.drawing import COLOURS, DASHES, line_style, new_figure
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


def tensors_over_rounds(
    panels: Mapping[str, tuple[NDArray[np.float64], Mapping[str, float]]],
) -> Figure:
    """Shares [seeds, rounds] of the tensors that all clients would send, and expected levels."""
    with new_figure(5.6 * len(panels), 4.2, len(panels)) as (figure, axes):
        for panel, (title, (shares, levels)) in zip(
            np.atleast_1d(axes), panels.items(), strict=True
        ):
            rounds = np.arange(1, shares.shape[1] + 1)
            mean_so_far = np.cumsum(shares, axis=1) / rounds
            panel.plot(rounds, shares.mean(axis=0), color="#9aa5b1", lw=1, label="per round")
            panel.plot(
                rounds, mean_so_far.mean(axis=0), color=COLOURS[1], lw=2, label="running mean"
            )
            panel.fill_between(
                rounds,
                mean_so_far.min(axis=0),
                mean_so_far.max(axis=0),
                color=COLOURS[1],
                alpha=0.15,
                lw=0,
            )
            for index, (name, level) in enumerate(levels.items()):
                colour, dashes = COLOURS[(2, 6, 7)[index]], DASHES[1 + index]
                panel.axhline(level, color=colour, linestyle=dashes, label=f"{name}: {level:.2f}")
            panel.set(xlabel="round", ylim=(0, 1.03), title=title)
            panel.legend(fontsize=8, loc="lower left")
        np.atleast_1d(axes)[0].set_ylabel("tensors sent up, as a share of FedAvg's")
    return figure
