"""The interface of settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ramet.data import ClientData, StructureEncoding
from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.preparation import Preparation, SiteSums
from ramet.data.own.ranges import Ranges
from ramet.data.own.schema import Schema, TaskName


@dataclass(frozen=True)
class Reading:
    """How to read data: the folder, the seed of the split, and the structure encodings."""

    data: Path
    split_seed: int
    inputs: StructureEncoding = field(default_factory=lambda: StructureEncoding(0, 0))
    preparation: Preparation | None = None
    """How user-defined sites prepare their columns."""
    kept: KeptParts = field(default_factory=KeptParts)
    """The parts of samples that an earlier run knew, at a user-defined site."""


class Setting(ABC):
    """Which clients take part, and what data each of them holds.

    A setting says its ``task`` and its ``clients``, and returns each client's data. The rest has
    defaults: those of parts of one graph, which nobody has to describe.
    """

    about: str
    """Of built-in settings, for `ramet list settings`."""
    rounds: int = 50
    """The default number of rounds."""
    user_defined: ClassVar[bool] = False
    """Whether the data is in the clients' own files."""
    same_schema: bool | None = True
    """Whether all clients have the same features and classes, or node types and relations.

    None if it is not known: many graphs are then taken for different domains, and single graphs
    for parts of one domain.
    """
    mixing: str | None = None
    """How the features of a sample depend on a site's other samples, which noise for one of them
    does not cover; None if they do not."""
    metric: str | None = None
    """The metric of the setting's scores; None for the default of its task."""

    @property
    @abstractmethod
    def task(self) -> TaskName | None:
        """The task of the clients' data; None if it is only known from the sites' files."""

    @property
    @abstractmethod
    def clients(self) -> tuple[str, ...]:
        """The names of the clients."""

    @abstractmethod
    def client_data(self, client: str, reading: Reading) -> ClientData[Any, Any]:
        """A client's graphs and their split; the same for the same ``reading``, in any process."""

    @property
    def source_of(self) -> dict[str, str]:
        """Where each client's data comes from."""
        return {client: f"{type(self).__name__}:{client}" for client in self.clients}

    def task_in(self, data: Path) -> TaskName | None:  # noqa: ARG002
        """Like ``task``; ``data`` may be a site's own file, which says it."""
        return self.task

    def overview(self, reading: Reading) -> ClientData[Any, Any] | None:  # noqa: ARG002
        """The pooled data of all clients, to evaluate the server's model on, or None.

        Only available in simulations.
        """
        return None

    def schemas(self, data: Path) -> Mapping[str, Schema]:  # noqa: ARG002
        """The schema of each site's own files; empty for built-in data."""
        return {}

    def schema(self, client: str, data: Path) -> Schema:  # noqa: ARG002
        """The schema of one site's own files."""
        raise LookupError(f"{client} has built-in data, which have no schema")

    def sums(self, client: str, data: Path) -> SiteSums:  # noqa: ARG002
        """What a site with its own files tells about its columns, for a common preparation."""
        return SiteSums()

    def check_scales(self, client: str, reading: Reading) -> None:  # noqa: B027
        """Raise an error if an agreed scale does not fit a site's own columns."""

    def ranges(self, client: str, reading: Reading) -> Ranges:  # noqa: ARG002
        """The ranges of a site's own columns, which stay at the site."""
        return {}

    def remarks(self, client: str, reading: Reading) -> Sequence[str]:  # noqa: ARG002
        """What a site's own files have and its graph does not; it stays at the site."""
        return ()

    def sample_parts(self, client: str, reading: Reading) -> KeptParts:  # noqa: ARG002
        """The parts of a site's own samples, by their ids, which stay at the site."""
        return KeptParts()

    def data_of(self, client: str, data: Path) -> Path | None:  # noqa: ARG002
        """Path of a client's data on this machine; None if it is elsewhere."""
        return data

    def public_options(self) -> dict[str, str]:
        """Options of the setting that other machines may see, without local paths."""
        return {}
