"""The in-process wire: clients answer one after the other, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ramet.engine.node import Node
from ramet.engine.rounds import Answer
from ramet.payload import Payload


@dataclass(frozen=True)
class LocalWire:
    """Asks each client in turn; all their state is on disk."""

    node: Callable[[str], Node]

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, request in requests:
            yield client, self.node(client).answer(request)
