"""What is known of a run before round 1, and the files of its folder that say it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.data.own.preparation import distant_sums
from ramet.disk import write_atomically
from ramet.engine.site.audit import INTRODUCTIONS, AuditLog
from ramet.engine.site.audit import NAME as AUDIT
from ramet.experiment.experiment import Experiment
from ramet.experiment.files import write_json
from ramet.metrics.summary import Baseline
from ramet.models.link_reading import values_in, values_read
from ramet.models.networks import NETWORKS, reads_value
from ramet.payload import Payload
from ramet.version import provenance, versions

if TYPE_CHECKING:
    from ramet.secure.charter import SignedCharter  # needs an extra

VERSIONS = "versions.json"
SPLIT = "split.json"
BASELINES = "baselines.json"
REMARKS = "remarks.json"
SCHEMAS = "sites.json"
PREPARATION = "preparation.json"
DATA = "data"
"""The hash of all clients' data among the versions."""
DATA_SHA256 = "data_sha256"
"""The hash of a client's data in the manifest."""


def write_facts(experiment: Experiment, path: Path, charter: SignedCharter | None = None) -> None:
    """Write what is known of a run into its folder, the run's name first.

    It is the identity of the charter that sites have signed, if they have.
    """
    known = manifest(experiment)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    name = charter.charter.identity if charter else uuid.uuid4().hex
    about = {"run": name, "started": started, **versions(), **provenance()}
    hashes = {client: facts.get(DATA_SHA256) for client, facts in known["clients"].items()}
    data = hash_of_all(hashes)
    write_json(path / VERSIONS, about | ({DATA: data} if data else {}))
    write_json(path / SPLIT, known)
    if experiment.settings.verified:
        from ramet.experiment.chain_parts import CHARTER, charter_of_simulation  # needs an extra

        signed = charter or charter_of_simulation(experiment, name).signed()
        write_atomically(path / CHARTER, signed.text())
    baselines = _baselines(experiment)
    write_json(path / BASELINES, {site: one.model_dump() for site, one in baselines.items()})
    if remarks := _remarks(experiment):
        write_json(path / REMARKS, {"data": remarks})
    if experiment.raw_schemas:
        schemas = {site: schema.model_dump() for site, schema in experiment.raw_schemas.items()}
        write_json(path / SCHEMAS, schemas)
        write_json(path / PREPARATION, experiment.preparation.model_dump(mode="json"))
        if experiment.settings.engine != "superlink":  # there, each site logs it
            _log_introductions(experiment, path, str(about["run"]))


def manifest(experiment: Experiment) -> dict[str, Any]:
    """Which client holds which samples, with hashes: equal manifests mean equal data."""
    return {
        "setting": experiment.settings.shown_setting,
        "split_seed": experiment.settings.split_seed,
        "clients": {
            client: {
                "source": experiment.setting.source_of[client],
                **(_samples_of(experiment, client) if experiment.has_data_of(client) else {}),
            }
            for client in experiment.final_clients
        },
    }


def _samples_of(experiment: Experiment, client: str) -> dict[str, Any]:
    return {DATA_SHA256: experiment.data_sha256(client), **experiment.samples(client).manifest}


def hash_of_all(hashes: Mapping[str, str | None]) -> str | None:
    """A hash of the data of all clients; None if some of it is on other machines."""
    if None in hashes.values():
        return None
    return hashlib.sha256(json.dumps(dict(hashes), sort_keys=True).encode()).hexdigest()


def _baselines(experiment: Experiment) -> dict[str, Baseline]:
    """The baseline of each client whose data is on this machine."""
    task = experiment.scored_method.task
    found = {
        client: task.baseline(experiment.samples(client))
        for client in experiment.final_clients
        if experiment.has_data_of(client)
    }
    return {client: one for client, one in found.items() if one is not None}


def _remarks(experiment: Experiment) -> list[str]:
    """What users may want to know about the data on this machine."""
    of_sites = [
        remark
        for client in experiment.final_clients
        if experiment.has_data_of(client)
        for remark in experiment.setting.remarks(client, experiment.reading)
    ]
    in_the_open = not experiment.settings.secure
    distant = distant_sums(experiment.told) if in_the_open else ()
    return [*of_sites, *distant, *_ignored(experiment)]


def _ignored(experiment: Experiment) -> Iterator[str]:
    """What links on this machine carry and the network does not read."""
    model = experiment.method.model
    read, by_client = values_read(model), {}
    for client in experiment.final_clients:
        if experiment.has_data_of(client):
            by_client[client] = values_in(experiment.samples(client)) - read
    ignored = sorted(frozenset().union(*by_client.values()))
    if not ignored:
        return
    clients = ", ".join(client for client, values in by_client.items() if values)
    suited = "; ".join(
        f"{value}: {', '.join(name for name in NETWORKS if reads_value(name, value))}"
        for value in ignored
    )
    name = experiment.settings.network or getattr(model, "func", model).__name__
    yield (
        f"the network {name} ignores the {' and '.join(ignored)} of links, which {clients} "
        f"{'has' if len(by_client) == 1 else 'have'}. Networks that read them: {suited}"
    )


def _log_introductions(experiment: Experiment, path: Path, run: str) -> None:
    """Log what sites told before round 1: the sums of columns, and whether a class is rare."""
    settings = experiment.settings
    for client, told in _introductions(experiment).items():
        audit = AuditLog(
            path / INTRODUCTIONS / AUDIT,
            run=run,
            client=client,
            method=settings.label,
            sharing=str(experiment.method.shared),
            data=str(experiment.setting.data_of(client, settings.data)),
        )
        audit.add(0, Payload(), "introduction", told)


def _introductions(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """What the sites on this machine tell before round 1, in words; only those that do."""
    own = experiment.setting.user_defined
    here = [client for client in experiment.clients if own and experiment.has_data_of(client)]
    masked = experiment.settings.secure
    words = {client: experiment.sums(client).in_words(masked) for client in here}
    return {client: told for client, told in words.items() if told}
