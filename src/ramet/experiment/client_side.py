"""The clients of a run: each built from its components, with what protects its data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ramet.engine.processes.devices import compute_device
from ramet.engine.site.audit import NAME as AUDIT
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.client import Client
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.ledger import Ledger
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.protection import Protection
from ramet.engine.site.run_answers import ANSWERS, RunAnswers
from ramet.engine.store.checkpoint import KEPT, Snapshots
from ramet.experiment.digests import agreed_digest
from ramet.experiment.experiment import Experiment
from ramet.experiment.noise_share import noise_share, smallest_sum
from ramet.experiment.site_record import NAME as SITE_RECORD
from ramet.experiment.site_record import PARTS, SiteRecord, save_parts

if TYPE_CHECKING:
    from ramet.engine.site.secure_site import SecureSite
    from ramet.engine.site.site_chain import SiteChain

_PRIVATE = "private"
"""The folder of a client's noisy sums, in runs with differential privacy per link."""
_SECURE = "secure"
"""The folder of a client's keys in secure sums."""


def client_of(experiment: Experiment, client: str, states: Path) -> Client:
    """A client that saves its state below ``states``, a folder named after the run."""
    _keep_record(experiment, client, states / client)
    return Client(
        name=client,
        method=experiment.scored_method,
        samples=experiment.samples(client),
        seed=experiment.settings.seed,
        snapshots=Snapshots(states / client, keep=KEPT * (len(experiment.method.stages) + 1)),
        device=compute_device(experiment.settings.device),
        protection=_protection(experiment, client, states),
    )


def audit_log(experiment: Experiment, client: str, states: Path) -> AuditLog:
    """The log of what leaves a client."""
    return AuditLog(
        states / client / AUDIT,
        states.name,
        client,
        method=experiment.settings.label,
        sharing=str(experiment.method.shared),
        data=str(experiment.setting.data_of(client, experiment.settings.data)),
    )


def _keep_record(experiment: Experiment, client: str, state: Path) -> None:
    """Keep what a site with its own data needs to predict, when its run begins.

    A run with scales that do not fit the data does not begin.
    """
    setting = experiment.setting
    if not setting.user_defined:
        return
    if not (state / SITE_RECORD).exists():
        setting.check_scales(client, experiment.reading)
    if not (state / PARTS).exists():
        save_parts(state, experiment.sample_parts(client))
    if not (state / SITE_RECORD).exists():
        SiteRecord(
            settings=experiment.settings,
            site_schema=setting.schema(client, experiment.settings.data),
            preparation=experiment.preparation,
            ranges=setting.ranges(client, experiment.reading),
        ).save(state)


def _protection(experiment: Experiment, client: str, states: Path) -> Protection:
    """What protects a client's data in a simulation: as at a site, but from the seed."""
    settings, audited = experiment.settings, experiment.setting.user_defined
    return Protection(
        clients=len(experiment.clients),
        secure=secure_site(experiment, client, states, _SECURE) if settings.secure else None,
        chain=_chain(experiment, client, states) if settings.verified else None,
        private=_private_site(experiment, client, states),
        run_answers=RunAnswers(states / client / ANSWERS) if settings.dp else None,
        audit=audit_log(experiment, client, states) if audited else None,
    )


def secure_site(experiment: Experiment, client: str, states: Path, kept_in: str) -> SecureSite:
    """A site whose keys are drawn from the seed, for simulations."""
    from ramet.engine.site.secure_site import simulated_site  # needs an extra

    folder = states / client / kept_in
    seed, config = experiment.settings.seed, agreed_digest(experiment)
    site = simulated_site(client, states.name, folder, seed, experiment.clients, config)
    return replace(site, members=replace(site.members, survivors=smallest_sum(experiment)))


def _chain(experiment: Experiment, client: str, states: Path) -> SiteChain:
    from ramet.experiment.chain_parts import simulated_chain  # needs an extra

    return simulated_chain(experiment, client, states)


def _private_site(experiment: Experiment, client: str, states: Path) -> PrivateSite | None:
    """A site whose noise is drawn from the seed, for simulations."""
    budget = experiment.settings.budget
    if budget is None:
        return None
    return PrivateSite(
        budget=budget,
        rounds=experiment.settings.rounds,
        run=states.name,
        data=experiment.data_sha256(client) or "",
        folder=states / client / _PRIVATE,
        ledger=Ledger(states / client / LEDGER),
        share=noise_share(experiment),
    )
