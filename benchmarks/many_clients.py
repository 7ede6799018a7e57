"""Cost per round as the number of clients grows, with 100 active clients per round.

    python benchmarks/many_clients.py                       # 1,000 and 100,000 clients
    python benchmarks/many_clients.py 10 100 1000 10000

Prints peak memory, seconds and bytes per round, and how many files the run leaves for each client
that took part. Every run is a separate process. In the local engine server and clients share that
process, so its memory is an upper bound for a server alone. The final model goes to 100 clients.
The last lines are the ratios of the last to the first number of clients.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ACTIVE, ROUNDS, FINAL = 100, 20, 100


@dataclass(frozen=True)
class Measured:
    memory: int
    seconds: float  # per round, median over rounds
    files: float  # per client that was asked or has the final model
    sent: float  # bytes per round, both ways
    in_all: float  # seconds from start to end, with the final message


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [1000, 100_000]
    found = []
    for clients in counts:
        one = measured(clients, min(ACTIVE, clients))
        found.append(one)
        print(
            f"{clients} clients, {min(ACTIVE, clients)} per round: {one.memory / 2**20:.0f} MB, "
            f"{one.seconds:.2f} s and {one.sent / 1e6:.2f} MB per round, "
            f"{one.files:.1f} files per client that took part, {one.in_all:.0f} s in total",
            flush=True,
        )
    few, many = found[0], found[-1]
    print(f"memory: ratio {many.memory / few.memory:.3f} (goal: at most 1.3)")
    print(f"seconds per round: ratio {many.seconds / few.seconds:.3f} (goal: at most 1.2)")


def measured(clients: int, active: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "ramet", "run", "fed-hgn", "--setting", "planted-hetero"]
        command += ["--activation", f"random-clients,count={active}", "--rounds", str(ROUNDS)]
        command += ["--final-clients", str(FINAL), "--workers", "1"]
        for option in (f"clients={clients}", "nodes=60", "links=300", "hidden=16"):
            command += ["--set", option]
        start = time.monotonic()
        done = subprocess.run(
            [*command, "--out", str(out), "--json"], check=True, capture_output=True, text=True
        )
        in_all = time.monotonic() - start
        rounds = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
        sent = [
            sum(r["down"].values()) + sum(t["up"] for t in r["trained"].values()) for r in rounds
        ]
        (states,) = (out / "clients").iterdir()
        return Measured(
            memory=int(json.loads(done.stdout)["peak_memory"]),
            seconds=median(r["seconds"] for r in rounds),
            files=sum(path.is_file() for path in out.rglob("*")) / len([*states.iterdir()]),
            sent=median(sent),
            in_all=in_all,
        )


if __name__ == "__main__":
    main()
