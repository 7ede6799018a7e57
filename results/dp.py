"""Differential privacy on `single`: python results/dp.py (the runs: results/dp-single.sh)."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from ramet.studies.archive import kept
from ramet.studies.finished_run import FinishedRun

FOLDER = Path(__file__).parent / "dp-single"
BUDGETS = {"none": "no noise", "epsilon-8": "ε = 8", "epsilon-4": "ε = 4", "epsilon-2": "ε = 2"}


def main() -> None:
    """Print a Markdown table: test accuracy after the last round, mean over seeds, in percent."""
    by_row = {
        (method, name): [run for run in kept(FOLDER / name) if run.label == method]
        for method in ("feddense", "local")
        for name in BUDGETS
    }
    clients = next([*runs[0].summary.scores.clients] for runs in by_row.values() if runs)
    print(f"| method | δ = 1e-5 per graph | {' | '.join(clients)} | mean | seeds |")
    print("|---|---|" + "---|" * (len(clients) + 2))
    for (method, name), runs in by_row.items():
        if runs:
            cells = [_mean(runs, client) for client in clients]
            print(f"| {method} | {BUDGETS[name]} | {' | '.join(cells)} | {_all(runs)} |")


def _mean(runs: list[FinishedRun], client: str) -> str:
    scores = [run.summary.scores.clients[client] for run in runs]
    return f"{100 * fmean(score for score in scores if score is not None):.1f}"


def _all(runs: list[FinishedRun]) -> str:
    tests = [100 * run.summary.scores.test for run in runs]
    spread = f" ± {stdev(tests):.1f}" if len(tests) > 1 else ""
    return f"{fmean(tests):.1f}{spread} | {len(tests)}"


if __name__ == "__main__":
    main()
