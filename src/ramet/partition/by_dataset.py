"""Clients that hold many graphs: a dataset per client, or parts of one dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar

from pydantic import PositiveInt
from torch import Tensor

from ramet.data import ClientData, GraphBlock, Split, StructureEncoding, stratified
from ramet.data.own.schema import TaskName
from ramet.data.sources.graph_sets import read_block
from ramet.partition.base import Reading, Setting
from ramet.partition.cuts import AtRandom, ByLabel, BySize, Cut

_MOLECULES = ("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1")
_PROTEINS = ("ENZYMES", "DD")
_SOCIAL = ("COLLAB", "IMDB-BINARY", "IMDB-MULTI")
_LETTERS = ("Letter-low", "Letter-med", "Letter-high")
_BIO = (*_PROTEINS, "PROTEINS")


@dataclass(frozen=True)
class GraphSetting(Setting):
    """Many graphs per client.

    Either each client holds its own source, or ``cut`` divides a single source among the clients.
    """

    about: str
    sources: tuple[str, ...]
    rounds: int = 200
    cut: Cut | None = None
    task: ClassVar[TaskName] = "graph-classification"

    @property
    def same_schema(self) -> bool:  # type: ignore[override]
        return self.cut is not None

    @cached_property
    def clients(self) -> tuple[str, ...]:
        names = tuple(source.partition(":")[2] for source in self.sources)
        if self.cut is None:
            return _numbered(names)
        return tuple(f"{names[0]}-{part:05d}" for part in range(self.cut.clients))

    @cached_property
    def source_of(self) -> dict[str, str]:
        if self.cut is None:
            return dict(zip(self.clients, self.sources, strict=True))
        return dict.fromkeys(self.clients, self.sources[0])

    def client_data(self, client: str, reading: Reading) -> ClientData[GraphBlock, Split]:
        block = _read_block(self.source_of[client], reading.inputs, reading.data)
        members = self._members(block, reading.split_seed).get(client)
        return ClientData(block, stratified(block.labels, reading.split_seed, members))

    def _members(self, block: GraphBlock, seed: int) -> dict[str, Tensor]:
        """Indices of each client's graphs in a common source; empty without ``cut``."""
        if self.cut is None:
            return {}
        if seed not in self._members_by_seed:
            self._members_by_seed[seed] = dict(
                zip(self.clients, self.cut(block.labels, seed), strict=True)
            )
        return self._members_by_seed[seed]

    @cached_property
    def _members_by_seed(self) -> dict[int, dict[str, Tensor]]:
        return {}


def _numbered(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct names: the second `rings` becomes `rings-2`."""
    counts: Counter[str] = Counter()
    distinct = []
    for name in names:
        counts[name] += 1
        distinct.append(f"{name}-{counts[name]}" if counts[name] > 1 else name)
    return tuple(distinct)


@lru_cache(maxsize=32)
def _read_block(source: str, encoding: StructureEncoding, root: Path) -> GraphBlock:
    return read_block(source, encoding, root)


def _dataset_per_client(about: str, *names: str) -> Callable[[], GraphSetting]:
    return lambda: GraphSetting(about, tuple(f"tu:{name}" for name in names))


single = _dataset_per_client("7 molecule datasets", *_MOLECULES)
cross_sim = _dataset_per_client("molecules and proteins", *_MOLECULES, *_PROTEINS)
cross_diff = _dataset_per_client(
    "proteins, social networks, letters", *_PROTEINS, *_SOCIAL, *_LETTERS
)
multi = _dataset_per_client(
    "molecules, proteins, social networks, letters",
    *(*_MOLECULES, *_PROTEINS, *_SOCIAL, *_LETTERS),
)
bio_sm = _dataset_per_client("FedStar's BIO-SM", *_MOLECULES, *_BIO)
bio_sm_sn = _dataset_per_client("FedStar's BIO-SM-SN", *_MOLECULES, *_BIO, *_SOCIAL)
bio_sn_cv = _dataset_per_client("FedStar's BIO-SN-CV", *_BIO, *_SOCIAL, *_LETTERS)


def tiny(clients: PositiveInt = 3) -> GraphSetting:
    """Generated domains; from the fourth client on they repeat."""
    domains = cycle(("tiny:rings", "tiny:trees", "tiny:blocks"))
    return GraphSetting(
        "three small generated domains, no download",
        tuple(islice(domains, clients)),
        rounds=30,
    )


def at_random(dataset: str = "NCI1", clients: int = 10) -> GraphSetting:
    return GraphSetting(
        "one dataset, equal random parts", (f"tu:{dataset}",), cut=AtRandom(clients=clients)
    )


def by_size(dataset: str = "NCI1", clients: int = 10, skew: float = 1.0) -> GraphSetting:
    return GraphSetting(
        "one dataset, parts of decreasing size",
        (f"tu:{dataset}",),
        cut=BySize(clients=clients, skew=skew),
    )


def by_label(dataset: str = "NCI1", clients: int = 10, alpha: float = 0.5) -> GraphSetting:
    return GraphSetting(
        "one dataset, Dirichlet shares of classes",
        (f"tu:{dataset}",),
        cut=ByLabel(clients=clients, alpha=alpha),
    )
