"""One site's side of a round: lay over what arrived, judge, train, send only what is declared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ramet.engine.audit import AuditLog
from ramet.engine.checkpoint import Snapshot, Snapshots
from ramet.errors import RametError
from ramet.methods import Method
from ramet.methods.activation import asked_of
from ramet.methods.training import Session
from ramet.metrics import counted, peak_memory
from ramet.payload import Arrays, Payload, digest, under
from ramet.randomness import EVERYONE, Randomness
from ramet.tasks import Samples, Shape

MODEL, OPTIMISER = "model/", "optimiser/"
FINAL, FINAL_MODEL = "final", 0
"""The step under which a site keeps the model that the run ends with."""


Trained: TypeAlias = tuple[nn.Module, torch.optim.Optimizer]


class NotSharedError(RametError):
    """Something was about to leave the site, or to be written into it, that is not shared."""


def request(
    round_number: int, train: bool, arrays: Arrays, last: int = 0, spared: Sequence[str] = ()
) -> Payload:
    """What the server sends: the arrays to lay over, what to do then, and what it remembers.

    ``last`` is the last round of which the server has this client's reply; 0 if there is none.
    ``spared`` are shared arrays that the client is not asked for; they travel as a note.
    """
    notes = {"spared": json.dumps(list(spared))} if spared else {}
    return Payload(arrays, {"round": round_number, "train": int(train), "last": last}, notes)


def start_model(method: Method, shape: Shape, seed: int, client: str) -> nn.Module:
    """A fresh model: private parts drawn for this client, shared parts drawn alike for all."""
    with Randomness(seed, client, 0).torch_draws("start"):
        model = method.model(shape)
    lay_over(model, start_shared(method, shape, seed))
    return model


def start_shared(method: Method, shape: Shape, seed: int) -> dict[str, np.ndarray]:
    """The shared arrays before round 1, which server and sites draw from the run's seed alone.

    Parts that do not depend on a client's features and classes are drawn for the plainest shape,
    so that clients of different shapes start them alike.
    """
    drawn = _shared_arrays(method, shape, seed)
    plain = _shared_arrays(method, shape.plain(), seed)
    alike = all(name in plain and drawn[name].shape == plain[name].shape for name in drawn)
    return plain if alike else drawn


def _shared_arrays(method: Method, shape: Shape, seed: int) -> dict[str, np.ndarray]:
    with Randomness(seed, EVERYONE, 0).torch_draws("start"):
        arrays = _arrays(method.model(shape).state_dict())
    return {name: arrays[name] for name in method.shared.pick(arrays)}


def lay_over(model: nn.Module, arrays: Arrays) -> None:
    """Overwrite the named parts of the model."""
    state = model.state_dict()
    with torch.no_grad():
        for name, array in arrays.items():
            if name not in state or state[name].shape != array.shape:
                raise RametError(
                    f"'{name}' with shape {list(array.shape)} does not fit this client's model. "
                    "Share only parts that have the same size on every client."
                )
            state[name].copy_(torch.from_numpy(array))


def final_model(method: Method, shape: Shape, state: Path) -> nn.Module:
    """What a client ended with, from the folder of its state, ready to predict."""
    saved = Snapshots(state / FINAL).last_whole()
    if saved is None:
        raise RametError(f"{state} holds no final model; its run is not finished.")
    with torch.random.fork_rng():
        model = method.model(shape)
    lay_over(model, saved.arrays)
    return model.eval()


@dataclass(frozen=True)
class Node:
    """A client: its samples, its method and where its private state lies.

    The state on disk is the state, so it makes no difference whether the same process answers the
    next message; one that does finds what it just saved still in memory.
    """

    client: str
    method: Method
    samples: Samples
    seed: int
    snapshots: Snapshots
    device: torch.device
    audit: AuditLog | None = None
    _warm: dict[int, Trained] = field(default_factory=dict, init=False, repr=False, compare=False)

    def answer(self, asked: Payload) -> Payload:
        """Take what the server sent, do a round's work, and give what goes back."""
        with _tiny_numbers_as_zero():
            reply = self._released(self._answer(asked))
        if self.audit is not None:
            self.audit.add(int(asked.numbers["round"]), reply)
        return reply

    def _answer(self, asked: Payload) -> Payload:
        round_number = int(asked.numbers["round"])
        for name in asked.arrays:
            if name not in self.method.shared:
                raise self._not_shared("accept", name)
        model, optimiser = self._restored(round_number, int(asked.numbers["last"]))
        lay_over(model, asked.arrays)
        numbers: dict[str, float] = {}
        if round_number > 1:  # before the first round there is nothing to judge
            numbers |= self.method.task.evaluate(model, self.samples, self.device)
        if asked.numbers["train"]:
            numbers["weight"] = self.method.task.weight(self.samples)
            count = not asked.numbers["last"]  # all rounds of training cost the same
            numbers |= self._train(model, optimiser, round_number, count)
            state = _arrays(model.state_dict())
            shared, spared = self.method.shared.pick(state), _spared(asked)
            names = asked_of(shared, spared)
            return Payload({name: state[name].copy() for name in names}, numbers)
        return Payload({}, numbers, self._finish(model, optimiser))

    def _released(self, reply: Payload) -> Payload:
        """The only way out: refuses what is not declared, and counts the bytes that leave."""
        for name in reply.arrays:
            if name not in self.method.shared:
                raise self._not_shared("send", name)
        counts = {"up": reply.nbytes, "memory": peak_memory()}
        return Payload(reply.arrays, {**reply.numbers, **counts}, reply.notes)

    def _restored(self, round_number: int, known_round: int) -> Trained:
        """The whole last state from before this round; a fresh one only before the first."""
        warm, last_step = dict(self._warm), self.snapshots.last_step(before=round_number)
        if (last_step or 0) < known_round:
            raise RametError(
                f"client {self.client} has lost its private state of round {known_round}. Restore "
                f"{self.snapshots.folder} from a backup, or start the run anew in another folder."
            )
        self._warm.clear()
        if last_step in warm:
            return warm[last_step]
        shape = self.method.task.shape(self.samples)
        last = None if last_step is None else self.snapshots.load(last_step)
        if last is None:
            model = start_model(self.method, shape, self.seed, self.client)
        else:
            with torch.random.fork_rng():
                model = self.method.model(shape)
            lay_over(model, under(MODEL, last.arrays))
        model.to(self.device)
        optimiser = self.method.training.optimiser(model)
        if last is not None:
            _restore_moments(optimiser, model, under(OPTIMISER, last.arrays), self.device)
        return model, optimiser

    def _train(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, round_number: int, count: bool
    ) -> dict[str, float]:
        session = Session(
            model=model,
            optimiser=optimiser,
            task=self.method.task,
            samples=self.samples,
            shared=self.method.shared.pick(state_names(model)),
            randomness=Randomness(self.seed, self.client, round_number),
            device=self.device,
        )
        work: dict[str, float] = {}
        if count:
            with counted(model) as work:
                loss = self.method.training.fit(session, self.method.penalty)
        else:
            loss = self.method.training.fit(session, self.method.penalty)
        self.snapshots.save(Snapshot(round_number, _whole_state(model, optimiser)))
        self._warm[round_number] = model, optimiser
        return {"loss": loss, **work}

    def _finish(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, str]:
        """Keep the final model, and vouch for the private part of the state by its digest."""
        state = _whole_state(model, optimiser)
        final = Snapshots(self.snapshots.folder / FINAL, keep=1)
        final.save(Snapshot(FINAL_MODEL, under(MODEL, state)))
        shared = {MODEL + name for name in state_names(model) if name in self.method.shared}
        return {"private": digest({k: v for k, v in state.items() if k not in shared})}

    def _not_shared(self, verb: str, name: str) -> NotSharedError:
        declared = ", ".join(self.method.shared.patterns) or "nothing"
        return NotSharedError(
            f"client {self.client} refuses to {verb} '{name}': {self.method.name} shares "
            f"{declared}. Declare it in the method's `shared`."
        )


@contextmanager
def _tiny_numbers_as_zero() -> Iterator[None]:
    """Weight decay shrinks unused weights below 1e-38, where CPUs compute many times slower."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _spared(asked: Payload) -> list[str]:
    names: list[str] = json.loads(asked.notes.get("spared", "[]"))
    return names


def state_names(model: nn.Module) -> tuple[str, ...]:
    return tuple(model.state_dict())


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Views where the tensors are on the CPU: copy what outlives the next change."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _whole_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Every array of the model and every moment of its optimiser, by name."""
    tensors = {MODEL + name: tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for kind, moment in optimiser.state.get(parameter, {}).items():
            if isinstance(moment, Tensor):
                tensors[f"{OPTIMISER}{kind}/{name}"] = moment
    return _arrays(tensors)


def _restore_moments(
    optimiser: torch.optim.Optimizer, model: nn.Module, moments: Arrays, device: torch.device
) -> None:
    parameters = dict(model.named_parameters())
    for key, array in moments.items():
        kind, _, name = key.partition("/")
        optimiser.state[parameters[name]][kind] = torch.from_numpy(array).to(device)
