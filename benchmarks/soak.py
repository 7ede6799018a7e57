"""Memory and disk of a consortium over many rounds.

    python benchmarks/soak.py soak                                    # ten sites, 500 rounds
    python benchmarks/soak.py soak --sites 3 --rounds 20 --every 2

Sets up a consortium on this machine in the folder `soak`, as `superlink_round.py` does, runs it,
and writes `soak.csv`: after every few rounds, the memory of each program (resident, without what
forked processes share) and the size of each member's folder. `soak.png` shows them as curves (needs
the extra `report`). If the script is interrupted, the same command continues the run. The last
lines compare each column's size at half time and at the end.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import mean

import psutil
from superlink_round import Parties, Plan, committed, ramet_command, started

PROGRAMS = {
    "multiprocessing.forkserver": "fork servers and client apps",
    "flwr-serverapp": "server app",
    "flower-superlink": "SuperLink",
    "flower-supernode": "SuperNodes",
    "ramet.flower.supernode": "SuperNodes",
    "flower-superexec": "SuperExecs",
    "ramet.flower.warm": "SuperExecs",
    "nginx": "nginx",
}
"""The programs to watch, by a word in their command lines; the first match counts."""


def main() -> None:
    root, plan, every = _arguments()
    root.mkdir(parents=True, exist_ok=True)
    with started(root, plan) as parties:
        _run(parties, root, every)
    rows = _read(root / "soak.csv")
    _draw(rows, root / "soak.png")
    for column, before, after in growth(rows):
        print(f"{column}: {before:.1f} MB at half time, {after:.1f} MB at the end")


def _arguments() -> tuple[Path, Plan, int]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--every", type=int, default=5, help="rounds between two samples")
    given = parser.parse_args()
    return given.folder.absolute(), Plan(given.sites, given.rounds, 64, 2), given.every


def _run(parties: Parties, root: Path, every: int) -> None:
    """Start or continue the run, and add a sample to the CSV file after every few rounds."""
    run, path = root / "run", root / "soak.csv"
    rows = _read(path) if path.exists() else []
    with (root / "run.log").open("ab") as log:
        command = ramet_command("deploy", "run", str(parties.coordinator), "--out", str(run))
        running = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    due = (rows[-1]["round"] if rows else 0) + every
    while running.poll() is None:
        done = len({event["round"] for event in committed(run)})
        if done >= due:
            _append(path, {"round": done, "time": time.time(), **sample(parties)})
            due = done + every
        time.sleep(0.5)
    if running.returncode != 0:
        sys.exit(f"the run failed; see {root / 'run.log'}. The same command continues it.")


def sample(parties: Parties) -> dict[str, float]:
    """Megabytes of memory by program, and of disk by member."""
    memory = Counter({f"memory of {program}": 0.0 for program in PROGRAMS.values()})
    homes = {str(folder) for folder in parties.folders}
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            program = next((name for word, name in PROGRAMS.items() if word in words), None)
            if program and (process.cwd() in homes or _home(process) in homes):
                memory[f"memory of {program}"] += process.memory_full_info().uss / 1e6
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    disk = {f"disk of {folder.name}": _size(folder) / 1e6 for folder in parties.folders}
    return {**memory, **disk}


def _home(process: psutil.Process) -> str:
    return str(Path(process.environ().get("FLWR_HOME", "")).parent)


def _size(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files if path.exists())


def growth(rows: list[dict[str, float]]) -> list[tuple[str, float, float]]:
    """Each column's means over a tenth of the samples, from half time on and at the end."""
    tenth = max(1, len(rows) // 10)
    middle, end = rows[len(rows) // 2 :][:tenth], rows[-tenth:]
    return [
        (name, mean(row[name] for row in middle), mean(row[name] for row in end))
        for name in rows[0]
        if name not in ("round", "time")
    ]


def _append(path: Path, row: dict[str, float]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [*row])
        if is_new:
            writer.writeheader()
        writer.writerow({name: f"{value:.2f}" for name, value in row.items()})


def _read(path: Path) -> list[dict[str, float]]:
    with path.open(newline="") as file:
        return [{name: float(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _draw(rows: list[dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, sharex=True, figsize=(8, 7))
    for axis, kind in zip(axes, ("memory", "disk"), strict=True):
        for name in (name for name in rows[0] if name.startswith(kind)):
            axis.plot([row["round"] for row in rows], [row[name] for row in rows], label=name)
        axis.set_ylabel(f"{kind} in MB")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")
    axes[-1].set_xlabel("round")
    figure.savefig(path, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
