"""The in-process wire: clients answer one after the other, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ramet.engine.node import Node
from ramet.engine.rounds import Answer
from ramet.payload import Payload

_CACHED_NODES = 64


@dataclass(frozen=True)
class LocalWire:
    """Caches the nodes used last; the others have their state on disk, which saves memory."""

    node: Callable[[str], Node]

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, request in requests:
            yield client, self._cached_node(client).answer(request)

    @cached_property
    def _cached_node(self) -> Callable[[str], Node]:
        return lru_cache(maxsize=_CACHED_NODES)(self.node)
