"""The interface of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ramet.data import ClientData, StructureEncoding
from ramet.data.own import KeptParts, Preparation, Ranges, Schema, SiteSums, TaskName


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


class Setting(Protocol):
    """Which clients take part, and what data each of them holds."""

    @property
    def about(self) -> str: ...

    @property
    def rounds(self) -> int:
        """The default number of rounds."""
        ...

    @property
    def task(self) -> TaskName | None:
        """The task of the clients' data; None if it is only known from the sites' files."""
        ...

    def task_in(self, data: Path) -> TaskName | None:
        """Like ``task``; ``data`` may be a site's own file, which says it."""
        ...

    @property
    def same_schema(self) -> bool | None:
        """Whether all clients have the same features and classes, or node types and relations.

        None if it is not known: many graphs are then taken for different domains, and single graphs
        for parts of one domain.
        """
        ...

    @property
    def metric(self) -> str | None:
        """The metric of the setting's scores; None for the default of its task."""
        ...

    @property
    def clients(self) -> tuple[str, ...]: ...

    @property
    def source_of(self) -> dict[str, str]:
        """Where each client's data comes from."""
        ...

    def client_data(self, client: str, reading: Reading) -> ClientData[Any, Any]: ...

    def overview(self, reading: Reading) -> ClientData[Any, Any] | None:
        """The pooled data of all clients, to evaluate the server's model on, or None.

        Only available in simulations.
        """
        ...

    @property
    def user_defined(self) -> bool:
        """Whether the data is in the clients' own files."""
        ...

    def schemas(self, data: Path) -> Mapping[str, Schema]:
        """The schema of each site's own files; empty for built-in data."""
        ...

    def schema(self, client: str, data: Path) -> Schema:
        """The schema of one site's own files."""
        ...

    def sums(self, client: str, data: Path) -> SiteSums:
        """What a site with its own files tells about its columns, for a common preparation."""
        ...

    def check_scales(self, client: str, reading: Reading) -> None:
        """Raise an error if an agreed scale does not fit a site's own columns."""
        ...

    def ranges(self, client: str, reading: Reading) -> Ranges:
        """The ranges of a site's own columns, which stay at the site."""
        ...

    def remarks(self, client: str, reading: Reading) -> Sequence[str]:
        """What a site's own files have and its graph does not; it stays at the site."""
        ...

    def sample_parts(self, client: str, reading: Reading) -> KeptParts:
        """The parts of a site's own samples, by their ids, which stay at the site."""
        ...

    def data_of(self, client: str, data: Path) -> Path | None:
        """Path of a client's data on this machine; None if it is elsewhere."""
        ...

    def public_options(self) -> dict[str, str]:
        """Options of the setting that other machines may see, without local paths."""
        ...


class BuiltIn:
    """Defaults for settings with built-in data: parts of one graph."""

    task: ClassVar[TaskName]
    user_defined = False
    same_schema = True
    metric: str | None = None

    def task_in(self, data: Path) -> TaskName:  # noqa: ARG002
        return self.task

    def overview(self, reading: Reading) -> ClientData[Any, Any] | None:  # noqa: ARG002
        return None

    def schemas(self, data: Path) -> Mapping[str, Schema]:  # noqa: ARG002
        return {}

    def schema(self, client: str, data: Path) -> Schema:  # noqa: ARG002
        raise LookupError(f"{client} has built-in data, which have no schema")

    def sums(self, client: str, data: Path) -> SiteSums:  # noqa: ARG002
        return SiteSums()

    def check_scales(self, client: str, reading: Reading) -> None:
        pass

    def ranges(self, client: str, reading: Reading) -> Ranges:  # noqa: ARG002
        return {}

    def remarks(self, client: str, reading: Reading) -> Sequence[str]:  # noqa: ARG002
        return ()

    def sample_parts(self, client: str, reading: Reading) -> KeptParts:  # noqa: ARG002
        return KeptParts()

    def data_of(self, client: str, data: Path) -> Path | None:  # noqa: ARG002
        return data

    def public_options(self) -> dict[str, str]:
        return {}
