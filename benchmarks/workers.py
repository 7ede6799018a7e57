"""Two worker processes: wall time of a round of FedStar on `single`, relative to one process.

Trials alternate between both, with the same settings, and the SHA-256 of both must be equal. The
time of a round is that from one record to the next; the first rounds, in which workers start and
read data, are left out, as is the time before them, which is printed. Needs two idle cores.

    RAMET_DATA=DIR python benchmarks/workers.py [ROUNDS] [TRIALS] [WORKERS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from ramet.experiment import Experiment, RunSettings, checked_settings, default_data
from ramet.metrics import Record
from ramet.run_options import Computing
from ramet.runs import start

_WARM_UP = 2


def timed(settings: RunSettings, workers: int) -> tuple[str, float, float]:
    """The SHA-256 of a run, its seconds per round, and the seconds before the first of these."""
    ends = []

    def observe(record: Record) -> None:  # noqa: ARG001
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        computing = Computing(workers=workers)
        result = start(Experiment(settings), Path(folder) / "run", computing, observe=observe)
    first, *_, last = ends[_WARM_UP - 1 :]
    return result.summary.sha256, (last - first) / (len(ends) - _WARM_UP), first - begun


def main() -> None:
    given = [int(text) for text in sys.argv[1:]]
    rounds, trials, workers = given + [12, 3, 2][len(given) :]
    settings = checked_settings(
        method="fedstar", setting="single", rounds=rounds, seed=1, data=default_data()
    )
    ratios = []
    for trial in range(trials):
        one, many = (timed(settings, count) for count in (1, workers))
        if one[0] != many[0]:
            raise SystemExit(f"SHA-256 {many[0]} with {workers} workers, {one[0]} with one process")
        ratios.append(many[1] / one[1])
        print(
            f"trial {trial + 1}: one process {one[1]:.2f} s per round after {one[2]:.1f} s, "
            f"{workers} workers {many[1]:.2f} s after {many[2]:.1f} s: ratio {ratios[-1]:.3f}, "
            f"SHA-256 {one[0][:12]}… of both"
        )
    print(f"median of all trials: ratio {sorted(ratios)[len(ratios) // 2]:.3f}")


if __name__ == "__main__":
    main()
