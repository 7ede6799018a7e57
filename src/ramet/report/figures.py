"""Figures of comparisons, drawn from finished runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ramet.experiment import MethodSpec
from ramet.metrics import Round
from ramet.metrics.summary import common_metric
from ramet.report.drawing import (
    COLOURS,
    MARKS,
    from_zero,
    legend_right,
    line_style,
    new_figure,
    sample_std,
)
from ramet.report.text import operations_unit
from ramet.scale import SHARE, Scale, common_scale
from ramet.studies.comparison import Standing
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def score_over_rounds(by_label: FinishedRuns) -> Figure:
    """Mean test score over runs, with a band of one sample standard deviation, as in tables.

    Both are running means over a twentieth of the rounds. Test sets are small, so raw curves jump.
    """
    scale = scale_of(by_label)
    title = scale.label(f"mean test {metric_of(by_label)}{_over_whom(by_label)}")
    return _over_rounds(by_label, lambda one: one.test, title, scale.factor)


def score_on_all_data(by_label: FinishedRuns) -> Figure:
    """Like :func:`score_over_rounds`, for the server's model on all clients' data."""
    scale = scale_of(by_label)
    title = scale.label(f"test {metric_of(by_label)} on all data")
    return _over_rounds(by_label, lambda one: one.overview, title, scale.factor)


def metric_of(by_label: FinishedRuns) -> str:
    """The name of the runs' metric, or `score` if they differ."""
    return common_metric(run.summary.metric for runs in by_label.values() for run in runs.values())


def scale_of(by_label: FinishedRuns) -> Scale:
    """The scale of the runs' metric."""
    return common_scale(run.summary.scale for runs in by_label.values() for run in runs.values())


def loss_over_rounds(by_label: FinishedRuns) -> Figure:
    """Mean training loss over clients and seeds."""
    title = f"mean training loss{_over_whom(by_label)}"
    return _over_rounds(by_label, lambda one: one.loss, title, factor=1)


def leave_out_clients(by_label: FinishedRuns) -> bool:
    """Whether some run left out clients in some round, so that its means are over the others."""
    return any(run.left_out_clients() for runs in by_label.values() for run in runs.values())


def _over_whom(by_label: FinishedRuns) -> str:
    return " of each round's clients" if leave_out_clients(by_label) else ""


