"""Start-up: CPU time of the smallest run, relative to importing PyTorch and PyG alone.

The run is `ramet run fedavg --setting tiny --rounds 1`. Both sides are new processes, in turns; the
ratio is that of the medians. The smallest run is mostly imports, so the ratio shows what Ramet
imports in addition, or spares.

    python benchmarks/startup.py [TRIALS]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

IMPORTS = [sys.executable, "-c", "import torch, torch_geometric"]
RUN = [sys.executable, "-m", "ramet", "run", "fedavg", "--setting", "tiny", "--rounds", "1"]


def cpu_seconds(command: list[str]) -> float:
    """The CPU time of a command, in its own and the system's code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    imports, runs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(trials + 1):
            imported = cpu_seconds(IMPORTS)
            ran = cpu_seconds([*RUN, "--out", str(Path(folder) / str(trial))])
            if trial:  # the first one reads files from disk
                imports.append(imported)
                runs.append(ran)
                print(f"trial {trial}: imports {imported:.2f} s, run {ran:.2f} s (CPU time)")
    print(f"median of all trials: ratio {median(runs) / median(imports):.3f}")


if __name__ == "__main__":
    main()
