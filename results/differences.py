"""Paired differences between methods, from kept runs.

    python results/differences.py [--clients] SETTING BASELINE METHOD …

Prints, for every METHOD, the mean difference from BASELINE on the seeds that both have, with its
95 % interval and from five pairs on the p-value of a paired t-test: after the last round, in the
mean of the last ten, and at the round with the best validation score. Scores are those of the
server's model on all data if both methods have one, otherwise, or with `--clients`, means over the
clients.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from ramet.studies.archive import finished_runs
from ramet.studies.choice import Choice
from ramet.studies.comparison import gain_of
from ramet.studies.finished_run import Draw, FinishedRun

NBSP = "\u00a0"
Runs: TypeAlias = Mapping[Draw, FinishedRun]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", action="store_true", help="compare means over the clients")
    parser.add_argument("setting")
    parser.add_argument("baseline")
    parser.add_argument("methods", nargs="+")
    given = parser.parse_args()
    runs = finished_runs([Path(__file__).parent / given.setting])
    print("| method | baseline | seeds | last round | p | last ten | p | best validation | p |")
    print("|---" * 9 + "|")
    for method in given.methods:
        own, other = runs[method], runs[given.baseline]
        by_server = not given.clients and has_overview(own) and has_overview(other)
        cells = [text for choice in Choice for text in difference(own, other, choice, by_server)]
        seeds = len(own.keys() & other.keys())
        print(f"| {method} | {given.baseline} | {seeds} | " + " | ".join(cells) + " |")


def difference(own: Runs, other: Runs, choice: Choice, by_server: bool) -> tuple[str, str]:
    """The mean difference on common draws with its 95 % interval, and the p-value."""
    gain = gain_of(own, other, choice, by_server)
    if gain is None:
        return "–", "–"
    mean, p = f"{100 * gain.mean:+.2f}", gain.p_value
    if gain.low is None or gain.high is None:
        return mean, "–"
    interval = f"[{100 * gain.low:+.2f},{NBSP}{100 * gain.high:+.2f}]"
    return f"{mean}{NBSP}{interval}", "–" if p is None else f"{p:.3f}"


def has_overview(runs: Runs) -> bool:
    return all(run.summary.scores.overview for run in runs.values())


if __name__ == "__main__":
    main()
