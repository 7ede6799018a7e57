"""Seconds and bytes of a secure round over those of a plain round.

    python benchmarks/secure_round.py                                    # all counts of sites
    python benchmarks/secure_round.py --simulated 3 --deployed 3 --rounds 2    # a small form
    python benchmarks/secure_round.py --deployed                         # simulations only

In simulation: FedStar on equal parts of NCI1 in the local engine, in CPU seconds of the run without
its set-up, which is measured by a plain run of one round. With 20 sites, a site has 205 graphs.
Deployed: consortia of real processes as in `superlink_round.py`, in wall time from the end of round
1 to the end of the last one. Sites exchange keys before round 1 for 20 rounds; in simulation this
is part of the seconds. Bytes are those of arrays, keys and shares in both directions, per round.
The last lines are ratios, with the goals.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from superlink_round import Parties, Plan, measured, ramet, started

import ramet as package

SECURE = {"plain": False, "secure": True}


@dataclass(frozen=True)
class Cost:
    """Of one round."""

    seconds: float
    bytes: float


def main() -> None:
    given = _arguments()
    lines = [
        *_compared("simulated", "CPU", given.simulated, given.rounds, simulated, 1.3),
        *_compared("deployed", "wall", given.deployed, given.rounds, deployed, 2.2),
    ]
    print(f"{given.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for line in lines:
        print(line)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--simulated", type=int, nargs="*", default=[3, 5, 10, 20])
    parser.add_argument("--deployed", type=int, nargs="*", default=[5, 10])
    parser.add_argument("--rounds", type=int, default=20)
    return parser.parse_args()


def _compared(
    kind: str,
    clock: str,
    counts: Sequence[int],
    rounds: int,
    costs: Callable[[int, int, Path], dict[str, Cost]],
    goal: float,
) -> list[str]:
    """Measure for each number of sites; returns the lines with the ratios."""
    lines = []
    for sites in counts:
        with tempfile.TemporaryDirectory(prefix="ramet-") as name:
            found = costs(sites, rounds, Path(name))
        for label, cost in found.items():
            facts = f"{cost.seconds:.3f} {clock} s, {cost.bytes / 1e6:.3f} MB per round"
            print(f"{kind}, {sites} sites, {label}: {facts}", flush=True)
        plain, secure = found["plain"], found["secure"]
        lines.append(
            f"{kind}, {sites} sites: {secure.seconds / plain.seconds:.2f} times the seconds (goal: "
            f"at most {goal}), {secure.bytes / plain.bytes:.2f} times the bytes (goal: at most 2.1)"
        )
    return lines


def simulated(sites: int, rounds: int, folder: Path) -> dict[str, Cost]:
    """Costs in the local engine; the first run is left out, because it prepares the data."""
    _simulation(sites, 1, False, folder / "warm")
    begun = _simulation(sites, 1, False, folder / "one").seconds
    costs = {}
    for label, secure in SECURE.items():
        cost = _simulation(sites, rounds, secure, folder / label)
        costs[label] = Cost((cost.seconds - begun) / (rounds - 1), cost.bytes / rounds)
    return costs


def _simulation(sites: int, rounds: int, secure: bool, out: Path) -> Cost:
    before = time.process_time()
    result = package.run(
        "fedstar", "at-random", clients=sites, rounds=rounds, secure=secure, out=out, workers=1
    )
    return Cost(time.process_time() - before, result.summary.traffic.total)


def deployed(sites: int, rounds: int, folder: Path) -> dict[str, Cost]:
    """Costs of a consortium behind nginx, with TLS and a SuperLink."""
    costs, plan = {}, Plan(sites, rounds, 64, 2)
    with started(folder, plan) as parties:
        _accept_each_other(parties)
        for label, secure in SECURE.items():
            _choose(parties.coordinator / "consortium.toml", secure)
            seconds, _ = measured(parties, folder / label, rounds)
            traffic = json.loads((folder / label / "result.json").read_text())["traffic"]
            costs[label] = Cost(seconds, traffic["total"] / rounds)
    return costs


def _accept_each_other(parties: Parties) -> None:
    for site in parties.sites:
        for other in parties.sites:
            ramet("deploy", "member", str(other / f"{other.name}.application.toml"), str(site))


def _choose(settings: Path, secure: bool) -> None:
    """Switch secure sums on or off for the next run."""
    changed = {**tomllib.loads(settings.read_text()), "secure": secure}
    settings.write_text(tomli_w.dumps(changed))


if __name__ == "__main__":
    main()
