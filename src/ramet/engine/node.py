"""The client's side of a round: load the merge, evaluate, train, send only what is declared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from ramet.engine.audit import AuditLog
from ramet.engine.checkpoint import Snapshot, Snapshots
from ramet.engine.state import (
    MODEL,
    Unsaved,
    full_state,
    load_arrays,
    model_arrays,
    restore,
    snapshot,
)
from ramet.errors import RametError
from ramet.methods import AssembledMethod
from ramet.methods.activation import requested
from ramet.methods.base import sent_up
from ramet.methods.training import Session
from ramet.metrics import count_operations, peak_memory
from ramet.payload import Arrays, Payload, digest, everything, under
from ramet.randomness import EVERYONE, Randomness
from ramet.tasks import Samples, Shape

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


def start_model(method: AssembledMethod, shape: Shape, seed: int, client: str) -> nn.Module:
    """A new model: private arrays are drawn for this client, shared ones are equal on all."""
    model = new_model(method, shape, seed, client)
    load_arrays(model, start_shared(method, shape, seed))
    return model


def new_model(
    method: AssembledMethod, shape: Shape, seed: int, client: str = EVERYONE
) -> nn.Module:
    """Build a model whose random draws depend on the run's seed and the client only."""
    with Randomness(seed, client, 0).torch_draws("start"):
        return method.model(shape)


def start_shared(method: AssembledMethod, shape: Shape, seed: int) -> dict[str, np.ndarray]:
    """The shared arrays before round 1. Server and sites draw them from the run's seed alone.

    If none of their shapes depends on a client's features and classes, they are drawn for the
    plain shape, so that clients of different shapes start with the same values.
    """
    drawn = _shared_arrays(method, shape, seed)
    plain = _shared_arrays(method, shape.plain(), seed)
    same_shapes = all(name in plain and drawn[name].shape == plain[name].shape for name in drawn)
    return plain if same_shapes else drawn


def _shared_arrays(method: AssembledMethod, shape: Shape, seed: int) -> dict[str, np.ndarray]:
    arrays = model_arrays(new_model(method, shape, seed))
    return {name: arrays[name] for name in method.shared.pick(arrays)}


def final_model(
    method: AssembledMethod, shape: Shape, seed: int, client: str, state: Path
) -> nn.Module:
    """A client's final model, loaded from its state folder, in evaluation mode."""
    saved = Snapshots(state / FINAL).latest_valid()
    if saved is None:
        raise RametError(f"{state} has no final model: its run is not finished.")
    model = new_model(method, shape, seed, client)
    load_arrays(model, saved.arrays)
    return model.eval()


@dataclass(frozen=True)
class Node:
    """A client: its samples, its method and its private state.

    The state is on disk and only there, so any process can answer the next message.
    """

    client: str
    method: AssembledMethod
    samples: Samples
    seed: int
    snapshots: Snapshots
    device: torch.device
    audit: AuditLog | None = None

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
            if name not in self.method.shared or name not in self.method.down:
                raise self._not_shared("accept", name)
        model, optimiser = self._restored(round_number, int(message.numbers["last"]))
        load_arrays(model, message.arrays)
        numbers: dict[str, float] = {}
        if round_number > 1:  # before the first round there is nothing to evaluate
            numbers |= self._scores(model)
        if message.numbers["train"]:
            numbers["weight"] = self.method.task.weight(self.samples)
            count = not message.numbers["last"]  # every round costs the same
            numbers |= self._train(model, optimiser, round_number, count)
            state = model_arrays(model)
            declared = sent_up(self.method, self.method.shared.pick(state))
            names = requested(declared, spared_arrays(message))
            return Payload({name: state[name].copy() for name in names}, numbers)
        return Payload({}, numbers, self._finish(model, optimiser))

    def _released(self, reply: Payload) -> Payload:
        """Refuse undeclared arrays, and count the bytes; every reply passes through here."""
        for name in reply.arrays:
            if name not in self.method.shared or name not in self.method.up:
                raise self._not_shared("send", name)
        counts = {"up": reply.nbytes, "memory": peak_memory()}
        return Payload(reply.arrays, {**reply.numbers, **counts}, reply.notes)

    def _restored(self, round_number: int, known_round: int) -> Trained:
        """The latest state from before this round; a new one if the client never trained."""
        latest_step = self.snapshots.latest_step(before=round_number)
        if (latest_step or 0) < known_round:
            raise RametError(
                f"client {self.client} has lost its private state of round {known_round}. Restore "
                f"{self.snapshots.folder} from a backup, or start a new run in another folder."
            )
        shape = self.method.task.shape(self.samples)
        new = start_model if latest_step is None else new_model
        model = new(self.method, shape, self.seed, self.client).to(self.device)
        optimiser = self.method.training.optimiser(model)
        if latest_step is not None:
            restore(self.snapshots.load(latest_step), model, optimiser, self.device)
        return model, optimiser

    def _scores(self, model: nn.Module) -> dict[str, float]:
        """Evaluate the model; ``val`` and ``test`` must be among the scores."""
        scores = self.method.task.evaluate(model, self.samples, self.device)
        for name in ("val", "test"):
            if name not in scores:
                raise RametError(
                    f"{type(self.method.task).__name__}.evaluate returned no '{name}', only "
                    f"{', '.join(scores) or 'nothing'}. It must return `val` and `test`."
                )
        return scores

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
        unsaved = Unsaved(model, optimiser)
        work: dict[str, float] = {}
        if count:
            with count_operations() as work:
                loss = self.method.training.fit(session, self.method.penalty)
        else:
            loss = self.method.training.fit(session, self.method.penalty)
        unsaved.check_unchanged()
        self.snapshots.save(snapshot(round_number, model, optimiser))
        return {"loss": self._number(loss), **work}

    def _number(self, loss: Any) -> float:
        try:
            return float(loss)
        except (TypeError, ValueError) as error:
            raise RametError(
                f"{type(self.method.training).__name__}.fit returned a {type(loss).__name__} "
                "instead of the mean loss, a number."
            ) from error

    def _finish(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, str]:
        """Save the final model, and return a digest of the private part of the state."""
        state = full_state(model, optimiser)
        final = Snapshots(self.snapshots.folder / FINAL, keep=1)
        final.save(Snapshot(FINAL_MODEL, under(MODEL, state)))
        merged = {
            MODEL + name
            for name in state_names(model)
            if name in self.method.shared and name in self.method.down
        }
        return {"private": digest({k: v for k, v in state.items() if k not in merged})}

    def _not_shared(self, action: str, name: str) -> NotSharedError:
        method = self.method
        field, way = ("up", method.up) if action == "send" else ("down", method.down)
        limited = "" if way == everything else f", of which clients {action} {way}"
        missing = field if name in method.shared else "shared"
        return NotSharedError(
            f"client {self.client} refuses to {action} '{name}': {method.name} shares "
            f"{method.shared}{limited}. Declare it in the method's `{missing}`."
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


def spared_arrays(message: Payload) -> list[str]:
    """The shared arrays that a message does not ask for."""
    names: list[str] = json.loads(message.notes.get("spared", "[]"))
    return names


def state_names(model: nn.Module) -> tuple[str, ...]:
    return tuple(model.state_dict())
