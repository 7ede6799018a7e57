"""Gates: what a reply passes on its way out of a site.

A gate is called with a request and with what is inside it, and returns what leaves it. It may look
at the request first, change it, or answer it alone. It also says which form a reply has behind it,
given the form before it, and nothing else passes. So what leaves a site can be computed before a
run, and is checked during it. The order of all gates is in :mod:`ramet.engine.site.protection`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from ramet.engine.check import form_fault
from ramet.engine.site.request import NotSharedError, Request
from ramet.payload import Array, Arrays, Payload

R = TypeVar("R", bound=Request)
Inside: TypeAlias = Callable[[R], Payload]
"""What is inside a gate: other gates, and at last the client's work."""


class Gate(Protocol[R]):
    """Protocol of gates; those inside a client's state get requests that are opened."""

    @property
    def name(self) -> str:
        """The name in errors."""
        ...

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        """Return what leaves the gate."""
        ...

    def form(self, form: Payload, sent: Arrays) -> Payload:
        """The form of what leaves the gate, as zeros, given that of a reply from inside."""
        ...


def passed(gates: Sequence[Gate[R]], request: R, inside: Inside[R]) -> Payload:
    """The reply to a request behind all gates, of which the first is the innermost."""
    if not gates:
        return inside(request)
    gate, replies = gates[-1], list[Payload]()

    def seen(asked: R) -> Payload:
        replies.append(passed(gates[:-1], asked, inside))
        return replies[-1]

    leaving = gate(request, seen)
    for reply in replies:
        fault = None if leaving is reply else _fault(gate, leaving, reply, request.sent)
        if fault:
            raise NotSharedError(
                f"client {request.client} refuses to send {fault}, which {gate.name}.form does "
                "not declare."
            )
    return leaving


def form_behind(gates: Sequence[Gate[R]], form: Payload, sent: Arrays) -> Payload:
    """The form of what leaves the last gate, given that of a reply before the first."""
    for gate in gates:
        form = gate.form(form, sent)
    return form


class SameForm:
    """A gate that is called like its class, and adds nothing to a reply unless it says so."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return form


def with_numbers(reply: Payload, numbers: Mapping[str, float]) -> Payload:
    return replace(reply, numbers={**reply.numbers, **numbers})


def with_notes(form: Payload, *names: str) -> Payload:
    return replace(form, notes={**form.notes, **dict.fromkeys(names, "")})


def without_notes(reply: Payload, names: Collection[str]) -> Payload:
    notes = {name: note for name, note in reply.notes.items() if name not in names}
    return replace(reply, notes=notes)


def _fault(gate: Gate[R], leaving: Payload, reply: Payload, sent: Arrays) -> str | None:
    """What leaves a gate beyond its form, which cannot depend on values."""
    zeros = Payload(
        zero_arrays(reply.arrays),
        dict.fromkeys(reply.numbers, 0.0),
        dict.fromkeys(reply.notes, ""),
        zero_arrays(reply.extras),
    )
    return form_fault(leaving, gate.form(zeros, sent))


def zero_arrays(arrays: Arrays) -> dict[str, Array]:
    return {name: np.zeros(array.shape, array.dtype) for name, array in arrays.items()}
