"""Start-up: CPU time of the smallest run, relative to importing PyTorch and PyG alone.

The run is `ramet run fedavg --setting tiny --rounds 1`. Both sides are new processes, in turns. The
smallest run is mostly imports, so the ratio shows what Ramet imports in addition, or spares.

    python benchmarks/startup.py [TRIALS]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import given, print_ratio

IMPORTS = [sys.executable, "-c", "import torch, torch_geometric"]
RUN = [sys.executable, "-m", "ramet", "run", "fedavg", "--setting", "tiny", "--rounds", "1"]


def cpu_seconds(command: list[str]) -> float:
    """The CPU time of a command, in its own and the system's code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:

        def trial(number: int) -> tuple[float, float]:
            run = cpu_seconds([*RUN, "--out", str(Path(folder) / str(number))])
            return run, cpu_seconds(IMPORTS)

        print_ratio(given(1, 5), trial, "run", "imports")


if __name__ == "__main__":
    main()
