"""One paper, one file."""

from collections.abc import Callable

from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.feddense import feddense
from ramet.methods.fedlit import fed_gcn, fed_mgcn, fedlit, local_gcn
from ramet.methods.fedper import fedper
from ramet.methods.fedprox import fedprox
from ramet.methods.fedsage import fedsage
from ramet.methods.fedsageplus import fedsage_nodes, fedsage_plus, local_nodes
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
    "local-gcn": local_gcn,
    "fed-gcn": fed_gcn,
    "fed-mgcn": fed_mgcn,
    "fedlit": fedlit,
    "local-nodes": local_nodes,
    "fedsage-nodes": fedsage_nodes,
    "fedsage+": fedsage_plus,
}

__all__ = [
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
    "fedsage_nodes",
    "fedsage_plus",
    "fedstar",
    "gcfl",
    "gcfl_plus",
    "local",
    "local_gcn",
    "local_nodes",
]
