"""Do the printed deviations come from the split? `python results/splits.py [SETTING]`.

Prints, for every method that has runs on several splits, the standard deviation over seeds of the
first split and over splits with the same seed, each with its 95 % interval (chi-square, as for
normal scores), beside the deviation that FedDense's Table 2 prints. Scores are those after the last
round, means over clients, in percent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import chi2

from ramet.experiment import SPLIT_SEED
from ramet.papers.claims import kept_by_folder
from ramet.papers.printed import tables
from ramet.studies.finished_run import Draw, FinishedRun

HERE = Path(__file__).parent
HEADS = ("method", "printed", "seeds of one split", "deviation", "splits", "deviation", "")
NBSP = "\u00a0"


def main() -> None:
    print(table(*sys.argv[1:2] or ["single"]))


def table(setting: str) -> str:
    """One row per method with several splits."""
    printed = {
        cell.label: (cell.value, cell.std)
        for cell in tables()["feddense table2"]
        if cell.setting == setting and cell.std is not None
    }
    lines = ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    for label, runs in kept_by_folder(HERE)[setting].items():
        by_seed, by_split = over_seeds(runs), over_splits(runs)
        if label in printed and min(len(by_seed), len(by_split)) > 1:
            mean, deviation = printed[label]
            cells = (
                label,
                f"{mean:.2f}{NBSP}±{NBSP}{deviation:.2f}",
                *spread(by_seed),
                *spread(by_split),
                fits(deviation, by_seed, by_split),
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def over_seeds(runs: Mapping[Draw, FinishedRun]) -> list[float]:
    """Scores on the first split."""
    return [100 * run.score for draw, run in runs.items() if draw.split_seed == SPLIT_SEED]


def over_splits(runs: Mapping[Draw, FinishedRun]) -> list[float]:
    """Scores with the seed that was run on most splits, one per split."""
    seeds = [draw.seed for draw in runs]
    most = max(sorted(set(seeds)), key=seeds.count)
    return [100 * run.score for draw, run in runs.items() if draw.seed == most]


def spread(scores: Sequence[float]) -> tuple[str, str]:
    low, high = interval(scores)
    return (
        f"{len(scores)}: {fmean(scores):.2f}",
        f"{stdev(scores):.2f}{NBSP}[{low:.2f},{NBSP}{high:.2f}]",
    )


def interval(scores: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the standard deviation of normal scores."""
    free = len(scores) - 1
    low, high = (
        sqrt(free * stdev(scores) ** 2 / chi2.ppf(share, free)) for share in (0.975, 0.025)
    )
    return low, high


def fits(printed: float, by_seed: Sequence[float], by_split: Sequence[float]) -> str:
    """Which of the intervals have the printed deviation in them."""
    inside = [
        name
        for name, scores in (("seeds", by_seed), ("splits", by_split))
        if interval(scores)[0] <= printed <= interval(scores)[1]
    ]
    return "fits " + " and ".join(inside) if inside else "fits neither"


if __name__ == "__main__":
    main()
