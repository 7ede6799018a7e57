"""Repeats kept runs, drawn at random, from their own commands, and compares SHA-256.

Of ten draws per run that is wanted, the quickest are taken. Sums of floats depend on the processor
and the version of PyTorch, so these are printed where they differ from here.
"""

from __future__ import annotations

import argparse
import random
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ramet.experiment import RunFolder
from ramet.studies.archive import runs_below
from ramet.studies.finished_run import FinishedRun

HERE = Path(__file__).parent
DRAWS = 10
DECIDING = ("processor", "torch", "torch_geometric", "data")


def drawn(count: int, seed: int) -> list[FinishedRun]:
    """Runs of settings whose data everybody can get."""
    runs = [run for run in runs_below([HERE]) if run.setting != "own"]
    some = random.Random(seed).sample(runs, DRAWS * count)
    return sorted(some, key=lambda run: run.summary.seconds)[:count]


def repeated(run: FinishedRun, folder: Path) -> str:
    """`the same`, or what may be the reason why not."""
    words = shlex.split(run.command)
    command = [sys.executable, "-m", *words, "--workers", "1", "--out", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    again = FinishedRun.of(RunFolder(folder)) if not done.returncode else None
    if again is None:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    if again.summary.sha256 == run.summary.sha256:
        return "the same"
    before, now = run.versions, again.versions
    changed = [name for name in DECIDING if before.get(name) != now.get(name)]
    points = 100 * (again.summary.scores.test - run.summary.scores.test)
    return f"another; test {points:+.2f} points; differs or unknown: {', '.join(changed) or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = []
    with TemporaryDirectory() as scratch:
        for number, run in enumerate(drawn(given.count, given.seed)):
            found.append(repeated(run, Path(scratch) / str(number)))
            print(f"{found[-1]}: {run.command}", flush=True)
    print(f"{found.count('the same')} of {len(found)} have the same SHA-256.")


if __name__ == "__main__":
    main()
