"""The client's side of a round: load the merge, evaluate, train, send only what is declared."""

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
from ramet.methods.activation import requested
from ramet.methods.training import Session
from ramet.metrics import count_operations, peak_memory
from ramet.payload import Arrays, Payload, digest, under
from ramet.randomness import EVERYONE, Randomness
from ramet.tasks import Samples, Shape

MODEL, OPTIMISER = "model/", "optimiser/"
FINAL, FINAL_MODEL = "final", 0
"""The folder and the step under which a site saves its final model."""


Trained: TypeAlias = tuple[nn.Module, torch.optim.Optimizer]


class NotSharedError(RametError):
    """An array that is not shared was about to leave the site or to be loaded."""


def request(
    round_number: int, train: bool, arrays: Arrays, last: int = 0, spared: Sequence[str] = ()
) -> Payload:
    """Build the server's message to a client: the arrays to load, and what to do then.

    ``last`` is the last round for which the server has this client's reply; 0 if there is none.
    ``spared`` lists shared arrays that the client is not asked for; it is sent as a note.
    """
    notes = {"spared": json.dumps(list(spared))} if spared else {}
    return Payload(arrays, {"round": round_number, "train": int(train), "last": last}, notes)


def start_model(method: Method, shape: Shape, seed: int, client: str) -> nn.Module:
    """A new model: private arrays are drawn for this client, shared ones are equal on all."""
    with Randomness(seed, client, 0).torch_draws("start"):
        model = method.model(shape)
    load_arrays(model, start_shared(method, shape, seed))
    return model


def start_shared(method: Method, shape: Shape, seed: int) -> dict[str, np.ndarray]:
    """The shared arrays before round 1. Server and sites draw them from the run's seed alone.

    If none of their shapes depends on a client's features and classes, they are drawn for the
    plain shape, so that clients of different shapes start with the same values.
    """
    drawn = _shared_arrays(method, shape, seed)
    plain = _shared_arrays(method, shape.plain(), seed)
    same_shapes = all(name in plain and drawn[name].shape == plain[name].shape for name in drawn)
    return plain if same_shapes else drawn


def _shared_arrays(method: Method, shape: Shape, seed: int) -> dict[str, np.ndarray]:
    with Randomness(seed, EVERYONE, 0).torch_draws("start"):
        arrays = _arrays(method.model(shape).state_dict())
    return {name: arrays[name] for name in method.shared.pick(arrays)}


def load_arrays(model: nn.Module, arrays: Arrays) -> None:
    """Overwrite the named arrays of a model."""
    state = model.state_dict()
    with torch.no_grad():
        for name, array in arrays.items():
            if name not in state or state[name].shape != array.shape:
                raise RametError(
                    f"'{name}' with shape {list(array.shape)} does not fit this client's model. "
                    "Share only arrays that have the same shape on every client."
                )
            state[name].copy_(torch.from_numpy(array))


def final_model(method: Method, shape: Shape, state: Path) -> nn.Module:
    """A client's final model, loaded from its state folder, in evaluation mode."""
    saved = Snapshots(state / FINAL).latest_valid()
    if saved is None:
        raise RametError(f"{state} has no final model: its run is not finished.")
    with torch.random.fork_rng():
        model = method.model(shape)
    load_arrays(model, saved.arrays)
    return model.eval()


