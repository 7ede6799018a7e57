"""Two worker processes: wall time of a round of FedStar on `single`, relative to one process.

Trials alternate between both, with the same settings, and the SHA-256 of both must be equal. The
time of a round is that from one record to the next; the first rounds, in which workers start and
read data, are left out, as is the time before them, which is printed. Needs two idle cores.

    RAMET_DATA=DIR python benchmarks/workers.py [ROUNDS] [TRIALS] [WORKERS]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from harness import given, print_ratio, settings

from ramet.experiment import Experiment, RunSettings
from ramet.run_options import Computing
from ramet.runs import start

_WARM_UP = 2


def timed(chosen: RunSettings, workers: int) -> tuple[str, float]:
    """The SHA-256 of a run, and its seconds per round."""
    ends: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        result = start(
            Experiment(chosen),
            Path(folder) / "run",
            Computing(workers=workers),
            observe=lambda _: ends.append(time.perf_counter()),
        )
    first, *_, last = ends[_WARM_UP - 1 :]
    print(f"{workers} processes: {first - begun:.1f} s until the first round that counts")
    return result.summary.sha256, (last - first) / (len(ends) - _WARM_UP)


def main() -> None:
    rounds, workers = given(1, 12), given(3, 2)
    chosen = settings("fedstar", "single", rounds=rounds)

    def trial(_: int) -> tuple[float, float]:
        one, many = (timed(chosen, count) for count in (1, workers))
        if one[0] != many[0]:
            raise SystemExit(f"SHA-256 {many[0]} with {workers} workers, {one[0]} with one process")
        return many[1], one[1]

    sides = (f"{workers} workers", "one process", "a round, wall time")
    print_ratio(given(2, 3), trial, *sides, warm_ups=0)


if __name__ == "__main__":
    main()
