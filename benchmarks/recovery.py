"""How long sites take to be online again after they lost their coordinator.

    python benchmarks/recovery.py LINES.jsonl "coordinator away" 120 600

Sets up a consortium of two sites on this machine, applies the cause once for each number of
seconds, and appends a line per trial to LINES.jsonl: the cause, how long it lasted, and the seconds
until the SuperLink listed all sites as online. Causes: "expired certificate", "coordinator away"
and "flooded proxy". Trials that the file already contains are skipped. Needs nginx.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from consortia import Members, consortium
from outages import OUTAGES, seconds_to_recovery


def trial(members: Members, cause: str, seconds: float) -> dict[str, object]:
    gone = OUTAGES[cause](members, lambda: time.sleep(seconds))
    return {
        "cause": cause,
        "lasted": seconds,
        "recovered_after": round(seconds_to_recovery(members, gone), 1),
    }


def main(path: Path, cause: str, durations: list[float]) -> None:
    done = path.read_text().splitlines() if path.exists() else []
    features = {"north": ("mass",), "south": ("mass", "charge")}
    with (
        tempfile.TemporaryDirectory(prefix="ramet-recovery-") as folder,
        consortium(Path(folder), features, method="fedstar", rounds=2) as members,
    ):
        for seconds in durations[len(done) :]:
            line = json.dumps(trial(members, cause, seconds))
            with path.open("a") as lines:
                lines.write(line + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [float(seconds) for seconds in sys.argv[3:]])
