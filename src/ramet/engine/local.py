"""The wire without a network: every client answers in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ramet.engine.node import Node
from ramet.engine.rounds import Answer
from ramet.payload import Payload

_KEPT = 64


@dataclass(frozen=True)
class LocalWire:
    """Keeps the nodes asked last; the others' state waits on disk, so many clients fit."""

    node: Callable[[str], Node]

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, asked in requests:
            yield client, self._kept_node(client).answer(asked)

    @cached_property
    def _kept_node(self) -> Callable[[str], Node]:
        return lru_cache(maxsize=_KEPT)(self.node)
