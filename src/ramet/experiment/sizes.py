"""Sizes of the clients' models and shapes of their shared arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from ramet.engine.start import shared_shapes, start_extras, start_shared
from ramet.rules.method import AssembledMethod
from ramet.rules.networks import array_shapes, buffer_names
from ramet.tasks import Shape

ArrayShapes: TypeAlias = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Sizes:
    """Measures the clients' models; one model is built per distinct shape."""

    method: AssembledMethod
    seed: int
    clients: Sequence[str]
    shape_of: Callable[[str], Shape]
    """Returns the shape of a client's data, and reads the data if necessary."""

    def scalars(self) -> dict[str, int]:
        """The number of scalars in each client's model, in parameters and in buffers."""
        return {client: self.scalars_of(client) for client in self.clients}

    def scalars_of(self, client: str) -> int:
        return self._measured(client)[0]

    def exchanged_shapes(self, client: str) -> ArrayShapes:
        """The shapes of the arrays that the client shares, and of its extras."""
        return self._measured(client)[1]

    def shared_scalars(self) -> int:
        return sum(array.size for array in self.shared_start().values())

    def shared_names(self) -> tuple[str, ...]:
        """The tensors that a client sends if it is asked for all."""
        return tuple(self.shared_start())

    def shared_start(self) -> dict[str, Any]:
        """The shared arrays before round 1; data is read only if the arrays depend on it."""
        return start_shared(self.method, self.server_shape, self.seed)

    def start_extras(self) -> dict[str, dict[str, Any]]:
        """The extras before round 1, by the exchange in which clients send them."""
        return start_extras(self.method, self.server_shape, self.seed)

    def buffers(self) -> frozenset[str]:
        """The names of the arrays that are not trained."""
        return frozenset(buffer_names(self.method.model, self.server_shape))

    @cached_property
    def server_shape(self) -> Any:
        """A shape with which the server can build all that is exchanged.

        Data is read only if the exchanged arrays depend on it.
        """
        plain = self.plain_shape()
        return self.shape_of(self.clients[0]) if self.changed_by(plain.other()) else plain

    def plain_shape(self) -> Any:
        return self.method.task.plain_shape(self.method.inputs)

    def changed_by(self, shape: Shape) -> list[str]:
        """What this shape adds, removes or resizes relative to the plain one.

        Includes the shared arrays and the extras.
        """
        old, new = self._exchanged_shapes(self.plain_shape()), self._exchanged_shapes(shape)
        return [name for name in {**old, **new} if old.get(name) != new.get(name)]

    def _exchanged_shapes(self, shape: Shape) -> ArrayShapes:
        extras = {
            f"extra {name}": array.shape  # an extra may have the name of a parameter
            for arrays in start_extras(self.method, shape, self.seed).values()
            for name, array in arrays.items()
        }
        return {**shared_shapes(self.method, shape), **extras}

    def _measured(self, client: str) -> tuple[int, ArrayShapes]:
        shape = self.shape_of(client)
        if shape not in self._by_shape:
            arrays = array_shapes(self.method.model, shape).values()
            self._by_shape[shape] = sum(map(prod, arrays)), self._exchanged_shapes(shape)
        return self._by_shape[shape]

    @cached_property
    def _by_shape(self) -> dict[Shape, tuple[int, ArrayShapes]]:
        return {}
