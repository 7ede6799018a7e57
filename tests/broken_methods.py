"""Methods that break a promise on purpose, each in a few lines; `ramet try` must find them all."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ExponentialLR

from ramet import Method, fedavg
from ramet.data import Batch
from ramet.models.shape import GraphShape
from ramet.payload import Arrays, Payload, only
from ramet.rules.merging import Merging, Reply, WeightedMean
from ramet.rules.server import Server
from ramet.tasks import StructureEncoding
from ramet.training.local import LocalTraining, Penalty, Session, Training


def trained_by(training: Training) -> Method:
    return replace(fedavg(), name="broken", training=training)


def merged_by(merging: Merging) -> Method:
    return replace(fedavg(), name="broken", merging=merging)


@dataclass(frozen=True)
class _CountedCalls(LocalTraining):
    calls: dict[str, int] = field(default_factory=dict)

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        self.calls["fit"] = self.calls.get("fit", 0) + 1
        for group in session.optimiser.param_groups:
            group["lr"] = self.lr / self.calls["fit"]
        return super().fit(session, penalty)


def counted_calls() -> Method:
    """The learning rate depends on a count in a Python object."""
    return trained_by(_CountedCalls())


class _Marked(_CountedCalls):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = LocalTraining.fit(self, session, penalty)
        self.calls["fit"] = self.calls.get("fit", 0) + 1
        for parameter in session.model.parameters():
            session.optimiser.state[parameter]["mark"] = torch.tensor(float(self.calls["fit"]))
        return loss


def marked_optimiser() -> Method:
    """A count in a Python object reaches the optimiser's state, but no reply."""
    return trained_by(_Marked())


class _RandomRate(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        for group in session.optimiser.param_groups:
            group["lr"] = self.lr * random.random()
        return super().fit(session, penalty)


def random_rate() -> Method:
    """The learning rate comes from Python's global random state."""
    return trained_by(_RandomRate())


class _ChangedData(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        samples: Any = session.samples
        samples.block.structure.add_(1)
        for group in session.optimiser.param_groups:
            group["lr"] = self.lr / float(samples.block.structure.max())
        return super().fit(session, penalty)


def changed_data() -> Method:
    """Training changes the client's data in place."""
    return replace(trained_by(_ChangedData()), inputs=StructureEncoding(1, 1))


class _HashedRate(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        for group in session.optimiser.param_groups:
            group["lr"] = self.lr * (1 + hash("text") % 2**20 / 2**20)
        return super().fit(session, penalty)


def hashed_rate() -> Method:
    """The learning rate comes from the hash of a text, which Python draws for every process."""
    return trained_by(_HashedRate())


class _Scheduled(LocalTraining):
    def optimiser(self, model: nn.Module) -> Optimizer:
        optimiser = super().optimiser(model)
        vars(optimiser)["schedule"] = ExponentialLR(optimiser, 0.9)
        return optimiser

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        vars(session.optimiser)["schedule"].step()
        return loss


def scheduled_rate() -> Method:
    """A schedule is an attribute of the optimiser, where it is not saved."""
    return trained_by(_Scheduled())


class _Pair(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> Any:
        return super().fit(session, penalty), "a remark"


def pair_of_losses() -> Method:
    """`fit` returns a tuple instead of a number."""
    return trained_by(_Pair())


class _LastWins(WeightedMean):
    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        for _, reply in replies:
            state = Payload(reply.arrays)
        return state


def last_reply_wins() -> Method:
    """The merge is the reply that arrives last."""
    return merged_by(_LastWins())


class _RunningMean(WeightedMean):
    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        sums, count = {name: np.zeros_like(array) for name, array in state.arrays.items()}, 0
        for _, reply in replies:
            sums = {name: total + reply.arrays[name] for name, total in sums.items()}
            count += 1
        return Payload({name: total / np.float32(count) for name, total in sums.items()})


def running_mean() -> Method:
    """A float32 sum in the order of arrival: its last bits depend on that order."""
    return merged_by(_RunningMean())


class _FirstOnly(WeightedMean):
    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        _, reply = next(iter(replies))
        return Payload(reply.arrays)


def first_reply_only() -> Method:
    """The merging rule reads a single reply."""
    return merged_by(_FirstOnly())


class _OwnArrays(WeightedMean):
    def send(self, state: Payload, client: str) -> Arrays:
        if not state.notes:
            return state.arrays
        names = state.notes["names"].split()
        return {name: state.arrays[f"{client}/{name}"] for name in names}

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        arrays = {f"{c}/{n}": array for c, reply in replies for n, array in reply.arrays.items()}
        names = {name.partition("/")[2] for name in arrays}
        return Payload(arrays, notes={"names": " ".join(sorted(names))})


def own_arrays() -> Method:
    """`send` looks up arrays of the client, which has none if it never replied."""
    return merged_by(_OwnArrays())


class _AllExpected(WeightedMean):
    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        received = dict(replies)
        ordered = [Reply(client, received[client]) for client in ("blocks", "rings", "trees")]
        return super().merge(state, ordered, server)


def all_expected() -> Method:
    """`merge` expects a reply of every client."""
    return merged_by(_AllExpected())


@dataclass(frozen=True)
class _CountedMerges(WeightedMean):
    merges: list[int] = field(default_factory=list)

    def start(self, shared: Arrays) -> Payload:
        return Payload({**shared, "merges": np.zeros(1)})

    def send(self, state: Payload, client: str) -> Arrays:
        return {name: array for name, array in state.arrays.items() if name != "merges"}

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        self.merges.append(1)
        merged = super().merge(Payload(self.send(state, "")), replies, server)
        return Payload({**merged.arrays, "merges": np.array([len(self.merges)])})


def counted_merges() -> Method:
    """The merging rule counts in a Python object, which a resumed run does not have."""
    return merged_by(_CountedMerges())


class _Net(nn.Module):
    def __init__(self, shape: GraphShape, counts: bool = False) -> None:
        super().__init__()
        self.embed = nn.Linear(shape.features, 4)
        self.middle = nn.Linear(4, 4)
        self.classify = nn.Linear(4, shape.classes)
        self.counts, self.calls = counts, 0

    def forward(self, data: Batch) -> Tensor:  # [graphs, classes]
        self.calls += self.counts
        hidden = self.middle(self.embed(data.x).relu()).relu()
        pooled = hidden.new_zeros(data.graphs, 4).index_add(0, data.batch, hidden)
        logits: Tensor = self.classify(pooled)
        return logits


class _NetWithExtraState(_Net):
    def get_extra_state(self) -> dict[str, int]:
        return {"calls": self.calls}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.calls = state["calls"]


def counting_network() -> Method:
    """The network changes an attribute in `forward`."""
    return Method(
        name="broken", paper="", model=partial(_Net, counts=True), shared=only("middle.*")
    )


def extra_state() -> Method:
    """The network has state that is no tensor."""
    return Method(name="broken", paper="", model=_NetWithExtraState, shared=only("middle.*"))


def unmatched_pattern() -> Method:
    """A sharing pattern matches no parameter."""
    return Method(name="broken", paper="", model=_Net, shared=only("middel.*"))


def failing_factory() -> Method:
    """The factory itself fails."""
    return Method(name="broken", paper="", model=_Net, shared=only(*missing_name))  # type: ignore[name-defined] # noqa: F821
