"""The three kinds of work that a message asks of a client: to train, a stage, or to close."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import torch
from torch import nn

from ramet.engine.check import same_form
from ramet.engine.messages import PRIVATE_STATE, candidates, omitted_arrays
from ramet.engine.site.kept_models import save_evaluated, save_final
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.request import NotSharedError, Opened, Request
from ramet.engine.site.states import Place, States
from ramet.engine.start import extras_up, state_names
from ramet.engine.store.client_state import (
    MODEL,
    ClientState,
    Unsaved,
    full_state,
    model_arrays,
    numpy_arrays,
    to_tensors,
)
from ramet.errors import RametError
from ramet.metrics import count_operations
from ramet.metrics.work import Work as Operations
from ramet.metrics.work import is_counted
from ramet.payload import Array, Arrays, Payload, digest
from ramet.policy import WITHHELD
from ramet.rules.activation import requested
from ramet.rules.extras import TRAINING, Stage
from ramet.rules.method import AssembledMethod, declared_extras, sent_up, step_of
from ramet.rules.server import CPU
from ramet.training.local import Session
from ramet.training.private import fit_privately

_METHOD, _STAGES = "method", "stages"
"""The owners of the memory that training uses, and of results of stages that are over."""
Fit: TypeAlias = Callable[[Session, AssembledMethod, bool], dict[str, float]]
"""Trains, counting operations if it is asked to, and returns numbers about it."""


class Work(Protocol):
    """Protocol of the kinds of work."""

    def step(self, request: Request) -> int:
        """The step of the client's state after the work."""
        ...

    def sent(self, request: Request, state: ClientState) -> Arrays:
        """What the reply can be compared with: parameters that are trained, from before."""
        ...

    def done(self, request: Opened) -> Payload:
        """Do the work, and return what the client has found."""
        ...

    def keep(self, request: Opened, states: States, place: Place) -> None:
        """Keep what must survive."""
        ...


def work_of(request: Request, fit: Fit) -> Work:
    """What a message asks for."""
    stage = None if request.stage is None else _declared_stage(request, request.stage)
    if not request.message.numbers["train"]:
        return Closed()
    return Trained(fit) if stage is None else Staged(stage)


@dataclass(frozen=True)
class Trained:
    """The client evaluates what it has received, and trains on."""

    fit: Fit

    def step(self, request: Request) -> int:
        return step_of(request.method, request.round)

    def sent(self, request: Request, state: ClientState) -> Arrays:
        """What the server sent; in round 1 what all clients start with."""
        method, names = request.method, [name for name, _ in state.model.named_parameters()]
        trained = [name for name in names if name in method.shared and name in method.down]
        if request.round > 1:
            sent = request.message.arrays
            return {name: sent[name] for name in trained if name in sent}
        arrays = model_arrays(state.model)
        return {name: arrays[name].copy() for name in trained}

    def done(self, request: Opened) -> Payload:
        method, state, number = request.method, request.state, request.round
        session = _session(request)
        state.begin_training(number)
        scored = Payload()
        if number > 1 or (request.message.arrays and method.summation is None):
            used = used_model(method, state)
            state.begin_evaluation(number - 1, used, candidates(request.message))
            scored = _scored(request, used)
        count = is_counted(number, int(request.message.numbers["last"]), method.phases)
        numbers = {**scored.numbers, "weight": method.task.weight(request.samples)}
        numbers |= {**self.fit(session, method, count), **session.logged}
        trained = model_arrays(state.model)
        declared = sent_up(method, session.shared)
        names = requested(declared, omitted_arrays(request.message))
        arrays = {name: trained[name].copy() for name in names}
        return Payload(arrays, numbers, scored.notes, _extras(request, TRAINING, session))

    def keep(self, request: Opened, states: States, place: Place) -> None:
        states.keep(place, self.step(request), request.state)


@dataclass(frozen=True)
class Staged:
    """The client does the work of a stage, which leaves the shared arrays as they are."""

    stage: Stage

    def step(self, request: Request) -> int:
        return step_of(request.method, request.round, self.stage)

    def sent(self, request: Request, state: ClientState) -> Arrays:  # noqa: ARG002
        return {}

    def done(self, request: Opened) -> Payload:
        session, stage = _session(request), self.stage
        unsaved = Unsaved(session.model, session.optimiser)
        stage.work(session)
        unsaved.check_unchanged()
        state = session.model.state_dict()
        changed = [name for name in session.shared if not state[name].equal(session.start[name])]
        if changed:
            raise RametError(
                f"the stage '{stage.name}' changed the shared array '{changed[0]}'. Only training "
                "may change what is shared; use `session.memory` for other tensors."
            )
        weight = request.method.task.weight(request.samples)
        return Payload({}, {"weight": weight}, extras=_extras(request, stage.name, session))

    def keep(self, request: Opened, states: States, place: Place) -> None:
        states.keep(place, self.step(request), request.state)


@dataclass(frozen=True)
class Closed:
    """The client evaluates what it has received, and keeps it as its final model."""

    def step(self, request: Request) -> int:
        return step_of(request.method, request.round)

    def sent(self, request: Request, state: ClientState) -> Arrays:  # noqa: ARG002
        return {}

    def done(self, request: Opened) -> Payload:
        method, state = request.method, request.state
        merged = {
            MODEL + name
            for name in state_names(state.model)
            if name in method.shared and name in method.down
        }
        own = {name: array for name, array in full_state(state).items() if name not in merged}
        notes = {PRIVATE_STATE: digest(own)}
        scored = _scored(request, used_model(method, state))
        return replace(scored, notes={**notes, **scored.notes})

    def keep(self, request: Opened, states: States, place: Place) -> None:  # noqa: ARG002
        folder, used = place.snapshots.folder, used_model(request.method, request.state)
        models = {request.round - 1: model_arrays(used)}
        save_evaluated(folder, models, candidates(request.message))
        save_final(folder, used)


