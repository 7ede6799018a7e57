"""Paired differences between methods, from kept runs.

    python results/differences.py [--clients] SETTING BASELINE METHOD …

Prints, for every METHOD, the mean difference from BASELINE on the seeds that both have, with its
95 % interval and the p-value of a paired t-test: after the last round, and at the round with the
best validation score. Scores are those of the server's model on all data if both methods have one,
otherwise, or with `--clients`, means over the clients.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from scipy.stats import ttest_1samp

from ramet.studies.archive import finished_runs
from ramet.studies.comparison import p_value
from ramet.studies.finished_run import Draw, FinishedRun

NBSP = "\u00a0"
Runs: TypeAlias = Mapping[Draw, FinishedRun]
Score: TypeAlias = Callable[[FinishedRun], float | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", action="store_true", help="compare means over the clients")
    parser.add_argument("setting")
    parser.add_argument("baseline")
    parser.add_argument("methods", nargs="+")
    given = parser.parse_args()
    runs = finished_runs([Path(__file__).parent / given.setting])
    print("| method | baseline | seeds | last round | p | best validation | p |")
    print("|---" * 7 + "|")
    for method in given.methods:
        own, other = runs[method], runs[given.baseline]
        by_server = not given.clients and has_overview(own) and has_overview(other)
        scores = (server_last, server_best) if by_server else (clients_last, clients_best)
        cells = [cell for score in scores for cell in difference(own, other, score)]
        seeds = len(own.keys() & other.keys())
        print(f"| {method} | {given.baseline} | {seeds} | " + " | ".join(cells) + " |")


def difference(own: Runs, other: Runs, score: Score) -> tuple[str, str]:
    """The mean difference on common seeds with its 95 % interval, and the p-value."""
    gains = []
    for seed in sorted(own.keys() & other.keys()):
        ours, theirs = score(own[seed]), score(other[seed])
        if ours is None or theirs is None:
            return "–", "–"
        gains.append(100 * (ours - theirs))
    p = p_value(gains)
    if p is None:
        return f"{fmean(gains):+.2f}", "–"
    low, high = ttest_1samp(gains, 0.0).confidence_interval(0.95)
    return f"{fmean(gains):+.2f}{NBSP}[{low:+.2f},{NBSP}{high:+.2f}]", f"{p:.3f}"


def has_overview(runs: Runs) -> bool:
    return all(run.summary.scores.overview for run in runs.values())


def server_last(run: FinishedRun) -> float | None:
    return run.summary.scores.overview["test"]


def server_best(run: FinishedRun) -> float | None:
    """None in older runs, which kept no scores of the server's model but the last."""
    return run.on_all_data


def clients_last(run: FinishedRun) -> float | None:
    return run.summary.scores.test


def clients_best(run: FinishedRun) -> float | None:
    return run.summary.scores.test_at_best_val


if __name__ == "__main__":
    main()
