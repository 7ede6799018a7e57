"""The components of a run, built from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from ramet.data import ClientData
from ramet.data.fingerprint import data_sha256
from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.preparation import Pooled, Preparation, SiteSums, agreed
from ramet.data.own.schema import Schema
from ramet.errors import unknown
from ramet.experiment.code import check_code
from ramet.experiment.named import NamedParts
from ramet.experiment.named_tasks import with_metric
from ramet.experiment.settings import RunSettings
from ramet.experiment.site_record import load_parts
from ramet.experiment.sizes import Sizes
from ramet.partition import Reading, Setting
from ramet.partition.checked import data_of
from ramet.randomness import Randomness
from ramet.rules.method import AssembledMethod
from ramet.rules.server import SERVER
from ramet.tasks import TargetTask


@dataclass(frozen=True)
class Experiment:
    """The components of a run, each built on first use."""

    settings: RunSettings
    reported: Mapping[str, Schema] | None = None
    """The schemas that the sites have reported; None to read them from the sites' files."""
    agreement: Preparation | None = None
    """How sites prepare their columns; None to agree it from the sites' files."""
    kept_in: Path | None = None
    """The folder with the folders of clients that know the parts of samples, if the run starts from
    another one: that of the other run or, once it is created, the run's own."""

    @cached_property
    def method(self) -> AssembledMethod:
        settings = self.settings
        check_code(settings)
        method = self._parts.assembled(
            settings.share,
            settings.activation,
            settings.merge,
            settings.release,
            settings.secure,
        )
        measured = with_metric(method, settings.metric, self._metric_of(self.agreement))
        return _in_unit(measured, self.reported or {})

    @cached_property
    def scored_method(self) -> AssembledMethod:
        """The method with the metric of the run, which sites with own data agree on, in their unit.

        Until they have done so, `method` has the default.
        """
        if self.agreement is not None or not self.setting.user_defined:
            return self.method
        metric = self._metric_of(self.preparation)
        return _in_unit(with_metric(self.method, self.settings.metric, metric), self.raw_schemas)

    def _metric_of(self, agreement: Preparation | None) -> str | None:
        return (agreement.metric if agreement else None) or self.setting.metric

    @cached_property
    def setting(self) -> Setting:
        return self._parts.setting

    @property
    def same_schema(self) -> bool:
        """Whether all clients have the same features and classes, or node types and relations."""
        return self._parts.same_schema

    @property
    def clients(self) -> tuple[str, ...]:
        return self.setting.clients

    @cached_property
    def final_clients(self) -> tuple[str, ...]:
        """The clients that get the final model and evaluate it.

        What a run's folder says about every client before and after the rounds, it says about
        these, so that it does not grow with clients that are never asked.
        """
        count, total = self.settings.final_clients, len(self.clients)
        if count is None or count >= total:
            return self.clients
        draw = Randomness(self.settings.seed, SERVER, 0).generator("final clients")
        chosen = torch.randperm(total, generator=draw)[:count].sort().values
        return tuple(self.clients[number] for number in chosen.tolist())

    @property
    def regions(self) -> dict[str, tuple[str, ...]]:
        """The clients of each regional coordinator, in order; empty without regions."""
        count, total = self.settings.regions or 0, len(self.clients)
        ends = [total * number // count for number in range(1, count + 1)]
        return {
            f"region-{number}": self.clients[start:end]
            for number, (start, end) in enumerate(pairwise((0, *ends)), 1)
        }

    @cached_property
    def schemas(self) -> Mapping[str, Schema]:
        """The schema of each site's files, with prepared features; empty for built-in data."""
        return {
            site: self.preparation.expanded(schema) for site, schema in self.raw_schemas.items()
        }

    @cached_property
    def raw_schemas(self) -> Mapping[str, Schema]:
        """The schema of each site's files, with columns as declared."""
        if self.reported is not None:
            return self.reported
        return self.setting.schemas(self.settings.data)

    @cached_property
    def preparation(self) -> Preparation:
        """How all sites prepare their columns."""
        if self.agreement is not None:
            return self.agreement
        return agreed(self.told, Pooled.of(self.told) if self.settings.secure else None)

    @cached_property
    def told(self) -> Mapping[str, SiteSums]:
        """What the sites on this machine tell for a common preparation, if there is none yet."""
        if self.agreement is not None:
            return {}
        here = self.reported is None
        with_sums = [s for s, schema in self.raw_schemas.items() if here or schema.columns]
        return {site: self.sums(site) for site in with_sums}

    def sums(self, client: str) -> SiteSums:
        """What a site on this machine tells before round 1."""
        sums = self.setting.sums(client, self.settings.data)
        return sums.without_rarity() if self.settings.dp else sums

    @cached_property
    def sizes(self) -> Sizes:
        return Sizes(self.method, self.settings.seed, self.final_clients, self.shape_of)

    def public_settings(self) -> RunSettings:
        """The settings without this machine's paths to the sites' files."""
        options = {**self.settings.options, **self.setting.public_options()}
        return self.settings.model_copy(update={"options": options})

    def samples(self, client: str) -> Any:
        """A client's data, split with the split seed."""
        if client not in self._samples:
            self._samples[client] = self.method.task.samples(self._client_data(client))
        return self._samples[client]

    def data_sha256(self, client: str) -> str | None:
        """SHA-256 of a client's data; None if they are on another machine."""
        return data_sha256(self._client_data(client)) if self.has_data_of(client) else None

    def _client_data(self, client: str) -> ClientData[Any, Any]:
        if client not in self.setting.source_of:
            raise unknown("client", client, self.clients)
        if client not in self._data:
            self._data[client] = data_of(self.setting, client, self._reading_of(client))
        return self._data[client]

    def kept_parts(self, client: str) -> KeptParts | None:
        """What an earlier run knew of the client's samples; None if there is no such knowledge."""
        if self.settings.start_from is None or self.kept_in is None:
            return None
        return load_parts(self.kept_in / client)

    def sample_parts(self, client: str) -> KeptParts:
        """The parts of a client's samples in this run; none for built-in data."""
        return self.setting.sample_parts(client, self._reading_of(client))

    def _reading_of(self, client: str) -> Reading:
        return replace(self.reading, kept=self.kept_parts(client) or KeptParts())

    @property
    def lives(self) -> bool:
        """Whether simulated clients stay in memory, and the run may go back to earlier rounds.

        Those with keys, a ledger or answers that they give once behave as deployed ones. If the
        first replies end a round, others are still at work between two rounds.
        """
        pace, settings = self.method.pace, self.settings
        in_order = pace is None or pace.simulated
        return in_order and not (settings.secure or settings.dp or settings.verified)

    @cached_property
    def reading(self) -> Reading:
        settings, prepared = self.settings, self.setting.user_defined
        preparation = self.preparation if prepared else None
        return Reading(settings.data, settings.split_seed, self.method.inputs, preparation)

    def has_data_of(self, client: str) -> bool:
        """Whether the client's data are on this machine."""
        return self.setting.data_of(client, self.settings.data) is not None

    def shape_of(self, client: str) -> Any:
        """The shape that the client's schema declares, or that of its samples."""
        task = self.method.task
        if client in self.schemas:
            return task.declared_shape(self.schemas[client], self.method.inputs)
        return task.shape(self.samples(client))

    @cached_property
    def _parts(self) -> NamedParts:
        return NamedParts.of(self.settings)

    @cached_property
    def _samples(self) -> dict[str, Any]:
        """Cache of the samples read so far."""
        return {}

    @cached_property
    def _data(self) -> dict[str, ClientData[Any, Any]]:
        """Cache of the data read so far, whose tensors the samples use."""
        return {}


def _in_unit(method: AssembledMethod, schemas: Mapping[str, Schema]) -> AssembledMethod:
    """The method with its task's numbers in the unit of the sites."""
    units = {schema.unit for schema in schemas.values()} - {""}
    if not units or not isinstance(method.task, TargetTask):
        return method
    return replace(method, task=replace(method.task, unit=method.task.unit or units.pop()))
