"""How messages are carried to clients, or to regional coordinators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

from ramet.payload import Payload

Answer: TypeAlias = tuple[str, Payload | str]
"""A client's name, and its reply or the reason why there is none."""


class Refused(str):
    """Why a received reply was refused; a plain string says why none was received."""

    __slots__ = ()


class Wire(Protocol):
    """Carries requests to clients and yields their answers as they arrive, in any order."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]: ...
