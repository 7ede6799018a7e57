"""Whether regional coordinators give the same SHA-256, and what they cost.

    python benchmarks/regions.py                     # 3 regions of 1,000 clients each
    python benchmarks/regions.py 3 100 fedstar       # 3 of 100 each, and one method

Runs FedAvg, FedStar, FedDense and SCAFFOLD with and without regions in one process, with the
engine's own clients, rounds and regions. Each client has eight of the graphs of the setting `tiny`.
All clients train in both rounds, and the final model goes to one client in a hundred. The last line
is the wall time with regions over that without.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from ramet.data import Split
from ramet.data.sources.graph_sets import read_block
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.regions import Region
from ramet.engine.server.rounds import Rounds
from ramet.engine.site.client import Client
from ramet.engine.site.protection import Protection
from ramet.engine.start import start_extras, start_shared
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import METHODS
from ramet.rules.method import AssembledMethod, assembled
from ramet.tasks import GraphSamples

PROVEN = ("fedavg", "fedstar", "feddense", "scaffold")
ROUNDS, GRAPHS = 2, 8


@dataclass(frozen=True)
class Federation:
    """Clients with a few small graphs each."""

    method: AssembledMethod
    clients: tuple[str, ...]
    folder: Path

    @cached_property
    def samples(self) -> dict[str, GraphSamples]:
        block = read_block("tiny:rings", self.method.inputs, self.folder)
        draw = torch.Generator().manual_seed(0)
        drawn = [torch.randperm(block.graphs, generator=draw)[:GRAPHS] for _ in self.clients]
        splits = (Split(*torch.split(graphs, [GRAPHS - 4, 2, 2])) for graphs in drawn)
        return {c: GraphSamples(block, own) for c, own in zip(self.clients, splits, strict=True)}

    def client(self, client: str) -> Client:
        snapshots = Snapshots(self.folder / "clients" / client)
        samples, device = self.samples[client], torch.device("cpu")
        protection = Protection(clients=len(self.clients))
        return Client(client, self.method, samples, 0, snapshots, device, protection)

    def rounds(self, regions: dict[str, tuple[str, ...]]) -> Rounds:
        shape = self.method.task.shape(self.samples[self.clients[0]])
        return Rounds(
            method=self.method,
            clients=self.clients,
            rounds=ROUNDS,
            seed=0,
            start=start_shared(self.method, shape, 0),
            extras=start_extras(self.method, shape, 0),
            snapshots=Snapshots(self.folder / "server"),
            final_clients=self.clients[::100],
            regions=regions,
        )

    def run(self, regions: dict[str, tuple[str, ...]]) -> tuple[str, float]:
        """The SHA-256, and the seconds of the run."""
        wire = LocalWire(self.client)
        coordinator = Region(self.rounds({}).direct(wire))
        start = time.monotonic()
        sha256 = self.rounds(regions).run(
            LocalWire(lambda _: coordinator) if regions else wire, lambda _: None
        )
        return sha256, time.monotonic() - start


def main() -> None:
    torch.set_num_threads(1)
    count, size = (int(word) for word in (sys.argv[1:3] or ("3", "1000")))
    regions = {f"region-{r}": tuple(f"c{r}-{n}" for n in range(size)) for r in range(count)}
    clients = tuple(client for own in regions.values() for client in own)
    seconds = {True: 0.0, False: 0.0}
    for name in sys.argv[3:] or PROVEN:
        method, found = assembled(METHODS[name]()), set()
        for divided in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                federation = Federation(method, clients, Path(folder))
                sha256, taken = federation.run(regions if divided else {})
            found.add(sha256)
            seconds[divided] += taken
            kind = f"{count} regions of {size}" if divided else f"{len(clients)} clients"
            print(f"{name}, {kind}: SHA-256 {sha256}, {taken:.1f} s", flush=True)
        if len(found) > 1:
            raise SystemExit(f"{name}: the SHA-256 differs")
    print("The SHA-256 is the same with and without regions.")
    print(f"wall time with regions: ratio {seconds[True] / seconds[False]:.3f}")


if __name__ == "__main__":
    main()
