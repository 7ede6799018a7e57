"""Differential privacy per link: python results/dp_links.py (the runs: results/dp-links*.sh)."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from ramet.studies.archive import kept
from ramet.studies.finished_run import FinishedRun

FOLDERS = ("dp-links", "dp-links-few-features")
ROWS = {
    "gcn": "`gcn`, all links, no noise",
    "none": "`hops`, all links, no noise",
    "epsilon-8": "`hops`, ε = 8",
    "epsilon-4": "`hops`, ε = 4",
    "epsilon-2": "`hops`, ε = 2",
    "no-links": "`hops` with `hops=0`: no links, no noise",
}


def main() -> None:
    """Print Markdown tables: the test metric after the last round in percent, and seeds."""
    for folder in FOLDERS:
        print(f"\n{folder}\n\n| network, δ = 1e-5 | fedavg | seeds | local | seeds |")
        print("|---|---|---|---|---|")
        for name, words in ROWS.items():
            runs = kept(Path(__file__).parent / folder / name)
            cells = [_mean([r for r in runs if r.summary.method == m]) for m in ("fedavg", "local")]
            print(f"| {words} | {' | '.join(cells)} |")


def _mean(runs: list[FinishedRun]) -> str:
    if not runs:
        return "– | 0"
    tests = [100 * run.summary.scores.test for run in runs]
    spread = f" ± {stdev(tests):.1f}" if len(tests) > 1 else ""
    return f"{fmean(tests):.1f}{spread} | {len(tests)}"


if __name__ == "__main__":
    main()
