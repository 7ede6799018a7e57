"""Does the runs that the ledger lacks, one at a time and at the lowest priority.

The main tables come first, setting by setting, and in each of them split by split, so that methods
are compared on equal splits. A run is kept when it is finished. To stop, create the file `stop` in
the scratch folder; the same command continues, also within a run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

from ramet.papers.ledger import Command, Ledger, ledger

HERE = Path(__file__).parent
ORDER = ("single", "bio-sm", "cross-diff", "bio-sn-cv", "cross-sim", "bio-sm-sn", "multi")
LOWEST, LOOK_EVERY = 19, 2.0


def commands(found: Ledger) -> list[str]:
    """A command per method and split, in the order in which they are run."""

    def place(command: Command, split: int) -> tuple[bool, int, int]:
        setting = command.setting
        known = ORDER.index(setting) if setting in ORDER else len(ORDER)
        return not command.in_main_tables, known, split

    single = [
        (place(one, split), text) for one in found.queue for split, text in one.by_split.items()
    ]
    return [text for _, text in sorted(single, key=lambda pair: pair[0])]


def run(command: str, scratch: Path, stop: Path) -> bool:
    """Run to the end or until asked to stop; whether nothing failed."""
    words = shlex.split(command)
    folder = scratch / " ".join(words[2:]).replace("/", "_")
    with subprocess.Popen(
        [sys.executable, "-m", *words, "--jobs", "1", "--workers", "1", "--out", folder],
        cwd=HERE.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and not stop.exists():
            time.sleep(LOOK_EVERY)
        stopped = process.poll() is None
        process.terminate()
    return stopped or process.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path, help="folder for unfinished runs; may be deleted")
    scratch = parser.parse_args().scratch.absolute()
    scratch.mkdir(parents=True, exist_ok=True)
    os.nice(LOWEST)
    stop, failed = scratch / "stop", []
    with FileLock(scratch / "lock", timeout=0):
        for command in commands(ledger(HERE)):
            if stop.exists():
                break
            print(command, flush=True)
            failed += [] if run(command, scratch, stop) else [command]
    if failed:
        sys.exit("failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
