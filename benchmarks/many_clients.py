"""Cost per round as the number of clients grows, with 50 active clients per round.

    python benchmarks/many_clients.py                       # 100 and 1,000 clients
    python benchmarks/many_clients.py 10 100 1000 10000

Prints peak memory, seconds per active client and bytes per round. Every run is a separate process.
In the local engine server and clients share that process, so its memory is an upper bound for a
server alone. Seconds per client leave out the final message, which goes to all clients.
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

ACTIVE, ROUNDS = 50, 20


@dataclass(frozen=True)
class Measured:
    memory: int
    seconds: float  # per active client, median over rounds
    sent: float  # bytes per round, both ways
    in_all: float  # seconds from start to end, with the final message


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [100, 1000]
    found = []
    for clients in counts:
        one = measured(clients, min(ACTIVE, clients))
        found.append(one)
        print(
            f"{clients} clients, {min(ACTIVE, clients)} per round: {one.memory / 2**20:.0f} MB, "
            f"{1000 * one.seconds:.1f} ms per active client, {one.sent / 1e6:.2f} MB per round, "
            f"{one.in_all:.0f} s in total",
            flush=True,
        )
    few, many = found[0], found[-1]
    print(f"memory: ratio {many.memory / few.memory:.3f} (goal from 100 to 1,000: at most 1.3)")
    print(f"seconds per active client: ratio {many.seconds / few.seconds:.3f} (goal: 0.8 to 1.2)")


def measured(clients: int, active: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "ramet", "run", "fed-hgn", "--setting", "planted-hetero"]
        command += ["--activation", f"random-clients,count={active}", "--rounds", str(ROUNDS)]
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
        return Measured(
            memory=int(json.loads(done.stdout)["peak_memory"]),
            seconds=median(r["seconds"] / active for r in rounds),
            sent=median(sent),
            in_all=in_all,
        )


if __name__ == "__main__":
    main()
