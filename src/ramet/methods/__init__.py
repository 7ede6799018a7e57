"""The built-in methods, one module per paper, and the rules that they consist of."""

from collections.abc import Callable
from dataclasses import dataclass

from ramet.methods.adafgl import adafgl
from ramet.methods.authors import Authors
from ramet.methods.ditto import ditto
from ramet.methods.fedavg import fedavg
from ramet.methods.fedbuff import fedbuff
from ramet.methods.fedda import AUTHORS as FEDDA
from ramet.methods.fedda import Explore, Restart, fedda
from ramet.methods.feddense import AUTHORS as FEDDENSE
from ramet.methods.feddense import feddense
from ramet.methods.fedgcn import fedgcn
from ramet.methods.fedgta import fedgta
from ramet.methods.fedlit import AUTHORS as FEDLIT
from ramet.methods.fedlit import fed_mgcn, fedlit
from ramet.methods.fedopt import fedadam, fedyogi
from ramet.methods.fedper import AUTHORS as FEDPER
from ramet.methods.fedper import fedper
from ramet.methods.fedproto import fedproto
from ramet.methods.fedprox import fedprox
from ramet.methods.fedpub import AUTHORS as FEDPUB
from ramet.methods.fedpub import fedpub
from ramet.methods.fedsageplus import fedsage_plus
from ramet.methods.fedspray import fedspray
from ramet.methods.fedssp import fedssp
from ramet.methods.fedstar import AUTHORS as FEDSTAR
from ramet.methods.fedstar import fedstar
from ramet.methods.fedtad import fedtad
from ramet.methods.fedtgp import fedtgp
from ramet.methods.fgssl import fgssl
from ramet.methods.gcfl import AUTHORS as GCFL
from ramet.methods.gcfl import gcfl, gcfl_plus
from ramet.methods.local import local
from ramet.methods.moon import moon
from ramet.methods.opfgl import o_pfgl
from ramet.methods.scaffold import scaffold
from ramet.rules.activation import Activation, Everyone, RandomClients, RandomTensors
from ramet.rules.eight_bit import EightBit
from ramet.rules.fixed_point import FixedPoint
from ramet.rules.merging import Merging, WeightedMean
from ramet.rules.method import Method
from ramet.rules.release import Release
from ramet.rules.robust import ClippedMean, Krum, Median, TrimmedMean

METHODS: dict[str, Callable[..., Method]] = {
    "local": local,
    "fedavg": fedavg,
    "fedprox": fedprox,
    "fedper": fedper,
    "scaffold": scaffold,
    "moon": moon,
    "ditto": ditto,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedbuff": fedbuff,
    "fedproto": fedproto,
    "fedtgp": fedtgp,
    "gcfl": gcfl,
    "gcfl+": gcfl_plus,
    "fedda": fedda,
    "fedstar": fedstar,
    "feddense": feddense,
    "fedssp": fedssp,
    "fed-mgcn": fed_mgcn,
    "fedlit": fedlit,
    "fedsage+": fedsage_plus,
    "fedgcn": fedgcn,
    "fedgta": fedgta,
    "fedpub": fedpub,
    "fgssl": fgssl,
    "fedtad": fedtad,
    "fedspray": fedspray,
    "o-pfgl": o_pfgl,
    "adafgl": adafgl,
}


@dataclass(frozen=True)
class PaperName:
    """The name that papers give to a method with a certain network."""

    method: str
    network: str
    paper: str


_FEDLIT, _FEDSAGE = "doi:10.1145/3543507.3583471", "arXiv:2106.13430"
_SIMPLE_HGN = "doi:10.1145/3447548.3467350"
PAPER_NAMES: dict[str, PaperName] = {
    "fedsage": PaperName("fedavg", "sage", _FEDSAGE),
    "local-gcn": PaperName("local", "fedlit-gcn", _FEDLIT),
    "fed-gcn": PaperName("fedavg", "fedlit-gcn", _FEDLIT),
    "local-nodes": PaperName("local", "fedsage-sage", _FEDSAGE),
    "fedsage-nodes": PaperName("fedavg", "fedsage-sage", _FEDSAGE),
    "local-hgn": PaperName("local", "simple-hgn", _SIMPLE_HGN),
    "fed-hgn": PaperName("fedavg", "simple-hgn", _SIMPLE_HGN),
}
"""Accepted wherever a method is named."""


AUTHORS: dict[str, Authors] = {
    "fedper": FEDPER,
    "gcfl": GCFL,
    "gcfl+": GCFL,
    "fedstar": FEDSTAR,
    "feddense": FEDDENSE,
    "local-gcn": FEDLIT,
    "fed-gcn": FEDLIT,
    "fed-mgcn": FEDLIT,
    "fedlit": FEDLIT,
    "local-hgn": FEDDA,
    "fed-hgn": FEDDA,
    "fedda": FEDDA,
    "fedpub": FEDPUB,
}
"""What `protocol=authors` sets, for each method that has such a protocol."""


def table_order(name: str) -> tuple[int, int]:
    """The place of a method in tables: next to the method that it is; user-defined ones last."""
    if name in PAPER_NAMES:
        method = PAPER_NAMES[name].method
        return list(METHODS).index(method), 1 + list(PAPER_NAMES).index(name)
    return (list(METHODS).index(name), 0) if name in METHODS else (len(METHODS), 0)


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

SUMMATIONS: dict[str, Callable[..., FixedPoint]] = {
    "fixed-point": FixedPoint,
}
"""Other ways to compute the method's own sum, named like merging rules."""

RELEASES: dict[str, Callable[..., Release]] = {
    "8-bit": EightBit,
}

__all__ = [
    "ACTIVATIONS",
    "AUTHORS",
    "MERGES",
    "METHODS",
    "PAPER_NAMES",
    "RELEASES",
    "SUMMATIONS",
    "adafgl",
    "ditto",
    "fed_mgcn",
    "fedadam",
    "fedavg",
    "fedbuff",
    "fedda",
    "feddense",
    "fedgcn",
    "fedgta",
    "fedlit",
    "fedper",
    "fedproto",
    "fedprox",
    "fedpub",
    "fedsage_plus",
    "fedspray",
    "fedssp",
    "fedstar",
    "fedtad",
    "fedtgp",
    "fedyogi",
    "fgssl",
    "gcfl",
    "gcfl_plus",
    "local",
    "moon",
    "o_pfgl",
    "scaffold",
]
