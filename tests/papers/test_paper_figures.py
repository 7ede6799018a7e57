from __future__ import annotations

from statistics import fmean

import pytest

from drawn import legend, ys
from ramet.papers import figures
from ramet.studies.finished_run import FinishedRuns


def test_reproduced_curves_are_means_or_best_and_worst_seeds(acm_runs: FinishedRuns) -> None:
    two = {label: acm_runs[label] for label in ("fed-hgn,clients=8", "fedda,clients=8")}
    drawn = figures.reproduced_curves([("8 clients", two, False), ("again", two, True)])
    mean, extremes = drawn.axes
    assert mean.get_title() == "8 clients: mean over seeds"
    assert extremes.get_title() == "again: best (solid) and worst (dotted) seed"
    assert (len(mean.lines), len(extremes.lines)) == (2, 4)
    last = [100 * (run.rounds[-1].overview or 0) for run in two["fed-hgn,clients=8"].values()]
    assert ys(mean.lines[0])[-1] == pytest.approx(fmean(last))
    ends = [ys(line)[-1] for line in extremes.lines[:2]]
    assert ends == pytest.approx([max(last), min(last)])


def test_a_third_panel_starts_a_second_row_and_missing_methods_are_left_out(
    acm_runs: FinishedRuns,
) -> None:
    panel = {"fed-hgn,clients=8": acm_runs["fed-hgn,clients=8"], "fedda": {}}
    drawn = figures.reproduced_curves([(name, panel, False) for name in ("a", "b", "c")])
    assert len(drawn.axes) == 4
    assert [axes.axison for axes in drawn.axes] == [True, True, True, False]
    assert legend(drawn.axes[2]) == ["fed-hgn,clients=8 (5)"]
