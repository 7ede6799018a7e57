"""1,000 clients with 50 a round, beside 100: peak memory, and seconds per active client.

    python benchmarks/many_clients.py

Every run is a process of its own. In the local engine the server's memory is the process's, clients
included, so what is printed is more than a server alone would hold. The closing message, which goes
to all clients, is not in the seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ACTIVE, ROUNDS = 50, 20


def main() -> None:
    found = []
    for clients in (100, 1000):
        memory, seconds = measured(clients)
        found.append((memory, seconds))
        told = f"{memory / 2**20:.0f} MB, {1000 * seconds:.1f} ms per active client"
        print(f"{clients} clients: {told}", flush=True)
    few, many = found
    print(f"memory: {many[0] / few[0]:.3f} (at most 1.3)")
    print(f"seconds per active client: {many[1] / few[1]:.3f} (0.8 to 1.2)")


def measured(clients: int) -> tuple[int, float]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "ramet", "run", "fed-hgn", "--setting", "planted-hetero"]
        command += ["--activation", f"random-clients,count={ACTIVE}", "--rounds", str(ROUNDS)]
        for option in (f"clients={clients}", "nodes=60", "links=300", "hidden=16"):
            command += ["--set", option]
        done = subprocess.run(
            [*command, "--out", str(out), "--json"], check=True, capture_output=True, text=True
        )
        lines = (out / "rounds.jsonl").read_text().splitlines()
        seconds = [json.loads(line)["seconds"] / ACTIVE for line in lines]
        return int(json.loads(done.stdout)["peak_memory"]), median(seconds)


if __name__ == "__main__":
    main()
