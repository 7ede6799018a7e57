"""Sharing rules: which arrays are shared, decided by the network and by how clients differ.

A method that brings its own network names its shared arrays with patterns, such as
``only("structure.*")``. A method that works with any network gives a rule. The rule sees the names
of the network's arrays and knows which of them depend on a client's features, classes, node types
or relations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ramet.errors import RametError
from ramet.payload import Sharing, only

_LAYER = re.compile(r"((?:.*\.)?layers)\.(\d+)\.")


@dataclass(frozen=True)
class NetworkArrays:
    """The arrays of a network, in the order of its parts.

    The input comes first, then the message-passing layers, called ``layers.0``, ``layers.1``, …
    (possibly inside another module), then the head.
    """

    names: Sequence[str]
    varying: frozenset[str] = frozenset()
    """Those that do not have the same size at every site."""
    together: Sequence[str] = ()
    """The attributes of the network that are shared together or not at all."""

    @cached_property
    def layer_of(self) -> dict[str, int]:
        """The number of the message-passing layer of each array that is in one."""
        found = {name: match for name in self.names if (match := _LAYER.match(name))}
        first = next(iter(found.values()))[1] if found else ""
        return {name: int(match[2]) for name, match in found.items() if match[1] == first}

    @property
    def layers(self) -> int:
        """The number of message-passing layers."""
        return len({*self.layer_of.values()})

    def same_size(self) -> list[str]:
        """Arrays of parts that have the same size at every site.

        A part is a module, so a weight and its bias stay together. After the message-passing layers
        it is all that one attribute of the network holds, such as a head of two layers.
        """
        varying = {self._part(name) for name in self.varying}
        return [name for name in self.names if self._part(name) not in varying]

    @cached_property
    def head(self) -> list[str]:
        """Arrays that come after the message-passing layers."""
        in_layers = [index for index, name in enumerate(self.names) if name in self.layer_of]
        return [*self.names[max(in_layers) + 1 :]] if in_layers else []

    def _part(self, name: str) -> str:
        """The part of an array, which only some sites may have."""
        attribute = name.partition(".")[0]
        if attribute in self.together:
            return self.together[0]
        in_head = {own.partition(".")[0] for own in self.head}
        return attribute if attribute in in_head else name.rpartition(".")[0]


class SharingRule(Protocol):
    """Protocol of sharing rules."""

    def __call__(self, arrays: NetworkArrays) -> Sharing:
        """Return what is shared of a network with these arrays."""
        ...


@dataclass(frozen=True)
class SameSize:
    """Share everything that has the same size at every site.

    On parts of one graph, or of one dataset, this is the whole network. Across domains, whose
    features and classes differ, it is what lies between the input and the head.
    """

    def __call__(self, arrays: NetworkArrays) -> Sharing:
        return _patterns(arrays, arrays.same_size())


@dataclass(frozen=True)
class BaseLayers:
    """Share what FedAvg shares, without the last ``personal`` layers and the head."""

    personal: int

    def __call__(self, arrays: NetworkArrays) -> Sharing:
        base = arrays.layers - self.personal
        if base < 1:
            raise RametError(
                f"personal={self.personal} leaves none of {arrays.layers} message-passing layers "
                "to share. Choose a smaller value, or a network with more `layers`."
            )
        personal = {name for name, layer in arrays.layer_of.items() if layer >= base}
        private = {*arrays.head, *personal}
        return _patterns(arrays, [name for name in arrays.same_size() if name not in private])


def _patterns(arrays: NetworkArrays, shared: Sequence[str]) -> Sharing:
    """As few patterns as possible: `*`, a whole part of the network, a layer, or single arrays."""
    if not shared:
        raise RametError(
            "no part of this network has the same size at every site, so nothing can be shared. "
            "Choose another network with --network, or more layers with --set layers=3, or name "
            "what to share with --share."
        )
    patterns: list[str] = []
    private = [name for name in arrays.names if name not in set(shared)]
    for name in shared:
        if any(_covers(pattern, name) for pattern in patterns):
            continue
        pieces = name.split(".")
        wider = ["*", *(".".join([*pieces[:end], "*"]) for end in range(1, len(pieces))), name]
        patterns.append(next(p for p in wider if not any(_covers(p, other) for other in private)))
    return only(*patterns)


def _covers(pattern: str, name: str) -> bool:
    return name in only(pattern)
