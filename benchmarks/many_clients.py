"""More and more clients with 50 a round: peak memory, seconds per active client, bytes a round.

    python benchmarks/many_clients.py                       # 1,000 clients beside 100
    python benchmarks/many_clients.py 10 100 1000 10000

Every run is a process of its own. In the local engine the server's memory is the process's, clients
included, so what is printed is more than a server alone would hold. The closing message, which goes
to all clients, is not in the seconds.
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
    in_all: float  # seconds from start to end, with the closing message


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [100, 1000]
    found = []
    for clients in counts:
        one = measured(clients, min(ACTIVE, clients))
        found.append(one)
        print(
            f"{clients} clients, {min(ACTIVE, clients)} a round: {one.memory / 2**20:.0f} MB, "
            f"{1000 * one.seconds:.1f} ms per active client, {one.sent / 1e6:.2f} MB a round, "
            f"{one.in_all:.0f} s in all",
            flush=True,
        )
    few, many = found[0], found[-1]
    print(f"memory: {many.memory / few.memory:.3f} (at most 1.3 from 100 to 1,000)")
    print(f"seconds per active client: {many.seconds / few.seconds:.3f} (0.8 to 1.2)")


def measured(clients: int, active: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "ramet", "run", "fed-hgn", "--setting", "planted-hetero"]
        command += ["--activation", f"random-clients,count={active}", "--rounds", str(ROUNDS)]
        for option in (f"clients={clients}", "nodes=60", "links=300", "hidden=16"):
            command += ["--set", option]
        begun = time.monotonic()
        done = subprocess.run(
            [*command, "--out", str(out), "--json"], check=True, capture_output=True, text=True
        )
        in_all = time.monotonic() - begun
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
