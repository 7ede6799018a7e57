"""The built-in methods, one module per paper, and the rules that they consist of."""

from collections.abc import Callable

from ramet.methods.activation import Activation, Everyone, RandomClients, RandomTensors
from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.fedda import Explore, Restart, fed_hgn, fedda, local_hgn
from ramet.methods.feddense import feddense
from ramet.methods.fedlit import fed_gcn, fed_mgcn, fedlit, local_gcn
from ramet.methods.fedper import fedper
from ramet.methods.fedprox import fedprox
from ramet.methods.fedsage import fedsage
from ramet.methods.fedsageplus import fedsage_nodes, fedsage_plus, local_nodes
from ramet.methods.fedstar import fedstar
from ramet.methods.gcfl import gcfl, gcfl_plus
from ramet.methods.local import local
from ramet.methods.merging import Merging, WeightedMean
from ramet.methods.robust import ClippedMean, Krum, Median, TrimmedMean

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
    "local-hgn": local_hgn,
    "fed-hgn": fed_hgn,
    "fedda": fedda,
}

ACTIVATIONS: dict[str, Callable[..., Activation]] = {
    "everyone": Everyone,
    "random-clients": RandomClients,
    "random-tensors": RandomTensors,
    "restart": Restart,
    "explore": Explore,
}

MERGES: dict[str, Callable[..., Merging]] = {
    "mean": WeightedMean,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "krum": Krum,
    "clipped-mean": ClippedMean,
}

__all__ = [
    "ACTIVATIONS",
    "MERGES",
    "METHODS",
    "Method",
    "fed_gcn",
    "fed_hgn",
    "fed_mgcn",
    "fedavg",
    "fedda",
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
    "local_hgn",
    "local_nodes",
]