def _over_rounds(
    by_label: FinishedRuns, value: Callable[[Round], float | None], title: str, factor: int
) -> Figure:
    with new_figure(8, 5) as (figure, axes):
        for index, (label, runs) in enumerate(by_label.items()):
            curves = [[value(one) for one in run.rounds] for run in runs.values()]
            if any(point is None for curve in curves for point in curve):
                continue
            values = factor * np.array(curves, dtype=float)
            rounds = [one.number for one in next(iter(runs.values())).rounds]
            middle, spread = _smooth(values.mean(axis=0)), _smooth(sample_std(values))
            style = line_style(index)
            axes.plot(rounds, middle, label=f"{label} ({len(runs)})", linewidth=1.4, **style)
            axes.fill_between(
                rounds, middle - spread, middle + spread, color=style["color"], alpha=0.12, lw=0
            )
        axes.set(xlabel="round", ylabel=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        legend_right(axes, "method (runs)")
    return figure


def score_over_bytes(by_label: FinishedRuns, baselines: Mapping[str, str]) -> Figure:
    """Score against bytes: methods with an activation, each joined to the method without one.

    The method without one is averaged only over seeds that a run with an activation also has.
    """
    with new_figure(8, 6) as (figure, axes):
        for index, (whole, labels) in enumerate(pairs(by_label, baselines).items()):
            colour = line_style(index)["color"]
            seeds = {seed for label in labels for seed in by_label[label]}
            chosen = {seed: run for seed, run in by_label[whole].items() if seed in seeds}
            points = {whole: chosen, **{label: by_label[label] for label in labels}}
            start = _bytes_and_score(chosen)
            for mark, (label, runs) in zip(MARKS, points.items(), strict=False):
                sent, mean, spread = _bytes_and_score(runs)
                axes.plot([start[0], sent], [start[1], mean], color=colour, lw=0.9, alpha=0.5)
                axes.errorbar(
                    sent,
                    mean,
                    spread,
                    fmt=mark,
                    color=colour,
                    capsize=3,
                    ms=7,
                    label=f"{label} ({len(runs)})",
                )
        axes.set(
            xlabel="MB sent in the whole run, both ways",
            ylabel=f"{scale_of(by_label).label(f'test {metric_of(by_label)}')}: mean ± std",
        )
        axes.margins(x=0.08)
        from_zero(axes)
        figure.legend(title="method (runs)", loc="outside lower left", alignment="left")
    return figure


def pairs(by_label: FinishedRuns, baselines: Mapping[str, str]) -> dict[str, list[str]]:
    """The labels without an activation, each with the labels that add one to it.

    ``baselines`` are those of methods that consist of their activation.
    """
    by_whole: dict[str, list[str]] = {}
    for label in by_label:
        spec = MethodSpec.parse(label)
        method = baselines.get(spec.method, spec.method)
        whole = str(replace(spec, method=method, activation=None))
        if whole != label and whole in by_label:
            by_whole.setdefault(whole, []).append(label)
    return by_whole


def _bytes_and_score(runs: Mapping[Draw, FinishedRun]) -> tuple[float, float, float]:
    """Megabytes sent, and mean and standard deviation of the score."""
    scores = np.array([run.summary.scale.factor * run.score for run in runs.values()])
    sent = np.mean([run.summary.traffic.total for run in runs.values()])
    return float(sent) / 1e6, float(scores.mean()), float(sample_std(scores))


def score_over_flops(rows: Sequence[Standing]) -> Figure:
    """Score against FLOPs per client and round, with a line down to the worst run.

    A method that needs as many FLOPs as an earlier one is shifted to its right.
    """
    counted = [row.flops_per_client_round for row in rows if row.flops_per_client_round is not None]
    unit, factor = operations_unit(counted)
    step = _SHIFT * max(counted, default=0.0) / factor
    with new_figure(8, 5) as (figure, axes):
        drawn: list[float] = []
        for index, row in enumerate(rows):
            if row.flops_per_client_round is None:
                continue
            flops, mean, worst = (
                row.flops_per_client_round / factor,
                row.scale.factor * row.test,
                row.scale.factor * row.worst,
            )
            x = flops + step * sum(abs(flops - other) < step for other in drawn)
            drawn.append(flops)
            colour = line_style(index)["color"]
            axes.plot([x, x], [worst, mean], color=colour, linewidth=1.2)
            axes.plot(x, mean, MARKS[index % len(MARKS)], color=colour, label=row.label, ms=8)
            axes.plot(x, worst, "_", color=colour, ms=10)
        metric = common_metric(row.metric for row in rows)
        scale = common_scale(row.scale for row in rows)
        axes.set(
            xlabel=f"{unit}FLOPs per client and round",
            ylabel=f"{scale.label(f'test {metric}')}: mean and worst run",
        )
        from_zero(axes)
        legend_right(axes, "method")
    return figure


def score_over_kinds(
    scores: Mapping[str, Mapping[int, Sequence[float]]], metric: str, scale: Scale = SHARE
) -> Figure:
    """Score on all data over the number of link kinds, a line per method: mean ± std."""
    with new_figure(8, 4.5) as (figure, axes):
        for index, (label, by_kinds) in enumerate(scores.items()):
            kinds = sorted(by_kinds)
            values = [scale.factor * np.array(by_kinds[count]) for count in kinds]
            axes.errorbar(
                kinds,
                [value.mean() for value in values],
                [sample_std(value) for value in values],
                marker=MARKS[index % len(MARKS)],
                capsize=3,
                label=label,
                **line_style(index),
            )
        axes.set(xlabel="number of link kinds", ylabel=scale.label(f"test {metric} on all data"))
        legend_right(axes, "method")
    return figure


def agreement(first: Mapping[str, float], last: Mapping[str, float]) -> Figure:
    """Similarity of the clients' centres within each group, in the first and the last round."""
    groups = sorted({*first, *last}, key=int)
    with new_figure(1.5 + 0.8 * len(groups), 3.5) as (figure, axes):
        for index, (name, values) in enumerate((("first round", first), ("last round", last))):
            xs = np.arange(len(groups)) + 0.4 * index - 0.2
            heights = [values.get(group, 0.0) for group in groups]
            axes.bar(xs, heights, 0.38, label=name, color=COLOURS[index + 1])
        axes.set_xticks(range(len(groups)), groups)
        axes.set(xlabel="group of channels", ylabel="mean cosine of pairs of centres")
        legend_right(axes, "")
    return figure


def by_client_and_channel(panels: Mapping[str, Mapping[tuple[str, str], float]]) -> Figure:
    """Heat maps of a number per client and channel. Missing ones are grey."""
    clients = sorted({client for values in panels.values() for client, _ in values})
    channels = sorted({channel for values in panels.values() for _, channel in values}, key=int)
    width = len(panels) * (2.2 + 0.55 * len(channels))
    with new_figure(width, 1.6 + 0.3 * len(clients), len(panels)) as (figure, axes):
        for index, (panel, (title, values)) in enumerate(
            zip(np.atleast_1d(axes), panels.items(), strict=True)
        ):
            matrix = np.array([[values.get((c, k), np.nan) for k in channels] for c in clients])
            panel.set_facecolor("#d8dee4")
            image = panel.imshow(matrix, cmap="viridis", aspect="auto")
            panel.grid(visible=False)
            panel.set_title(title)
            panel.set_xticks(range(len(channels)), channels)
            panel.set_yticks(range(len(clients)), clients if index == 0 else [])
            panel.set_xlabel("channel")
            figure.colorbar(image, ax=panel)
    return figure


def payload(rows: Sequence[Standing]) -> Figure:
    """Kilobytes that a client sends per round."""
    with new_figure(8, 0.9 + 0.42 * len(rows)) as (figure, axes):
        sent = [row.up_per_client_round / 1024 for row in rows]
        bars = axes.barh(
            [row.label for row in rows],
            sent,
            color=[line_style(index)["color"] for index in range(len(rows))],
            height=0.65,
        )
        axes.bar_label(bars, [f"{kilobytes:.2f}" for kilobytes in sent], padding=4)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set(xlabel="KB up per client and round")
        axes.margins(x=0.12)
    return figure


def heterogeneity(clients: Sequence[str], divergences: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Heat maps of the divergences between clients: of features, and of structure."""
    length, kinds = 2.2 + 0.42 * len(clients), len(divergences)
    side_by_side = len(clients) <= _SIDE_BY_SIDE_UP_TO
    columns, rows = (kinds, 1) if side_by_side else (1, kinds)
    with new_figure(columns * length + 0.6, rows * length, columns, rows) as (figure, axes):
        for index, (panel, (kind, matrix)) in enumerate(
            zip(np.atleast_1d(axes), divergences.items(), strict=True)
        ):
            image = panel.imshow(matrix, vmin=0, vmax=1, cmap="viridis")
            panel.set_title(kind)
            panel.grid(visible=False)
            panel.set_xticks(range(len(clients)), clients, rotation=60, ha="right")
            panel.set_yticks(range(len(clients)), [] if side_by_side and index else clients)
            if len(clients) <= _NUMBERS_UP_TO:
                _annotate(panel, matrix)
        figure.colorbar(image, ax=axes, shrink=0.75, label="Jensen–Shannon divergence")
    return figure


_NUMBERS_UP_TO = 15
_SIDE_BY_SIDE_UP_TO = 6
"""Number of clients; with more, heat maps are stacked, because a page would shrink them."""
_SHIFT = 0.02
"""Horizontal distance between points that would overlap, as a share of the largest value."""


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A centred running mean, over a shorter window near the ends."""
    reach = len(values) // 40
    return np.array([values[max(0, i - reach) : i + reach + 1].mean() for i in range(len(values))])


def _annotate(panel: Axes, matrix: NDArray[np.float64]) -> None:
    for row, values in enumerate(matrix):
        for column, value in enumerate(values):
            ink = "black" if value > 0.6 else "white"
            panel.text(
                column, row, f"{value:.2f}"[1:] if value < 0.995 else "1", ha="center",
                va="center", color=ink, fontsize=10,
            )  # fmt: skip
