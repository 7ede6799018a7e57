"""The named settings: which clients there are, and which graphs each of them holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ramet.partition.cuts import AtRandom, ByLabel, BySize, Cut

_MOLECULES = ("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1")
_PROTEINS = ("ENZYMES", "DD")
_SOCIAL = ("COLLAB", "IMDB-BINARY", "IMDB-MULTI")
_LETTERS = ("Letter-low", "Letter-med", "Letter-high")
_BIO = (*_PROTEINS, "PROTEINS")


@dataclass(frozen=True)
class Setting:
    """Who takes part and what they hold.

    Either every client holds a source of its own, or all hold parts of one source, cut by ``cut``.
    """

    about: str
    sources: tuple[str, ...]
    rounds: int = 200
    cut: Cut | None = None

    @cached_property
    def clients(self) -> tuple[str, ...]:
        names = tuple(source.partition(":")[2] for source in self.sources)
        if self.cut is None:
            return names
        return tuple(f"{names[0]}-{part:05d}" for part in range(self.cut.clients))

    @cached_property
    def source_of(self) -> dict[str, str]:
        """Where each client's graphs come from."""
        if self.cut is None:
            return dict(zip(self.clients, self.sources, strict=True))
        return dict.fromkeys(self.clients, self.sources[0])

    def members_of(self, labels: Tensor, seed: int) -> dict[str, Tensor]:
        """Which of the common source's graphs are whose; none where each has its own source."""
        if self.cut is None:
            return {}
        return dict(zip(self.clients, self.cut(labels, seed), strict=True))


def _each_its_own(about: str, *names: str) -> Callable[[], Setting]:
    return lambda: Setting(about, tuple(f"tu:{name}" for name in names))


def tiny() -> Setting:
    return Setting(
        "three small made-up domains, no download",
        ("tiny:rings", "tiny:trees", "tiny:blocks"),
        rounds=30,
    )


def at_random(dataset: str = "NCI1", clients: int = 10) -> Setting:
    return Setting(
        "one dataset, equal random parts", (f"tu:{dataset}",), cut=AtRandom(clients=clients)
    )


def by_size(dataset: str = "NCI1", clients: int = 10, skew: float = 1.0) -> Setting:
    return Setting(
        "one dataset, parts of falling size",
        (f"tu:{dataset}",),
        cut=BySize(clients=clients, skew=skew),
    )


def by_label(dataset: str = "NCI1", clients: int = 10, alpha: float = 0.5) -> Setting:
    return Setting(
        "one dataset, Dirichlet shares of classes",
        (f"tu:{dataset}",),
        cut=ByLabel(clients=clients, alpha=alpha),
    )


SETTINGS: dict[str, Callable[..., Setting]] = {
    "tiny": tiny,
    "single": _each_its_own("7 molecule datasets", *_MOLECULES),
    "cross-sim": _each_its_own("molecules and proteins", *_MOLECULES, *_PROTEINS),
    "cross-diff": _each_its_own(
        "proteins, social networks, letters", *_PROTEINS, *_SOCIAL, *_LETTERS
    ),
    "multi": _each_its_own(
        "molecules, proteins, social networks, letters",
        *(*_MOLECULES, *_PROTEINS, *_SOCIAL, *_LETTERS),
    ),
    "bio-sm": _each_its_own("FedStar's BIO-SM", *_MOLECULES, *_BIO),
    "bio-sm-sn": _each_its_own("FedStar's BIO-SM-SN", *_MOLECULES, *_BIO, *_SOCIAL),
    "bio-sn-cv": _each_its_own("FedStar's BIO-SN-CV", *_BIO, *_SOCIAL, *_LETTERS),
    "at-random": at_random,
    "by-size": by_size,
    "by-label": by_label,
}