def fit_openly(session: Session, method: AssembledMethod, count: bool) -> dict[str, float]:
    """Train as the method says; nothing may change but what is saved."""
    unsaved = Unsaved(session.model, session.optimiser)
    counting: AbstractContextManager[Operations] = count_operations() if count else nullcontext({})
    with counting as operations:
        loss = method.training.fit(session, method.penalty)
        if method.after is not None:
            method.after(session)
    unsaved.check_unchanged()
    return {"loss": _number(loss, method), **operations}


@dataclass(frozen=True)
class FitPrivately:
    """Train with noise in every step, entered in the ledger before, and report nothing about it."""

    private: PrivateSite

    def __call__(self, session: Session, method: AssembledMethod, count: bool) -> dict[str, float]:  # noqa: ARG002
        noise = self.private.noise(session.randomness, method.training, session.samples)
        session.randomness = self.private.other_draws(session.randomness)
        fit_privately(session, noise.mechanism, self.private.budget.clip, noise.draws)
        return {}


def used_model(method: AssembledMethod, state: ClientState) -> nn.Module:
    """The network that the client evaluates and keeps."""
    if method.personal is None:
        return state.model
    return method.personal(state.model, state.memory[_METHOD])


def _declared_stage(request: Request, name: str) -> Stage:
    for stage in request.method.stages:
        if stage.name == name and stage.in_round(request.round):
            return stage
    raise NotSharedError(
        f"client {request.client} refuses the stage '{name}': {request.method.name} "
        "has no such stage in this round."
    )


def _session(request: Opened) -> Session:
    """What the client works with, the extras of the message included."""
    method, device = request.method, request.device
    model, optimiser = request.state.model, request.state.optimiser
    state = model.state_dict()
    shared = method.shared.pick(state)
    return Session(
        model=model,
        optimiser=optimiser,
        training=method.training,
        task=method.task,
        samples=request.samples if device == CPU else request.samples.to(device),
        shared=shared,
        randomness=request.randomness,
        device=device,
        start={name: state[name].detach().clone() for name in shared},
        received=_with_kept(request, to_tensors(_received_extras(request), device)),
        memory=request.state.memory[_METHOD],
    )


def _received_extras(request: Request) -> dict[str, Array]:
    """The extras in the message, each of which must be declared, and start values of the others."""
    method, by_exchange, sent = request.method, request.start_extras, request.message.extras
    declared = declared_extras(method)
    start = {name: array for arrays in by_exchange.values() for name, array in arrays.items()}
    accepted = {
        name
        for exchange, arrays in by_exchange.items()
        for name in arrays
        if name in declared[exchange].down
    }
    for name, array in sent.items():
        if name not in accepted or not same_form(array, start[name]):
            raise NotSharedError(
                f"client {request.client} refuses to accept the extra '{name}' "
                f"({array.dtype}{list(array.shape)}): {method.name} does not declare it."
            )
    return {**start, **sent}


def _with_kept(request: Opened, received: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Keep the results of stages that are over, and add those that were kept before."""
    kept = request.state.memory[_STAGES]
    for stage in request.method.stages:
        if stage.last is not None and request.round >= stage.last:
            for name in request.start_extras[stage.name]:
                if name in request.message.extras:
                    kept[name] = received[name].clone()
                elif name in kept:
                    received[name] = kept[name].clone()
    return received


def _extras(request: Request, exchange: str, session: Session) -> dict[str, Array]:
    """The extras that the method has set, each of which must be declared."""
    method = request.method
    due = extras_up(method, request.start_extras, exchange)
    for name in session.sending:
        if name not in due:
            raise NotSharedError(
                f"client {request.client} refuses to send the extra '{name}': {method.name} "
                "does not declare it here."
            )
    for name, like in due.items():
        value = session.sending.get(name)
        if value is not None and not isinstance(value, torch.Tensor):
            raise RametError(
                f"the extra '{name}' in session.sending is of type {type(value).__name__}. "
                "Convert it to a tensor, for example with torch.as_tensor."
            )
        if value is None or value.shape != like.shape:
            found = "is missing" if value is None else f"has shape {list(value.shape)}"
            raise RametError(
                f"the extra '{name}' {found} in session.sending, but {method.name} "
                f"declares it with shape {list(like.shape)}."
            )
    sent = numpy_arrays(session.sending)
    return {name: array.astype(due[name].dtype) for name, array in sent.items()}


def _scored(request: Request, model: nn.Module) -> Payload:
    """The network's scores; a note names those for which there are no samples.

    ``val`` and ``test`` must be among what the task returns.
    """
    task = request.method.task
    scores = task.evaluate(model, request.samples, request.device)
    for name in ("val", "test"):
        if name not in scores:
            raise RametError(
                f"{type(task).__name__}.evaluate returned no '{name}', only "
                f"{', '.join(scores) or 'nothing'}. It must return `val` and `test`."
            )
    known = {name: score for name, score in scores.items() if score is not None}
    lacking = " ".join(name for name in ("val", "test") if name not in known)
    return Payload({}, known, {WITHHELD: lacking} if lacking else {})


def _number(loss: Any, method: AssembledMethod) -> float:
    try:
        return float(loss)
    except (TypeError, ValueError) as error:
        raise RametError(
            f"{type(method.training).__name__}.fit returned a {type(loss).__name__} "
            "instead of the mean loss, a number."
        ) from error
