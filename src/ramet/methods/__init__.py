"""One paper, one file."""

from collections.abc import Callable

from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.fedstar import fedstar
from ramet.methods.local import local

METHODS: dict[str, Callable[..., Method]] = {
    "local": local,
    "fedavg": fedavg,
    "fedstar": fedstar,
}

__all__ = ["METHODS", "Method", "fedavg", "fedstar", "local"]
