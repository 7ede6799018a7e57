"""Clients with user-defined graphs, each described by a TOML file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ramet.data import ClientData
from ramet.data.link_split import Negatives
from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.preparation import Preparation, SiteSums
from ramet.data.own.ranges import Ranges, check_scales, ranges
from ramet.data.own.schema import Schema, TaskName
from ramet.data.own.site import Site, read_site, site_name, site_task
from ramet.errors import RametError
from ramet.partition.base import Reading, Setting

ENDING, SITES = ".toml", "sites"


@dataclass(frozen=True)
class OwnSetting(Setting):
    """Sites by name, each with the TOML file that describes it, if it is on this machine.

    Otherwise the path comes from the site's own configuration, the ``data`` of its SuperNode.
    """

    files: Mapping[str, Path | None]
    negatives: Negatives = "random"
    task: TaskName | None = None
    same_schema: bool | None = None
    about: str = "your own graphs, one TOML per site"
    rounds: int = 50
    user_defined: ClassVar[bool] = True

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.files)

    @property
    def source_of(self) -> dict[str, str]:
        return {client: f"own:{client}" for client in self.files}

    def task_in(self, data: Path) -> TaskName | None:
        """The task that is given, or that of a site's file on this machine."""
        files = [*self.files.values(), data if data.suffix == ENDING else None]
        return self.task or next((site_task(file) for file in files if file), None)

    def client_data(self, client: str, reading: Reading) -> ClientData[Any, Any]:
        site = self._split_site(client, reading)
        return site.client_data(reading.split_seed, reading.inputs, self.negatives)

    def sample_parts(self, client: str, reading: Reading) -> KeptParts:
        return KeptParts.of(self._split_site(client, reading), reading.split_seed)

    def remarks(self, client: str, reading: Reading) -> Sequence[str]:
        site = self.site(client, reading.data, reading.preparation)
        return [f"{client}, {remark}" for remark in site.remarks]

    def _split_site(self, client: str, reading: Reading) -> Site:
        """The client's graphs, with the parts of samples that an earlier run knew."""
        site = self.site(client, reading.data, reading.preparation)
        return reading.kept.kept_in(site, reading.split_seed)

    def schemas(self, data: Path) -> Mapping[str, Schema]:
        return {client: self.schema(client, data) for client in self.clients}

    def data_of(self, client: str, data: Path) -> Path | None:
        """On a site's own machine, ``data`` is its TOML file; elsewhere there may be none."""
        return self.files[client] or (data if data.suffix == ENDING else None)

    def public_options(self) -> dict[str, str]:
        task = self.task_in(Path())
        return {SITES: shlex.join(self.clients)} | ({"task": task} if task else {})

    def site(self, client: str, data: Path, preparation: Preparation | None = None) -> Site:
        """Return the client's graphs, which are read once for each preparation."""
        kept, prepared_as = self._sites.get(client, (None, None))
        if kept is None or (kept.columns and preparation != prepared_as):
            path = self.files[client] or data
            if path.suffix != ENDING:
                raise RametError(
                    f"there is no path to the graphs of {client} on this machine. Start its "
                    'SuperNode with data="FOLDER/site.toml" in its --node-config.'
                )
            known = kept.prepared(preparation) if kept and preparation else None
            site = known or read_site(path, preparation)
            if site.name != client:
                raise RametError(f"{path.name} describes {site.name}, but the client is {client}.")
            self._sites[client] = site, preparation
        return self._sites[client][0]

    def schema(self, client: str, data: Path) -> Schema:
        return self._read(client, data).schema

    def sums(self, client: str, data: Path) -> SiteSums:
        return self._read(client, data).sums

    def check_scales(self, client: str, reading: Reading) -> None:
        if reading.preparation is not None:
            site = self.site(client, reading.data, reading.preparation)
            check_scales(site, reading.preparation)

    def gives_split(self, client: str, data: Path) -> bool:
        """Whether the client's files say which samples are for training, validation and test."""
        return self._read(client, data).parts is not None

    def ranges(self, client: str, reading: Reading) -> Ranges:
        return ranges(self.site(client, reading.data, reading.preparation))

    def _read(self, client: str, data: Path) -> Site:
        """The client's graphs, with any preparation."""
        known = self._sites.get(client)
        return known[0] if known else self.site(client, data)

    @cached_property
    def _sites(self) -> dict[str, tuple[Site, Preparation | None]]:
        return {}


def own(
    sites: str = "",
    negatives: Negatives = "random",
    task: TaskName | None = None,
    same_schema: bool | None = None,
) -> OwnSetting:
    """Sites with their own graphs.

    ``sites``: the sites' TOML files, or names of sites whose files are on other machines. ``task``:
    needed only if no file is on this machine and the method runs on any task. ``same_schema``:
    whether FedAvg and its variants share everything or only what lies between input and head.
    """
    files: dict[str, Path | None] = {}
    for word in shlex.split(sites):
        is_file = word.endswith(ENDING)
        name = site_name(Path(word)) if is_file else word
        if name in files:
            raise RametError(f"two sites are called {name}. Give each a different name.")
        files[name] = Path(word) if is_file else None
    return OwnSetting(files, negatives, task, same_schema)


def absolute_sites(sites: str) -> str:
    """Make the paths of files absolute, so that every process of a run finds them."""
    words = shlex.split(sites)
    return shlex.join(str(Path(w).absolute()) if w.endswith(ENDING) else w for w in words)
