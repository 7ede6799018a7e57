"""Papers' printed scores next to ours, from kept runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import sqrt
from statistics import fmean, stdev

from columns import HERE, NBSP, Runs, on_all_data
from scipy.stats import chi2

from ramet.experiment import SPLIT_SEED, MethodSpec
from ramet.papers.printed import Printed, tables
from ramet.papers.reproduction import cell_from_runs
from ramet.papers.wanted import RunsByFolder, kept_by_folder
from ramet.report.text import markdown_table


def table(name: str) -> str:
    """A row per method, a column per setting.

    Each cell has our mean over splits, or over the seeds of one, with its standard deviation, the
    printed figure in brackets, and the status: whether the 95 % interval of our mean is within two
    points of the printed one.
    """
    cells = tables()[name]
    groups = list(dict.fromkeys(cell.group for cell in cells))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for cell in cells:
        rows.setdefault((cell.method, cell.label), {})[cell.group] = _measured(cell)
    methods = [method for method, _ in rows]
    return markdown_table(
        ["method", *groups],
        [
            (
                f"`{method if methods.count(method) == 1 else label}`",
                *(row.get(group, "–") for group in groups),
            )
            for (method, label), row in rows.items()
        ],
    )


@cache
def _kept() -> RunsByFolder:
    return kept_by_folder(HERE)


def _measured(printed: Printed) -> str:
    options = {**printed.setting_options, **printed.options}
    label = str(MethodSpec(printed.method, options, activation=printed.activation))
    cell = cell_from_runs(printed, _kept().get(printed.group, {}).get(label, {}))
    if cell.mean is None:
        return f"not run ({printed.value:.2f})"
    spread = "" if cell.spread is None else f"{NBSP}±{NBSP}{cell.spread:.2f}"
    return f"{cell.mean:.2f}{spread} ({printed.value:.2f}), {cell.status}"


def deviations(setting: str) -> str:
    """Do the deviations that FedDense's Table 2 prints come from the split?

    For every method that has runs on several splits: the standard deviation over seeds of the first
    split and over splits with the same seed, each with its 95 % interval (chi-square, as for normal
    scores), after the last round.
    """
    rows, printed_cells = [], tables()["feddense table2"]
    by_label = {cell.label: cell for cell in printed_cells if cell.setting == setting}
    for label, runs in _kept()[setting].items():
        cell = by_label.get(label)
        by_seed, by_split = _over_seeds(runs), _over_splits(runs)
        if cell and cell.std and min(len(by_seed), len(by_split)) > 1:
            inside = [
                name
                for name, scores in (("seeds", by_seed), ("splits", by_split))
                if _interval(scores)[0] <= cell.std <= _interval(scores)[1]
            ]
            printed = f"{cell.value:.2f}{NBSP}±{NBSP}{cell.std:.2f}"
            fits = f"fits {' and '.join(inside) or 'neither'}"
            rows.append((label, printed, *_spread(by_seed), *_spread(by_split), fits))
    heads = ("method", "printed", "seeds of one split", "deviation", "splits", "deviation", "")
    return markdown_table(heads, rows)


def _over_seeds(runs: Runs) -> list[float]:
    """Scores on the first split."""
    return [on_all_data(run) for draw, run in runs.items() if draw.split_seed == SPLIT_SEED]


def _over_splits(runs: Runs) -> list[float]:
    """Scores with the seed that was run on most splits, one per split."""
    seeds = [draw.seed for draw in runs]
    most = max(sorted(set(seeds)), key=seeds.count)
    return [on_all_data(run) for draw, run in runs.items() if draw.seed == most]


def _spread(scores: Sequence[float]) -> tuple[str, str]:
    low, high = _interval(scores)
    return (
        f"{len(scores)}: {fmean(scores):.2f}",
        f"{stdev(scores):.2f}{NBSP}[{low:.2f},{NBSP}{high:.2f}]",
    )


def _interval(scores: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the standard deviation of normal scores."""
    free = len(scores) - 1
    low, high = (
        sqrt(free * stdev(scores) ** 2 / chi2.ppf(share, free)) for share in (0.975, 0.025)
    )
    return low, high
