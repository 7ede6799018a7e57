"""Federations whose numbers can be derived by hand: real nodes and rounds in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ramet
from ramet.data import Batch, GraphBlock, Split
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.server.wire import Answer, Wire
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.client import Client
from ramet.engine.site.protection import Protection
from ramet.engine.start import start_extras, start_shared
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import LiveClients, local_wire
from ramet.metrics import Record
from ramet.models.shape import GraphShape
from ramet.payload import Arrays, Payload, only
from ramet.rules.merging import Summing
from ramet.rules.method import AssembledMethod, Method, assembled
from ramet.rules.server import Server
from ramet.scale import Scale
from ramet.studies.trial.wires import StoppedError, StoppingWire
from ramet.tasks import GraphClassification, GraphSamples, Scores
from ramet.training.local import LocalTraining


def graphs_of(nodes: list[int], labels: list[int]) -> GraphSamples:
    """Training graphs with these numbers of nodes, and graphs of one node to evaluate on."""
    sizes, none = [*nodes, 1, 1], torch.zeros(0, dtype=torch.int64)
    block = GraphBlock.from_links(
        rows=none,
        columns=none,
        node_starts=torch.tensor([0, *sizes]).cumsum(0),
        features=torch.zeros(sum(sizes), dtype=torch.int64),
        feature_width=1,
        labels=torch.tensor([*labels, 0, 0]),
        name="graphs without links",
    )
    val, test = torch.tensor([len(nodes)]), torch.tensor([len(nodes) + 1])
    return GraphSamples(replace(block, class_count=2), Split(torch.arange(len(nodes)), val, test))


def nodes_of(batch: Batch) -> Tensor:  # [graphs]
    return torch.bincount(batch.graph, minlength=batch.graphs).float()


class Slope(nn.Module):
    """Predicts the number of nodes times ``slope``, which starts at 0."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(1))

    def forward(self, batch: Batch) -> Tensor:  # [graphs]
        return nodes_of(batch) * self.slope


@dataclass(frozen=True)
class Climb(GraphClassification):
    """The loss is minus the prediction, so its gradient is minus the mean number of nodes.

    Both scores are predictions for one node: the slope, which has no bounds.
    """

    @property
    def scale(self) -> Scale:
        return Scale(unit="%")

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return -output.mean()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, samples: GraphSamples, device: torch.device) -> Scores:
        val, test = torch.cat([model(batch.to(device)) for batch in samples.held_out]).tolist()
        return {"val": val, "test": test}


@dataclass(frozen=True)
class LeastSquares(Climb):
    """Half of the squared difference from the label: with n nodes and label y the gradient of the
    slope s is n * (n * s - y).
    """

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return (output - batch.labels).square().mean() / 2


CLIMBERS = {"a": graphs_of([1], [0]), "b": graphs_of([2], [0]), "c": graphs_of([4], [0])}
"""A step of ``Climb`` with learning rate 1 adds 1, 2 and 4 to their slopes."""
LINES = {"a": graphs_of([1], [4]), "b": graphs_of([2, 2, 2], [1, 1, 1])}
"""With ``LeastSquares`` the gradient is s - 4 for a, and 4 s - 2 for b, whose weight is 3."""


def by_hand(method: Method, task: Climb, lr: float, epochs: int = 1) -> AssembledMethod:
    """A method that shares the slope, with plain SGD."""
    training = LocalTraining(lr=lr, weight_decay=0.0, epochs=epochs, algorithm="sgd")
    parts: Any = {"model": Slope, "task": task, "training": training, "shared": only("slope")}
    return assembled(replace(method, **parts))


def climbing(**parts: Any) -> AssembledMethod:
    """A method whose clients add the number of nodes to the slope in each round."""
    own: Any = {"name": "climbing", "paper": "none", "shared": only("slope"), **parts}
    return by_hand(Method(**own), Climb(), lr=1.0)


def with_all_states(run: Path, out: Path) -> RunFolder:
    """The same run again, with the states of every round on disk, and what leaves clients."""
    folder = RunFolder.create(out, RunFolder.open(run).experiment())
    clients = LiveClients(folder.experiment(), folder.clients, lives=False, audited=True)
    execute(folder, clients.wire(), lambda _: None)
    return folder


def protected(client: Client, **terms: Any) -> Client:
    """The client under other terms."""
    return replace(client, protection=replace(client.protection, **terms))


@dataclass
class StopsAfter:
    """A wire that stops the run after a number of replies."""

    wire: Wire
    replies: int

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for answer in self.wire.exchange(requests):
            if not self.replies:
                raise StoppedError
            self.replies -= 1
            yield answer


