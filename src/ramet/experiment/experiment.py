"""Build the components of a run from its settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ramet.data import ClientData
from ramet.data.fingerprint import data_sha256
from ramet.data.own import KeptParts, Preparation, Schema, SiteSums, agreed, distant_sums
from ramet.engine.processes.devices import compute_device
from ramet.engine.server.rounds import Rounds, ServerEvaluation
from ramet.engine.site.audit import NAME as AUDIT
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.client import Client
from ramet.engine.site.kept_models import evaluated_model, final_model
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.ledger import Ledger
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.protection import Protection
from ramet.engine.site.run_answers import ANSWERS, RunAnswers
from ramet.engine.start import START, new_model, start_model, state_names
from ramet.engine.store.checkpoint import KEPT, Snapshots
from ramet.engine.store.client_state import load_arrays
from ramet.engine.store.recent_snapshots import RecentSnapshots
from ramet.errors import RametError, unknown
from ramet.experiment.code import check_code
from ramet.experiment.named import NamedParts, with_metric
from ramet.experiment.settings import RunSettings
from ramet.experiment.site_record import NAME as SITE_RECORD
from ramet.experiment.site_record import PARTS, SiteRecord, load_parts, save_parts
from ramet.experiment.sizes import Sizes
from ramet.metrics.classification import Evaluation, evaluate
from ramet.metrics.summary import Baseline
from ramet.partition import Reading, Setting
from ramet.payload import Arrays
from ramet.randomness import EVERYONE, Randomness
from ramet.rules.method import AssembledMethod
from ramet.rules.server import SERVER
from ramet.run_options import RUN_OPTIONS, Engine
from ramet.tasks import TASK_METRICS
from ramet.tasks.base import Predictions
from ramet.tasks.baselines import baseline

if TYPE_CHECKING:
    from ramet.engine.site.secure_site import SecureSite

DATA_SHA256 = "data_sha256"
"""The hash of a client's data in the manifest."""
PRIVATE = "private"
"""The folder of a client's noisy sums, in runs with differential privacy per link."""
SECURE = "secure"
"""The folder of a client's keys in secure sums."""
_AGREED = {name for name, one in RUN_OPTIONS.items() if one.option.concerns_clients}
"""The settings that the members of a secure sum must have in common."""
_RETRY_DELAYS: dict[Engine, tuple[float, ...]] = {
    "local": (),  # in the same process a retry would end the same way
    "ray": (0.0, 0.0),
    "superlink": (5.0, 65.0),  # a restarted SuperNode is refused for up to a minute
}


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
        return with_metric(method, settings.metric, self._metric_of(self.agreement))

    @cached_property
    def scored_method(self) -> AssembledMethod:
        """The method with the metric of the run, which sites with own data agree on.

        Until they have done so, `method` has the default.
        """
        if self.agreement is not None or not self.setting.user_defined:
            return self.method
        metric = self.settings.metric
        return with_metric(self.method, metric, self._metric_of(self.preparation))

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
        return agreed(self.told) if self.agreement is None else self.agreement

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

    def introductions(self) -> dict[str, tuple[str, ...]]:
        """What the sites on this machine tell before round 1, in words; only those that do."""
        here = [c for c in self.clients if self.setting.user_defined and self._has_data_of(c)]
        words = {client: self.sums(client).in_words() for client in here}
        return {client: told for client, told in words.items() if told}

    @cached_property
    def sizes(self) -> Sizes:
        return Sizes(self.method, self.settings.seed, self.final_clients, self._shape)

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
        return data_sha256(self._client_data(client)) if self._has_data_of(client) else None

    def _client_data(self, client: str) -> ClientData[Any, Any]:
        if client not in self.setting.source_of:
            raise unknown("client", client, self.clients)
        if client not in self._data:
            self._data[client] = self.setting.client_data(client, self._reading_of(client))
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

    def client(self, client: str, states: Path) -> Client:
        """A client that saves its state below ``states``, a folder named after the run."""
        self._keep_record(client, states / client)
        return Client(
            name=client,
            method=self.scored_method,
            samples=self.samples(client),
            seed=self.settings.seed,
            snapshots=Snapshots(states / client, keep=KEPT * (len(self.method.stages) + 1)),
            device=compute_device(self.settings.device),
            protection=self._protection(client, states),
            recent=self._recent_snapshots,
        )

    def _protection(self, client: str, states: Path) -> Protection:
        """What protects a client's data in a simulation: as at a site, but from the seed."""
        return Protection(
            clients=len(self.clients),
            secure=self._secure_site(client, states) if self.settings.secure else None,
            private=self._private_site(client, states),
            run_answers=RunAnswers(states / client / ANSWERS) if self.settings.dp else None,
            audit=AuditLog(
                states / client / AUDIT,
                states.name,
                client,
                method=self.settings.label,
                sharing=str(self.method.shared),
                data=str(self.setting.data_of(client, self.settings.data)),
            ),
        )

    def _keep_record(self, client: str, state: Path) -> None:
        """Keep what a site with its own data needs to predict, when its run begins.

        A run with scales that do not fit the data does not begin.
        """
        if not self.setting.user_defined:
            return
        if not (state / SITE_RECORD).exists():
            self.setting.check_scales(client, self.reading)
        if not (state / PARTS).exists():
            save_parts(state, self.sample_parts(client))
        if not (state / SITE_RECORD).exists():
            SiteRecord(
                settings=self.settings,
                site_schema=self.setting.schema(client, self.settings.data),
                preparation=self.preparation,
                ranges=self.setting.ranges(client, self.reading),
            ).save(state)

    def _secure_site(self, client: str, states: Path) -> SecureSite:
        """A site whose keys are drawn from the seed, for simulations."""
        from ramet.engine.site.secure_site import simulated_site  # needs an extra

        folder = states / client / SECURE
        seed, config = self.settings.seed, self._agreed_digest
        return simulated_site(client, states.name, folder, seed, self.clients, config)

    @cached_property
    def _agreed_digest(self) -> str:
        """SHA-256 of everything that decides what a client sends, besides its data."""
        return self._digest(_AGREED)

    def terms_digest(self) -> str:
        """SHA-256 of what may not change in a run, also if it gets more rounds."""
        return self._digest(_AGREED - {"rounds"} | {"secure"})

    def _digest(self, names: set[str]) -> str:
        settings = self.public_settings().model_dump(mode="json", include=names)
        settings["options"].pop("task", None)  # decided by the method; not all sites know it
        prepared = self.preparation.model_dump(mode="json") if self.setting.user_defined else {}
        text = json.dumps([settings, prepared], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _private_site(self, client: str, states: Path) -> PrivateSite | None:
        """A site whose noise is drawn from the seed, for simulations."""
        budget = self.settings.budget
        if budget is None:
            return None
        return PrivateSite(
            budget=budget,
            rounds=self.settings.rounds,
            run=states.name,
            data=self.data_sha256(client) or "",
            folder=states / client / PRIVATE,
            ledger=Ledger(states / client / LEDGER),
        )

    def final_model(self, client: str, states: Path) -> nn.Module:
        """A client's final model, from the folder in which it saved its state."""
        seed = self.settings.seed
        return final_model(self.method, self._shape(client), seed, client, states / client)

    def evaluated_model(self, client: str, states: Path, number: int) -> nn.Module:
        """A client's model of an evaluated round, if it was kept as one of the best."""
        shape, seed = self._shape(client), self.settings.seed
        return evaluated_model(self.method, shape, seed, client, states / client, number)

    def predictions(self, client: str, model: nn.Module) -> dict[str, Predictions]:
        """What a model predicts for a client's held-out samples, by part of its split."""
        return self.method.task.predictions(model, self.samples(client), torch.device("cpu"))

    @property
    def has_known_metric(self) -> bool:
        """Whether the task is scored as the built-in ones are; a user-defined one may not be."""
        return self.scored_method.task.metric in TASK_METRICS[self.method.task.name]

    def evaluation(self, client: str, model: nn.Module) -> dict[str, Evaluation]:
        """All metrics of a model on a client's held-out data, by part of its split with samples."""
        if not self.has_known_metric:
            raise RametError(
                f"the task of {self.method.name} is scored by {self.method.task.metric}, which is "
                f"none of {', '.join(TASK_METRICS[self.method.task.name])}, so its predictions are "
                "not those of a classifier. Its own scores are in result.json."
            )
        known = self.schemas[client].classes if client in self.schemas else ()
        return {
            part: evaluate(
                given.labels,
                given.probabilities,
                known or [*map(str, range(given.probabilities.shape[1]))],
                given.majority,
            )
            for part, given in self.predictions(client, model).items()
            if given.labels.size
        }

    def rounds(self, snapshots: Path, regional: bool = False) -> Rounds:
        """The server's side of the run; a ``regional`` coordinator evaluates nothing itself."""
        return Rounds(
            method=self.scored_method,
            clients=self.clients,
            rounds=self.settings.rounds,
            seed=self.settings.seed,
            start=self._shared_start(snapshots),
            snapshots=Snapshots(snapshots, keep=KEPT * (len(self.method.stages) + 1)),
            evaluate_server=None if regional else self._server_evaluation(),
            quorum=self.settings.quorum,
            retry_delays=_RETRY_DELAYS[self.settings.engine],
            patience=self.settings.patience,
            norm_bound=self.settings.norm_bound,
            extras=self.sizes.start_extras(),
            buffers=self.sizes.buffers(),
            network=self._server_network,
            shape=self.sizes.server_shape,
            device=compute_device(self.settings.device),
            secure=self.settings.secure,
            config=self._agreed_digest,
            final_clients=self.final_clients,
        )

    def _shared_start(self, snapshots: Path) -> Arrays:
        """The shared arrays before round 1, taken from another run or drawn from the seed."""
        taken = Snapshots(snapshots / START).latest_valid()
        return taken.arrays if taken else self.sizes.shared_start()

    def start_model(self, client: str) -> nn.Module:
        """A client's model before round 1, as drawn from the seed."""
        return start_model(self.method, self._shape(client), self.settings.seed, client)

    def _server_network(self) -> nn.Module:
        """A network with the arrays that all clients start with."""
        seed, shape = self.settings.seed, self.sizes.server_shape
        model = start_model(self.method, shape, seed, EVERYONE)
        private = [name for name in state_names(model) if not self._is_common(name)]
        if private:
            raise RametError(
                f"the server has no network: '{private[0]}' is private. A rule that trains at the "
                "server needs a method that shares all arrays in both directions."
            )
        return model.to(compute_device(self.settings.device))

    def _is_common(self, name: str) -> bool:
        """Whether the server has the array."""
        return name in self.method.shared and name in self.method.down

    def manifest(self) -> dict[str, Any]:
        """Which client holds which samples, with hashes: equal manifests mean equal data."""
        return {
            "setting": self.settings.setting,
            "split_seed": self.settings.split_seed,
            "clients": {
                client: {
                    "source": self.setting.source_of[client],
                    **(self._facts_of(client) if self._has_data_of(client) else {}),
                }
                for client in self.final_clients
            },
        }

    def _facts_of(self, client: str) -> dict[str, Any]:
        return {DATA_SHA256: self.data_sha256(client), **self.samples(client).manifest}

    def baselines(self) -> dict[str, Baseline]:
        """The baseline of each client whose data is on this machine."""
        metric = self.scored_method.task.metric
        found = {
            client: baseline(self.samples(client), metric)
            for client in self.final_clients
            if self._has_data_of(client)
        }
        return {client: one for client, one in found.items() if one is not None}

    def remarks(self) -> list[str]:
        """What users may want to know about the data on this machine."""
        here = [client for client in self.final_clients if self._has_data_of(client)]
        of_sites = [one for client in here for one in self.setting.remarks(client, self.reading)]
        return [*of_sites, *distant_sums(self.told)]

    @cached_property
    def reading(self) -> Reading:
        settings, prepared = self.settings, self.setting.user_defined
        preparation = self.preparation if prepared else None
        return Reading(settings.data, settings.split_seed, self.method.inputs, preparation)

    def _has_data_of(self, client: str) -> bool:
        return self.setting.data_of(client, self.settings.data) is not None

    def _shape(self, client: str) -> Any:
        """The shape that the client's schema declares, or that of its samples."""
        task = self.method.task
        if client in self.schemas:
            return task.declared_shape(self.schemas[client], self.method.inputs)
        return task.shape(self.samples(client))

    def _server_evaluation(self) -> ServerEvaluation | None:
        """None unless the whole model is shared and the setting provides the pooled data.

        None also if links are protected: the pooled graph has all of them, without noise.
        """
        data, budget = self.setting.overview(self.reading), self.settings.budget
        if data is None or (budget is not None and budget.unit == "link"):
            return None
        task, device = self.method.task, compute_device(self.settings.device)
        samples = task.samples(data)
        model = new_model(self.method, task.shape(samples), self.settings.seed).to(device)
        if not all(map(self._is_common, state_names(model))):
            return None

        def evaluate(arrays: Arrays) -> Mapping[str, float]:
            load_arrays(model, arrays)
            scores = {
                **task.evaluate(model, samples, device),
                **task.extra_scores(model, samples, device),
            }
            return {name: score for name, score in scores.items() if score is not None}

        return evaluate

    @cached_property
    def _parts(self) -> NamedParts:
        return NamedParts.of(self.settings)

    @cached_property
    def _recent_snapshots(self) -> RecentSnapshots:
        return RecentSnapshots()

    @cached_property
    def _samples(self) -> dict[str, Any]:
        """Cache of the samples read so far."""
        return {}

    @cached_property
    def _data(self) -> dict[str, ClientData[Any, Any]]:
        """Cache of the data read so far, whose tensors the samples use."""
        return {}
