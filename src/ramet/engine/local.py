"""The in-process wire: clients answer one after the other, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ramet.engine.rounds import Answer
from ramet.payload import Payload


class Answering(Protocol):
    """A client, or a regional coordinator."""

    def answer(self, request: Payload) -> Payload: ...


@dataclass(frozen=True)
class LocalWire:
    """Asks each client in turn; all their state is on disk."""

    node: Callable[[str], Answering]

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, request in requests:
            yield client, self.node(client).answer(request)
