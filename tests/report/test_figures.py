"""The content of figures, read from their Matplotlib objects."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from drawn import legend, the_panel, xs, ys
from ramet.report import drawing, figures
from ramet.studies.comparison import standings
from ramet.studies.finished_run import FinishedRuns


def first_point(line: Any) -> tuple[float, float]:
    return xs(line)[0], ys(line)[0]


def rows_and_columns(panel: Axes) -> tuple[int, int]:
    """The grid of the figure that contains the panel."""
    spec = panel.get_subplotspec()
    assert spec is not None
    rows, columns, _, _ = spec.get_geometry()
    return rows, columns


def test_curves_of_runs_that_leave_out_clients_say_so(single_runs: FinishedRuns) -> None:
    restart = "fedstar,activation=restart"
    panel = the_panel(figures.score_over_rounds({restart: single_runs[restart]}))
    assert panel.get_ylabel() == "mean test accuracy of each round's clients, %"
    assert not figures.leave_out_clients({"fedstar": single_runs["fedstar"]})


def test_marks_at_no_cost_are_not_cut_by_the_axis(tiny_runs: FinishedRuns) -> None:
    rows = [
        replace(row, flops_per_client_round=flops)
        for flops in (0.0, 5e9)
        for row in standings(tiny_runs)[:1]
    ]
    figure = figures.score_over_flops(rows)
    panel = the_panel(figure)
    figure.canvas.draw()
    left = panel.get_window_extent().x0
    marks = [line for line in panel.get_lines() if line.get_marker() not in ("", "None", "_")]
    for mark in marks:
        (x, _) = panel.transData.transform(first_point(mark))
        assert x - mark.get_markersize() * figure.dpi / 72 / 2 > left
    assert min(xs(mark)[0] for mark in marks) == 0.0


def test_the_legend_counts_runs(tiny_runs: FinishedRuns) -> None:
    """Two splits of one seed are two runs, and not two seeds."""
    label, runs = next(iter(tiny_runs.items()))
    shown = the_panel(figures.score_over_rounds({label: runs})).get_legend()
    assert shown is not None
    assert shown.get_title().get_text() == "method (runs)"
    assert legend(shown.axes) == [f"{label} ({len(runs)})"]


def test_a_curve_is_the_mean_over_seeds(tiny_runs: FinishedRuns) -> None:
    panel = the_panel(figures.score_over_rounds(tiny_runs))
    assert panel.get_ylabel() == "mean test accuracy, %"
    assert panel.get_xlabel() == "round"
    assert legend(panel) == ["local (2)", "fedstar (2)"]
    for line, runs in zip(panel.lines, tiny_runs.values(), strict=True):
        assert xs(line) == [1, 2]
        by_round = zip(*(run.rounds for run in runs.values()), strict=True)
        means = [100 * fmean(one.test for one in ones) for ones in by_round]
        assert ys(line) == pytest.approx(means)


def test_the_band_is_one_standard_deviation_around_the_mean(tiny_runs: FinishedRuns) -> None:
    panel = the_panel(figures.score_over_rounds({"fedstar": tiny_runs["fedstar"]}))
    first, second = (100 * run.rounds[0].test for run in tiny_runs["fedstar"].values())
    # the sample standard deviation of two values is their difference divided by the root of two
    std = abs(first - second) / np.sqrt(2)
    corners = panel.collections[0].get_paths()[0].vertices
    at_first = [y for x, y in np.asarray(corners) if x == 1]
    assert max(at_first) == pytest.approx((first + second) / 2 + std)
    assert min(at_first) == pytest.approx((first + second) / 2 - std)


def test_long_curves_are_smoothed_over_a_twentieth_of_the_rounds(
    single_runs: FinishedRuns,
) -> None:
    panel = the_panel(figures.score_over_rounds({"fedstar": single_runs["fedstar"]}))
    shown = ys(panel.lines[0])
    by_round = zip(*(run.rounds for run in single_runs["fedstar"].values()), strict=True)
    means = [100 * fmean(one.test for one in ones) for ones in by_round]
    assert len(shown) == 200
    assert shown[0] == pytest.approx(fmean(means[:6]))  # five rounds to each side
    assert shown[100] == pytest.approx(fmean(means[95:106]))
    assert shown[199] == pytest.approx(fmean(means[194:]))


def test_loss_and_score_on_all_data_are_drawn_for_runs_that_have_them(
    acm_runs: FinishedRuns, single_runs: FinishedRuns
) -> None:
    on_all = the_panel(figures.score_on_all_data(acm_runs))
    assert on_all.get_ylabel() == "test ROC-AUC on all data, %"
    assert legend(on_all) == [
        *("fed-hgn,clients=8 (5)", "fedda,clients=8 (5)"),
        *("fedda,clients=8,activation=explore (5)",),
        "fedda,clients=8,activation=restart,beta=0.2 (3)",
    ]  # local-hgn has no server model
    loss = the_panel(figures.loss_over_rounds(acm_runs))
    assert loss.get_ylabel() == "mean training loss of each round's clients"
    assert len(loss.lines) == len(acm_runs)
    older = {"local": single_runs["local"], **acm_runs}  # kept before the loss was recorded
    assert "local (5)" not in legend(the_panel(figures.loss_over_rounds(older)))


def test_runs_with_different_metrics_are_labelled_score(
    single_runs: FinishedRuns, acm_runs: FinishedRuns
) -> None:
    assert figures.metric_of(single_runs) == "accuracy"
    assert figures.metric_of(acm_runs) == "ROC-AUC"
    assert figures.metric_of({**single_runs, **acm_runs}) == "score"


def test_methods_with_an_activation_are_paired_with_those_without(
    single_runs: FinishedRuns, acm_runs: FinishedRuns
) -> None:
    assert figures.pairs(single_runs, {}) == {
        "fedstar": [
            "fedstar,activation=explore",
            "fedstar,activation=explore,keep_own=true,train_away=true",
            "fedstar,activation=restart",
        ],
        "feddense,width=32": [
            "feddense,width=32,activation=explore",
            "feddense,width=32,activation=explore,keep_own=true,train_away=true",
            "feddense,width=32,activation=restart",
        ],
    }
    # FedDA without its rule is FedAvg with the same options
    pairs = figures.pairs(acm_runs, {"fedda": "fed-hgn"})
    assert list(pairs) == ["fed-hgn,clients=8"]
    assert "fedda,clients=8" in pairs["fed-hgn,clients=8"]


def test_points_over_bytes_are_the_published_ones(single_runs: FinishedRuns) -> None:
    """As in docs/results-links.md, on the three common seeds."""
    labels = ("fedstar", "fedstar,activation=restart")
    figure = figures.score_over_bytes({label: single_runs[label] for label in labels}, {})
    panel = the_panel(figure)
    assert panel.get_xlabel() == "MB sent in the whole run, both ways"
    drawn: Any = panel.containers
    points = [first_point(bars.lines[0]) for bars in drawn]
    assert points[0] == pytest.approx([163.4, 78.94], abs=0.05)
    assert points[1] == pytest.approx([140.4, 79.39], abs=0.05)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("fedstar (3)", "fedstar,activation=restart (3)"),
    ]


def test_methods_with_equal_flops_are_shifted_apart(single_runs: FinishedRuns) -> None:
    rows = standings(
        {label: single_runs[label] for label in ("local", "fedavg", "fedstar", "gcfl")}
    )
    panel = the_panel(figures.score_over_flops(rows))
    assert legend(panel) == ["local", "fedavg", "fedstar"]  # gcfl's run has no FLOPs
    local, fedavg, fedstar = (
        next(first_point(line) for line in panel.lines if line.get_label() == label)
        for label in ("local", "fedavg", "fedstar")
    )
    assert local == pytest.approx([3.92, 75.51], abs=0.005)
    assert fedstar == pytest.approx([9.32, 78.59], abs=0.005)
    assert fedavg[0] == pytest.approx(local[0] + 0.02 * fedstar[0])


def test_bars_are_kilobytes_per_client_and_round(tiny_runs: FinishedRuns) -> None:
    panel = the_panel(figures.payload(standings(tiny_runs)))
    bars: Any = panel.patches
    assert [bar.get_width() for bar in bars] == [0, 57]
    assert [text.get_text() for text in panel.texts] == ["0.00", "57.00"]
    assert panel.get_xlabel() == "KB up per client and round"


def test_scores_over_the_number_of_kinds_are_sorted_by_number() -> None:
    scores = {"fedlit": {8: [0.5, 0.7], 2: [0.4], 4: [0.9]}}
    panel = the_panel(figures.score_over_kinds(scores, "accuracy"))
    assert panel.get_ylabel() == "test accuracy on all data, %"
    line = panel.lines[0]
    assert xs(line) == [2, 4, 8]
    assert ys(line) == pytest.approx([40, 90, 60])


def test_agreement_has_bars_for_the_first_and_the_last_round() -> None:
    panel = the_panel(figures.agreement({"0": 0.1, "2": 0.3}, {"0": 0.8, "10": 0.9}))
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "2", "10"]
    bars: Any = panel.patches
    assert [bar.get_height() for bar in bars] == [0.1, 0.3, 0.0, 0.8, 0.0, 0.9]


def test_a_channel_that_a_client_never_had_is_missing() -> None:
    changes = {("a", "0"): 1.0, ("a", "1"): 2.0, ("b", "1"): 3.0}
    drawn = figures.by_client_and_channel({"change": changes, "distance": {("b", "0"): 0.5}})
    change, distance = drawn.axes[:2]
    shown: Any = change.images[0].get_array()
    assert np.ma.filled(shown, -1).tolist() == [[1, 2], [-1, 3]]
    assert (change.get_title(), distance.get_title()) == ("change", "distance")
    assert [label.get_text() for label in change.get_yticklabels()] == ["a", "b"]


def test_heat_maps_of_few_clients_are_side_by_side_with_numbers() -> None:
    matrix = np.array([[0, 0.125], [0.125, 0]])
    drawn = figures.heterogeneity(["north", "south"], {"features": matrix, "structure": 8 * matrix})
    features, structure = drawn.axes[:2]
    assert [text.get_text() for text in features.texts] == [".00", ".12", ".12", ".00"]
    assert [text.get_text() for text in structure.texts] == [".00", "1", "1", ".00"]
    assert rows_and_columns(features) == (1, 2)
    assert [label.get_text() for label in features.get_xticklabels()] == ["north", "south"]


def test_heat_maps_of_many_clients_are_stacked() -> None:
    for count, numbers in ((7, 49), (16, 0)):
        matrix = np.zeros((count, count))
        names = [f"client {number}" for number in range(count)]
        drawn = figures.heterogeneity(names, {"features": matrix, "structure": matrix})
        panel = drawn.axes[0]
        assert rows_and_columns(panel) == (2, 1)
        assert len(panel.texts) == numbers  # beyond 15 clients they would be too small


def test_saving_a_figure_twice_gives_the_same_svg(tiny_runs: FinishedRuns, tmp_path: Path) -> None:
    for name in ("first", "second"):
        drawing.save(figures.payload(standings(tiny_runs)), tmp_path, name)
    with Image.open(tmp_path / "first.png") as picture:
        assert min(picture.size) > 100
    assert (tmp_path / "first.svg").read_text() == (tmp_path / "second.svg").read_text()


def test_an_inline_figure_is_one_svg_element(tiny_runs: FinishedRuns) -> None:
    drawn = drawing.inline(figures.payload(standings(tiny_runs)))
    assert drawn.startswith("<svg")
    assert drawn.rstrip().endswith("</svg>")
    assert not re.search(r"<script|<image", drawn)
