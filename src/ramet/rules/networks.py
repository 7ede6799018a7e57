"""A network for a shape of data, and what is known of it without weights."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from inspect import getmodule
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ramet.errors import RametError


def built(model: Callable[[Any], nn.Module], shape: Any) -> nn.Module:
    """The network for a shape; an error in its code names the shape and the line."""
    try:
        return model(shape)
    except RametError:
        raise
    except Exception as error:
        network = getattr(model, "func", model)
        frames = traceback.extract_tb(error.__traceback__)
        file = getattr(getmodule(network), "__file__", None)
        own = [one for one in frames if one.filename == file]
        line = (own or frames)[-1]
        words = " ".join(str(error).split())
        raise RametError(
            f"the network {getattr(network, '__name__', network)} cannot be built for {shape}: "
            f"{type(error).__name__}: {words} ({Path(line.filename).name}, line {line.lineno}). "
            "Every network is also built for one feature and two classes, to see what can be "
            "shared."
        ) from error


def unweighted(model: Callable[[Any], nn.Module], shape: Any) -> nn.Module:
    """The network for a shape, without weights if it can be built without them."""
    with torch.random.fork_rng():
        try:
            with torch.device("meta"):
                return model(shape)
        except Exception:  # noqa: BLE001 - a network that looks at its weights, or is wrong
            return built(model, shape)


def buffer_names(model: Callable[[Any], nn.Module], shape: Any) -> list[str]:
    """The names of a network's arrays that are not trained."""
    return [name for name, _ in unweighted(model, shape).named_buffers()]


def array_shapes(model: Callable[[Any], nn.Module], shape: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of a network's arrays."""
    network = unweighted(model, shape)
    return {
        name: tuple(getattr(array, "shape", ())) for name, array in network.state_dict().items()
    }