@dataclass(frozen=True)
class Federation:
    """A run of a method in a folder. Every message is answered by a new node."""

    method: AssembledMethod
    folder: Path
    samples: Mapping[str, GraphSamples] = field(default_factory=lambda: dict(CLIMBERS))

    def client(self, client: str) -> Client:
        states = Snapshots(self.folder / client, keep=100)
        audit = AuditLog(self.folder / client / "audit.jsonl", "run", client)
        device = torch.device("cpu")
        protection = Protection(audit=audit)
        return Client(client, self.method, self.samples[client], 0, states, device, protection)

    def rounds(self, rounds: int, **settings: Any) -> Rounds:
        """The server's side of the run."""
        shape = self.method.task.shape(next(iter(self.samples.values())))
        return Rounds(
            method=self.method,
            clients=tuple(self.samples),
            rounds=rounds,
            seed=0,
            start=start_shared(self.method, shape, 0),
            extras=start_extras(self.method, shape, 0),
            snapshots=Snapshots(self.folder / "server", keep=100),
            **settings,
        )

    def run(
        self, rounds: int, wire: Wire | None = None, **settings: Any
    ) -> tuple[str, list[Record]]:
        """Run or continue it, and return the SHA-256 and the records."""
        records: list[Record] = []
        run = self.rounds(rounds, **settings)
        return run.run(wire or LocalWire(self.client), records.append), records

    def stop(self, rounds: int, replies: int) -> None:
        """Run it until a number of replies have been received."""
        with pytest.raises(StoppedError):
            self.run(rounds, StopsAfter(LocalWire(self.client), replies))

    def resumed(self, rounds: int, replies: int) -> str:
        """Stop after a number of replies, continue, and return the SHA-256."""
        self.stop(rounds, replies)
        return self.run(rounds)[0]

    def saved(self, who: str, step: int) -> Snapshot:
        """The snapshot of a client, or of the server, after a step."""
        return Snapshots(self.folder / who).load(step)

    def state(self, step: int) -> RunState:
        """The server's state after a step."""
        return RunState.restored(self.saved("server", step))

    def slopes(self, who: str, name: str, steps: int) -> list[float]:
        """The values of an array of one number after each step."""
        owned = f"{MERGING}/{name}" if who == "server" and "/" not in name else name
        return [self.saved(who, step).arrays[owned].item() for step in range(1, steps + 1)]


@dataclass
class Watched:
    """A wire that keeps what is sent, and may lose messages or change replies."""

    federation: Federation
    away: Callable[[str, Payload], bool] = lambda client, message: False
    change: Callable[[str, Payload], Payload] = lambda client, reply: reply
    messages: list[tuple[str, Payload]] = field(default_factory=list)
    replies: list[Payload] = field(default_factory=list)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            self.messages.append((client, message))
            if self.away(client, message):
                yield client, "is away"
            else:
                self.replies.append(self.federation.client(client).answer(message))
                yield client, self.change(client, self.replies[-1])

    def sent_to(self, client: str) -> list[Payload]:
        return [message for name, message in self.messages if name == client]


@dataclass(frozen=True)
class OfThisRound(Summing):
    """The sum of the extras that clients have sent in an exchange."""

    def term(self, reply: Payload) -> Arrays:
        return reply.extras

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        return Payload({name: array.astype(np.float32) for name, array in total.items()})


PLANTED: dict[str, Any] = {
    "clients": 3,
    "partition": "balanced",
    "nodes": 200,
    "links": 300,
    "hidden": 4,
}
"""A GCN with 32 features, 4 hidden units and 4 classes: arrays of 128, 4, 16 and 4 floats."""


def planted_run(method: str, folder: Path, **options: Any) -> ramet.Result:
    """Three rounds on parts of a generated graph."""
    return ramet.run(method, "planted", rounds=3, out=folder, **PLANTED, **options)


def wavering_run(folder: Path, rounds: int = 8, **options: Any) -> ramet.Result:
    """A run with private heads and a large learning rate, whose best round of eight is the 4th."""
    given = {"rounds": rounds, "seed": 3, "lr": 0.05, **PLANTED, **options}
    return ramet.run("fedper", "planted", out=folder, **given)


def merged_sha256(run: Path) -> str:
    """The SHA-256 of a run if its clients were deployed sites, which send no digests."""
    saved = Snapshots(run / "server").latest_valid()
    assert saved is not None
    return RunState.restored(saved).sha256({})


def stopped_and_resumed(whole: ramet.Result, folder: Path, in_round: int = 3) -> str:
    """The SHA-256 of a run with the same settings that was stopped in a round and resumed."""
    run = RunFolder.create(folder, RunFolder(whole.folder).experiment())
    with suppress(StoppedError):
        execute(run, StoppingWire(local_wire(run), in_round), lambda _: None)
    assert run.summary() is None
    return ramet.resume(folder).summary.sha256


def payload(arrays: Mapping[str, list[float]], weight: float = 1.0) -> Payload:
    """A reply with arrays of floats."""
    named = {name: np.array(values, np.float32) for name, values in arrays.items()}
    return Payload(named, {"weight": weight})
