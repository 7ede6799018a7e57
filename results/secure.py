"""Plain, fixed-point and secure sums on `single` (the runs: results/secure-single.sh)."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from ramet.studies.archive import kept
from ramet.studies.finished_run import FinishedRun

FOLDER = Path(__file__).parent / "secure-single"
KINDS = ("plain", "fixed-point", "secure")


def main() -> None:
    """Print a Markdown table: test accuracy in percent, bytes and equality of SHA-256s, by seed."""
    print("| method | sum | last round, by seed | mean | mean of the last ten | MB | SHA-256 |")
    print("|---|---|---|---|---|---|---|")
    for method in ("fedstar", "feddense"):
        by_kind = {kind: _runs(kind, method) for kind in KINDS}
        for kind, runs in by_kind.items():
            if runs:
                print(f"| {method} | {kind} | {_scores(runs)} | {_sha256s(runs, by_kind)} |")


def _runs(kind: str, method: str) -> dict[int, FinishedRun]:
    runs = [run for run in kept(FOLDER / kind) if run.label.partition(",")[0] == method]
    return {run.draw.seed: run for run in sorted(runs, key=lambda run: run.draw.seed)}


def _scores(runs: dict[int, FinishedRun]) -> str:
    tests = [100 * run.summary.scores.test for run in runs.values()]
    last_ten = [100 * fmean(one.test for one in run.rounds[-10:]) for run in runs.values()]
    megabytes = fmean(run.summary.traffic.total for run in runs.values()) / 1e6
    by_seed = ", ".join(f"{test:.2f}" for test in tests)
    return f"{by_seed} | {fmean(tests):.2f} | {fmean(last_ten):.2f} | {megabytes:.1f}"


def _sha256s(runs: dict[int, FinishedRun], by_kind: dict[str, dict[int, FinishedRun]]) -> str:
    """How many of these runs have the bits of the fixed-point run with the same seed."""
    fixed = by_kind["fixed-point"]
    same = [seed for seed in runs if runs[seed].summary.sha256 == fixed[seed].summary.sha256]
    return f"{len(same)} of {len(runs)} as in fixed point"


if __name__ == "__main__":
    main()
