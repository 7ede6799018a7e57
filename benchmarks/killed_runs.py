"""Kill a run at random moments, resume it, and compare its SHA-256 with that of an undisturbed run.

    python benchmarks/killed_runs.py [--kills 20] [--workers 1] [--seconds 0.3] [--power-cut]

Each run is killed with SIGKILL once or twice, together with its workers. With `--power-cut`, all
files that clients have written since the server's newest snapshot are removed as well, as if they
had never reached the disk. Prints how many runs ended with the same SHA-256.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from ramet.experiment import Experiment, RunFolder, checked_settings
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_engine


def continue_run(path: Path, workers: int, seconds: float) -> None:
    folder = RunFolder.open(path)
    with local_engine(folder, workers) as wire:
        execute(folder, wire, lambda _: None, wire.write, seconds)


def created(path: Path, rounds: int) -> RunFolder:
    """A run with private parameters, the moments of Adam, and early candidates for the best."""
    given = {"method": "fedstar", "setting": "tiny", "rounds": rounds, "seed": 1, "data": Path()}
    return RunFolder.create(path, Experiment(checked_settings(**given, options={})))


def started(folder: RunFolder, given: argparse.Namespace) -> BaseProcess:
    """Execute the run in a process of its own, which is a copy of this one."""
    arguments = folder.path, given.workers, given.seconds
    process = get_context("fork").Process(target=continue_run, args=arguments)
    process.start()
    return process


def cut_power(folder: RunFolder) -> int:
    """Remove what clients have written since the newest snapshot of the server."""
    newest = max(folder.path.glob("server/*.safetensors"), default=None)
    since = newest.stat().st_mtime_ns if newest else 0
    files = [path for path in folder.clients.rglob("*") if path.is_file()]
    lost = [path for path in files if path.stat().st_mtime_ns > since]
    for path in lost:
        path.unlink()
    return len(lost)


def sha256(folder: RunFolder) -> str | None:
    path = folder.path / "result.json"
    return json.loads(path.read_text())["sha256"] if path.exists() else None


def interrupted(folder: RunFolder, given: argparse.Namespace) -> str:
    """Kill a run in random rounds, each time resume it, and say what happened."""
    told = []
    for target in sorted(random.sample(range(given.rounds), random.choice((1, 2)))):
        process = started(folder, given)
        while process.is_alive() and folder.rounds_done() < target:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.5))
        process.kill()
        process.join()
        rounds, lost = folder.rounds_done(), cut_power(folder) if given.power_cut else 0
        told.append(f"killed after {rounds} rounds" + (f", {lost} files lost" if lost else ""))
    started(folder, given).join()
    log = (folder.path / "events.jsonl").read_text().splitlines()
    begun = [json.loads(line)["round"] for line in log if "run begun" in line]
    return f"{'; '.join(told)}; begun in rounds {begun}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--power-cut", action="store_true")
    given = parser.parse_args()
    random.seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ramet-killed-") as path:
        reference = created(Path(path) / "reference", given.rounds)
        started(reference, given).join()
        same = 0
        for number in range(1, given.kills + 1):
            folder = created(Path(path) / str(number), given.rounds)
            told = interrupted(folder, given)
            same += sha256(folder) == sha256(reference)
            print(f"{number}: {told}; {same} of {number} the same", flush=True)
    print(f"{same} of {given.kills} runs ended with the same SHA-256")


if __name__ == "__main__":
    main()
