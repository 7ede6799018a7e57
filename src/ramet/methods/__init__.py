"""One paper, one file."""

from collections.abc import Callable

from ramet.methods.activation import Activation, Everyone, RandomClients, RandomTensors
from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.fedda import Explore, Restart
from ramet.methods.feddense import feddense
from ramet.methods.fedlit import fed_gcn, fed_mgcn, fedlit
from ramet.methods.fedper import fedper
from ramet.methods.fedprox import fedprox
from ramet.methods.fedsage import fedsage
from ramet.methods.fedstar import fedstar
from ramet.methods.gcfl import gcfl, gcfl_plus
from ramet.methods.local import local

METHODS: dict[str, Callable[..., Method]] = {
    "local": local,
    "fedavg": fedavg,
    "fedprox": fedprox,
    "fedper": fedper,
    "fedsage": fedsage,
    "gcfl": gcfl,
    "gcfl+": gcfl_plus,
    "fedstar": fedstar,
    "feddense": feddense,
    "fed-gcn": fed_gcn,
    "fed-mgcn": fed_mgcn,
    "fedlit": fedlit,
}

ACTIVATIONS: dict[str, Callable[..., Activation]] = {
    "everyone": Everyone,
    "random-clients": RandomClients,
    "random-tensors": RandomTensors,
    "restart": Restart,
    "explore": Explore,
}

__all__ = [
    "ACTIVATIONS",
    "METHODS",
    "Method",
    "fed_gcn",
    "fed_mgcn",
    "fedavg",
    "feddense",
    "fedlit",
    "fedper",
    "fedprox",
    "fedsage",
    "fedstar",
    "gcfl",
    "gcfl_plus",
    "local",
]
