"""What server and sites have before round 1: networks, shared arrays and extras, from the seed."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from ramet.engine.store.client_state import load_arrays, model_arrays, numpy_arrays
from ramet.errors import RametError
from ramet.payload import Array, Arrays
from ramet.randomness import EVERYONE, Randomness
from ramet.rules.method import AssembledMethod, declared_extras
from ramet.rules.networks import array_shapes, built
from ramet.tasks import Shape

START = "start"
"""The folder, below the server's snapshots, with shared arrays that are not drawn from the seed."""


def start_model(method: AssembledMethod, shape: Shape, seed: int, client: str) -> nn.Module:
    """A new model: private arrays are drawn for this client, shared ones are equal on all."""
    model = new_model(method, shape, seed, client)
    load_arrays(model, start_shared(method, shape, seed))
    return model


def new_model(
    method: AssembledMethod, shape: Shape, seed: int, client: str = EVERYONE
) -> nn.Module:
    """Build a model whose random draws depend on the run's seed and the client only."""
    with Randomness(seed, client, 0).torch_draws("start"):
        return built(method.model, shape)


def start_shared(method: AssembledMethod, shape: Shape, seed: int) -> dict[str, Array]:
    """The shared arrays before round 1. Server and sites draw them from the run's seed alone.

    If none of their shapes depends on a client's features and classes, they are drawn for the
    plain shape, so that clients of different shapes start with the same values.
    """
    if (shape, seed) not in method.drawn:
        plain = shape.plain()
        if shape != plain and _shared_by(method, shape, plain):
            method.drawn[shape, seed] = start_shared(method, plain, seed)
        else:
            arrays = model_arrays(new_model(method, shape, seed))
            method.drawn[shape, seed] = {name: arrays[name] for name in method.shared.pick(arrays)}
    return {**method.drawn[shape, seed]}


def _shared_by(method: AssembledMethod, shape: Shape, plain: Shape) -> bool:
    """Whether the shared arrays of a shape have the shapes of those of the plain one."""
    return shared_shapes(method, shape).items() <= shared_shapes(method, plain).items()


def shared_shapes(method: AssembledMethod, shape: Shape) -> dict[str, tuple[int, ...]]:
    """The shapes of the shared arrays, which are not drawn for that."""
    shapes = array_shapes(method.model, shape)
    return {name: shapes[name] for name in method.shared.pick(shapes)}


def start_extras(method: AssembledMethod, shape: Shape, seed: int) -> dict[str, dict[str, Array]]:
    """The extras before round 1, by the exchange in which clients send them."""
    declared = declared_extras(method)
    if not declared:
        return {}
    model = start_model(method, shape, seed, EVERYONE)
    shared = method.shared.pick(state_names(model))
    start = {key: numpy_arrays(extras.start(model, shared)) for key, extras in declared.items()}
    names = [name for arrays in start.values() for name in arrays]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RametError(f"{method.name} declares the extra '{twice}' twice.")
    return start


def extras_up(method: AssembledMethod, start: Mapping[str, Arrays], exchange: str) -> Arrays:
    """Arrays with the names, shapes and types of the extras that clients send in an exchange."""
    if exchange not in start:
        return {}
    declared = declared_extras(method)[exchange]
    return {name: array for name, array in start[exchange].items() if name in declared.up}


def state_names(model: nn.Module) -> tuple[str, ...]:
    return tuple(model.state_dict())
