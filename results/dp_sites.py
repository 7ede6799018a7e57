"""FedAvg on `minesweeper` with 5 and 20 clients and differential privacy per site.

10 rounds of 5 epochs, without noise, with all of the noise at each site (`whole`), and with a part
of it at each site inside secure sums (`shared`). All in one process; run it again to continue.
`python results/tables.py dp-sites` prints the table.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import ramet
from ramet.experiment import RunFolder
from ramet.studies.archive import keep, kept
from ramet.studies.finished_run import FinishedRun

KEPT = Path(__file__).parent / "dp-sites"
SEEDS = (1, 2, 3)


def kinds() -> dict[str, dict[str, Any]]:
    """The options of each kind of run."""
    options: dict[str, dict[str, Any]] = {"none": {}}
    for epsilon in (8, 4, 2):
        dp = f"unit=site,epsilon={epsilon},delta=1e-3,clip=0.5"
        options |= {f"whole-{epsilon}": {"dp": dp}}
        options |= {f"shared-{epsilon}": {"dp": dp, "secure": True}}
    return options


def main(runs: Path) -> None:
    for seed, clients, (kind, options) in product(SEEDS, (20, 5), kinds().items()):
        name = f"{clients}-{kind}"
        if seed in {run.seed for run in kept(KEPT / name)}:
            continue
        folder = runs / f"{name}-{seed}"
        common: dict[str, Any] = {"network": "hops", "hidden": 8, "epochs": 5, "clients": clients}
        ramet.run("fedavg", "minesweeper", rounds=10, seed=seed, out=folder, **common, **options)
        finished = FinishedRun.of(RunFolder(folder))
        assert finished is not None
        keep([finished], KEPT / name)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "sweeps/dp-sites"))
