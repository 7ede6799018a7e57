"""Sizes of the clients' models and shapes of their shared arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch

from ramet.engine import start_shared
from ramet.methods import AssembledMethod
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
        """The number of parameters of each client's model."""
        return {client: self.scalars_of(client) for client in self.clients}

    def scalars_of(self, client: str) -> int:
        return self._measured(client)[0]

    def shared_shapes(self, client: str) -> ArrayShapes:
        return self._measured(client)[1]

    def shared_scalars(self) -> int:
        return sum(array.size for array in self.shared_start().values())

    def shared_names(self) -> tuple[str, ...]:
        """The tensors that a client sends if it is asked for all."""
        return tuple(self.shared_start())

    def shared_start(self) -> dict[str, Any]:
        """The shared arrays before round 1; data is read only if the arrays depend on it."""
        plain = self.plain_shape()
        shape = self.shape_of(self.clients[0]) if self.changed_by(plain.other()) else plain
        return start_shared(self.method, shape, self.seed)

    def plain_shape(self) -> Any:
        return self.method.task.plain_shape(self.method.inputs)

    def changed_by(self, shape: Shape) -> list[str]:
        """The shared arrays that this shape adds, removes or resizes relative to the plain one."""
        old, new = (start_shared(self.method, s, self.seed) for s in (self.plain_shape(), shape))
        return [
            name
            for name in {**old, **new}
            if name not in old or name not in new or old[name].shape != new[name].shape
        ]

    def _measured(self, client: str) -> tuple[int, ArrayShapes]:
        shape = self.shape_of(client)
        if shape not in self._by_shape:
            with torch.random.fork_rng():
                model = self.method.model(shape)
            state = model.state_dict()
            self._by_shape[shape] = (
                sum(parameter.numel() for parameter in model.parameters()),
                {name: tuple(state[name].shape) for name in self.method.shared.pick(state)},
            )
        return self._by_shape[shape]

    @cached_property
    def _by_shape(self) -> dict[Shape, tuple[int, ArrayShapes]]:
        return {}