@dataclass(frozen=True)
class Node:
    """A client: its samples, its method and its private state.

    The state is on disk, so any process can answer the next message. A process that answers several
    messages reuses the model that it has in memory.
    """

    client: str
    method: Method
    samples: Samples
    seed: int
    snapshots: Snapshots
    device: torch.device
    audit: AuditLog | None = None
    _cache: dict[int, Trained] = field(default_factory=dict, init=False, repr=False, compare=False)

    def answer(self, message: Payload) -> Payload:
        """Handle a message from the server and return the reply."""
        with _denormals_flushed():
            reply = self._released(self._answer(message))
        if self.audit is not None:
            self.audit.add(int(message.numbers["round"]), reply)
        return reply

    def _answer(self, message: Payload) -> Payload:
        round_number = int(message.numbers["round"])
        for name in message.arrays:
            if name not in self.method.shared:
                raise self._not_shared("accept", name)
        model, optimiser = self._restored(round_number, int(message.numbers["last"]))
        load_arrays(model, message.arrays)
        numbers: dict[str, float] = {}
        if round_number > 1:  # before the first round there is nothing to evaluate
            numbers |= self.method.task.evaluate(model, self.samples, self.device)
        if message.numbers["train"]:
            numbers["weight"] = self.method.task.weight(self.samples)
            count = not message.numbers["last"]  # every round costs the same
            numbers |= self._train(model, optimiser, round_number, count)
            state = _arrays(model.state_dict())
            shared, spared = self.method.shared.pick(state), _spared(message)
            names = requested(shared, spared)
            return Payload({name: state[name].copy() for name in names}, numbers)
        return Payload({}, numbers, self._finish(model, optimiser))

    def _released(self, reply: Payload) -> Payload:
        """Refuse undeclared arrays, and count the bytes; every reply passes through here."""
        for name in reply.arrays:
            if name not in self.method.shared:
                raise self._not_shared("send", name)
        counts = {"up": reply.nbytes, "memory": peak_memory()}
        return Payload(reply.arrays, {**reply.numbers, **counts}, reply.notes)

    def _restored(self, round_number: int, known_round: int) -> Trained:
        """The latest state from before this round; a new one if the client never trained."""
        cached, latest_step = dict(self._cache), self.snapshots.latest_step(before=round_number)
        if (latest_step or 0) < known_round:
            raise RametError(
                f"client {self.client} has lost its private state of round {known_round}. Restore "
                f"{self.snapshots.folder} from a backup, or start a new run in another folder."
            )
        self._cache.clear()
        if latest_step in cached:
            return cached[latest_step]
        shape = self.method.task.shape(self.samples)
        last = None if latest_step is None else self.snapshots.load(latest_step)
        if last is None:
            model = start_model(self.method, shape, self.seed, self.client)
        else:
            with torch.random.fork_rng():
                model = self.method.model(shape)
            load_arrays(model, under(MODEL, last.arrays))
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
            with count_operations(model) as work:
                loss = self.method.training.fit(session, self.method.penalty)
        else:
            loss = self.method.training.fit(session, self.method.penalty)
        self.snapshots.save(Snapshot(round_number, _full_state(model, optimiser)))
        self._cache[round_number] = model, optimiser
        return {"loss": loss, **work}

    def _finish(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, str]:
        """Save the final model, and return a digest of the private part of the state."""
        state = _full_state(model, optimiser)
        final = Snapshots(self.snapshots.folder / FINAL, keep=1)
        final.save(Snapshot(FINAL_MODEL, under(MODEL, state)))
        shared = {MODEL + name for name in state_names(model) if name in self.method.shared}
        return {"private": digest({k: v for k, v in state.items() if k not in shared})}

    def _not_shared(self, action: str, name: str) -> NotSharedError:
        declared = ", ".join(self.method.shared.patterns) or "nothing"
        return NotSharedError(
            f"client {self.client} refuses to {action} '{name}': {self.method.name} shares "
            f"{declared}. Declare it in the method's `shared`."
        )


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Flush denormals to 0.

    Weight decay shrinks unused weights below 1e-38, where CPUs are many times slower.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _spared(message: Payload) -> list[str]:
    names: list[str] = json.loads(message.notes.get("spared", "[]"))
    return names


def state_names(model: nn.Module) -> tuple[str, ...]:
    return tuple(model.state_dict())


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Tensors as arrays; views if on the CPU, so copy what must survive the next update."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _full_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """All arrays of the model and all moments of its optimiser, by name."""
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
