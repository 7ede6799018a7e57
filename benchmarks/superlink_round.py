"""Seconds per round, and the SuperLink's CPU time, for a consortium of real processes.

    python benchmarks/superlink_round.py                              # three sites, ten rounds
    python benchmarks/superlink_round.py --sites 10
    python benchmarks/superlink_round.py --hidden 2890 --rounds 4     # a model of 100 MB

Sets up a coordinator and sites on this machine as docs/deploy.md describes, with nginx, TLS, node
authentication and signed replies, and runs Fed-GCN on small graphs of the sites. The mean leaves
out the first round, which waits for the sites to start. The last two lines are seconds per round
and the SuperLink's CPU-seconds per round.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from ramet.flower.programs import free_ports

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from own_sites import node_site

CONSORTIUM_TOML = """\
name = "measured"
address = "localhost"
listen = "127.0.0.1"
port = {port}
link_port = {link_port}
sites = {sites}
method = "fedavg"
network = "fedlit-gcn"
rounds = {rounds}
quorum = {quorum}

[options]
task = "node-classification"
hidden = "{hidden}"
layers = "{layers}"
"""


@dataclass(frozen=True)
class Plan:
    """What to run."""

    sites: int
    rounds: int
    hidden: int
    layers: int

    @property
    def names(self) -> list[str]:
        return [f"site{number}" for number in range(1, self.sites + 1)]


@dataclass(frozen=True)
class Parties:
    """The folders of a consortium whose programs are running."""

    coordinator: Path
    sites: tuple[Path, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.coordinator, *self.sites)


def main() -> None:
    plan = _arguments()
    with tempfile.TemporaryDirectory(prefix="ramet-") as name:
        folder = Path(name)
        with started(folder, plan) as parties:
            seconds, cpu = measured(parties, folder / "run", plan.rounds)
    print(f"mean of rounds 2 to {plan.rounds}, {plan.sites} sites, load {os.getloadavg()[0]:.1f}")
    print(f"seconds per round {seconds:.2f}")
    print(f"SuperLink CPU-seconds per round {cpu:.2f}")


def _arguments() -> Plan:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    return Plan(**vars(parser.parse_args()))


def measured(parties: Parties, run: Path, rounds: int) -> tuple[float, float]:
    """Run the method; mean seconds, and mean CPU-seconds of the SuperLink, of rounds 2 and on."""
    with (parties.coordinator.parent / "run.log").open("wb") as log:
        command = ramet_command("deploy", "run", str(parties.coordinator), "--out", str(run))
        running = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    superlink = processes(parties.coordinator / "flower", "superlink")
    first = _cpu_after_round(1, run, running, superlink)
    last = _cpu_after_round(rounds, run, running, superlink)
    if running.wait() != 0:
        sys.exit(Path(log.name).read_text())
    times = {event["round"]: datetime.fromisoformat(str(event["time"])) for event in committed(run)}
    size = sum(json.loads((run / "rounds.jsonl").read_text().splitlines()[-1])["down"].values())
    print(f"{size / len(parties.sites) / 1e6:.2f} MB of arrays to a site per round")
    in_all = (times[rounds] - times[1]).total_seconds()
    return in_all / (rounds - 1), (last - first) / (rounds - 1)


def _cpu_after_round(
    number: int, run: Path, running: subprocess.Popen[bytes], watched: Sequence[psutil.Process]
) -> float:
    """Wait for a round, and return the CPU-seconds of the watched processes."""
    while number not in [event["round"] for event in committed(run)]:
        if running.poll() is not None:
            break
        time.sleep(0.05)
    return sum(sum(process.cpu_times()[:2]) for process in watched)


def committed(run: Path) -> list[dict[str, Any]]:
    """The events that end a round."""
    path = run / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in events if event["event"] == "round committed"]


def processes(home: Path, word: str) -> list[psutil.Process]:
    """The processes with this `FLWR_HOME` whose command line contains a word."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("FLWR_HOME") == str(home)
            if ours and any(word in argument for argument in process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@contextmanager
def started(root: Path, plan: Plan) -> Iterator[Parties]:
    """Set up a consortium in this folder if there is none, start it, and stop it at the end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # stop the programs first
    parties = Parties(root / "coordinator", tuple(root / name for name in plan.names))
    if not parties.coordinator.exists():
        _set_up(root, parties, plan)
    try:
        for folder in parties.folders:
            ramet("deploy", "start", str(folder))
        yield parties
    finally:
        for folder in reversed(parties.folders):
            ramet("deploy", "stop", str(folder))


def _set_up(root: Path, parties: Parties, plan: Plan) -> None:
    port, link_port, *own_ports = free_ports(2 + plan.sites)
    settings = root / "consortium.toml"
    settings.write_text(
        CONSORTIUM_TOML.format(
            port=port,
            link_port=link_port,
            sites=json.dumps(plan.names),
            rounds=plan.rounds,
            quorum=plan.sites,
            hidden=plan.hidden,
            layers=plan.layers,
        )
    )
    coordinator = str(parties.coordinator)
    ramet("deploy", "init", str(settings), "--out", coordinator)
    for number, (folder, own_port) in enumerate(zip(parties.sites, own_ports, strict=True)):
        data = node_site(root / "graphs" / folder.name, seed=number)
        invitation = parties.coordinator / "invitations" / f"{folder.name}.toml"
        options = ["--data", str(data), "--out", str(folder), "--runtime-port", str(own_port)]
        ramet("deploy", "join", str(invitation), *options)
        application = folder / f"{folder.name}.application.toml"
        ramet("deploy", "admit", str(application), coordinator)


def ramet(*words: str) -> None:
    done = subprocess.run(ramet_command(*words), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"`ramet {' '.join(words)}` failed:\n{done.stdout}{done.stderr}")


def ramet_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ramet", *words]


if __name__ == "__main__":
    main()
