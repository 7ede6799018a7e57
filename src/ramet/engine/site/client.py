"""A client: it loads what it receives, evaluates, trains, and keeps its state.

What it finds leaves through gates (:mod:`ramet.engine.site.gates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch

from ramet.engine.site.gates import Gate, form_behind, passed
from ramet.engine.site.protection import Protection
from ramet.engine.site.request import Opened, Request
from ramet.engine.site.states import Place, SavedStates, States
from ramet.engine.site.work import Fit, work_of
from ramet.engine.start import new_model, start_model
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import ClientState, load_arrays
from ramet.errors import RametError
from ramet.payload import Arrays, Payload
from ramet.rules.method import AssembledMethod, step_of
from ramet.tasks import Samples


@dataclass(frozen=True)
class Client:
    """One client of a run: its samples, its method and its private state.

    A deployed client's state is on disk, so any process can answer its next message.
    """

    name: str
    method: AssembledMethod
    samples: Samples
    seed: int
    snapshots: Snapshots
    device: torch.device
    protection: Protection = field(default_factory=Protection)
    """What decides how replies leave."""
    states: States = field(default_factory=SavedStates)
    """Where the state is between messages."""

    def answer(self, message: Payload) -> Payload:
        """Handle a message from the server and return the reply."""
        with _denormals_flushed():
            return passed(self._outer, self.request(message), self._worked)

    def request(self, message: Payload) -> Request:
        """The message, with what the client knows besides its state."""
        return Request(
            client=self.name,
            method=self.method,
            samples=self.samples,
            seed=self.seed,
            device=self.device,
            message=message,
        )

    def form(self, found: Payload, sent: Arrays) -> Payload:
        """The form of what leaves the client, given that of what it has found."""
        return form_behind(self._outer, form_behind(self._inner, found, sent), sent)

    @cached_property
    def _outer(self) -> tuple[Gate[Request], ...]:
        return self.protection.outer()

    @cached_property
    def _inner(self) -> tuple[Gate[Opened], ...]:
        return self.protection.inner(self.method)

    @cached_property
    def _fit(self) -> Fit:
        return self.protection.fit()

    def _worked(self, request: Request) -> Payload:
        """What the client finds, behind the gates inside its state."""
        work = work_of(request, self._fit)
        request.check_shared(request.message.arrays, "accept")
        state = self._opened(request, work.step(request))
        load_arrays(state.model, request.message.arrays)
        opened = request.opened(state, work.sent(request, state))
        reply = passed(self._inner, opened, work.done)
        work.keep(opened, self.states, self._place)
        return reply

    def _opened(self, request: Request, before: int) -> ClientState:
        """The latest state from before a step; a new one if the client never trained."""
        known_round = int(request.message.numbers["last"])
        step, state = self.states.opened(self._place, before)
        if step < step_of(self.method, known_round):
            raise RametError(
                f"client {self.name} has lost its private state of round {known_round}. Restore "
                f"{self.snapshots.folder} from a backup, or start a new run in another folder."
            )
        state.forget_lost_reply(known_round)
        return state

    @cached_property
    def _place(self) -> Place:
        return Place(self.snapshots, self.device, self._new_state)

    def _new_state(self, first: bool) -> ClientState:
        new, shape = start_model if first else new_model, self.method.task.shape(self.samples)
        model = new(self.method, shape, self.seed, self.name).to(self.device)
        return ClientState(model, self.method.training.optimiser(model))


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
