"""The ClientApp of a site: does one round's work per message.

Over a SuperLink every message starts a new process, and `context.state` is lost when the SuperNode
restarts. Private state is therefore stored on the site's disk.

The SuperNode's node config describes the site: ``client`` is its name, ``state`` the folder for its
private state, ``data`` its data, ``key`` the private key that signs its replies, and ``settings``
the file with what it allows (see :mod:`ramet.flower.terms`). Flower's simulation sets none of
these: the partition id selects the client, and state is stored in the run's folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common import log

from ramet.data.own.preparation import Preparation, SiteSums
from ramet.data.own.problems import SiteDataError
from ramet.data.own.site import site_name
from ramet.engine.secure_messages import STEP as SUM_STEP
from ramet.engine.site.answered import NAME as ANSWERED
from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.client import Client
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.ledger import Ledger
from ramet.engine.site.limit import SiteLimit
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.protection import Protection
from ramet.engine.site.run_answers import ANSWERS, RunAnswers
from ramet.errors import RametError
from ramet.events import log_event, outcome_logged
from ramet.experiment import Experiment, RunSettings
from ramet.experiment.client_side import audit_log, client_of
from ramet.experiment.code import BUILT_IN
from ramet.experiment.digests import terms_digest
from ramet.experiment.start_at_site import start_at_site
from ramet.flower import new_rows
from ramet.flower.data_record import check_same_data, check_same_terms
from ramet.flower.guard import check_accepted, site_events, write_errors_kept_local
from ramet.flower.permission import (
    NotAllowedError,
    check_policy,
    check_round,
    permitted_settings,
    site_limit,
)
from ramet.flower.records import COLUMNS, PREPARATION, from_records, to_records
from ramet.flower.releases import RELEASE, use
from ramet.flower.run_config import asks_no_data, from_run_config, run_config_digest
from ramet.flower.sent_sums import SiteColumns
from ramet.flower.signing import INTRODUCTION, NONCE, RequestId, check_request, signed
from ramet.flower.site_charters import STEP, Due
from ramet.flower.terms import MEMBERS, POLICY, SETTINGS, site_policy, site_terms
from ramet.flower.thin_app import NEW_ROWS
from ramet.flower.verified_site import site_charters, verified
from ramet.payload import Payload
from ramet.policy import Policy, PolicyError

if TYPE_CHECKING:
    from ramet.engine.site.secure_site import SecureSite

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Reply with the name of this node's client and, for user-defined graphs, their schema."""
    with _outcome_logged(context) as facts:
        request = from_records(message.content)
        check_request(request, str(context.node_id), context.node_config)
        experiment, _, policy = _permitted(context)
        name = _name(context, experiment)
        facts |= {"client": name}
        starts_run = experiment.setting.user_defined and not asks_no_data(context.run_config)
        described = _described(experiment, name, policy) if starts_run else {}
        with write_errors_kept_local("write its state"):
            own = _site_columns(context, experiment, name)
            sums = own.once(described, policy)
            sums = sums.without_numbers() if experiment.settings.secure else sums
            told = {COLUMNS: sums.text()} if sums != SiteSums() else {}
            form = {kind: text for kind, text in described.items() if kind != COLUMNS}
            reply = Payload(notes={"client": name, **form, **told})
            if told:
                own.keep(sums.text(), reply, sums.in_words())
        signed_reply = _signed(reply, context, request, name, INTRODUCTION)
        return Message(to_records(signed_reply), reply_to=message)


@app.train()
def answer(message: Message, context: Context) -> Message:
    """Apply the received arrays, evaluate, train, and reply with what is shared."""
    with _outcome_logged(context) as facts:
        request = from_records(message.content)
        check_request(request, str(context.node_config.get("client")), context.node_config)
        for note, answer_step in _STEPS.items():
            if note in request.notes:
                return Message(to_records(answer_step(context, request)), reply_to=message)
        states = _states(context, request)
        experiment, limit, policy = _permitted(context, request.notes.get(PREPARATION, ""), states)
        torch.set_num_threads(experiment.settings.threads)
        number = check_round(request, experiment.settings)
        if SUM_STEP in request.notes and not experiment.settings.secure:
            raise NotAllowedError("`secure`: this run has no secure sums, so no steps of theirs.")
        name = _name(context, experiment)
        facts |= {"run": request.notes.get("run", ""), "round": number, "client": name}
        with write_errors_kept_local("write its state"):
            answered = _answered(context, request)
            if answered is not None:  # also if the data then gives a reason to refuse
                answered.begin(request, policy)
                check_same_terms(states / name, terms_digest(experiment))
            client = _client(experiment, name, states)
            audit = _audit(context, experiment, name, states)
            protection = replace(client.protection, limit=limit, policy=policy, audit=audit)
            protection = replace(protection, secure=_secured(protection, context))
            if _is_deployed(context):
                answers = RunAnswers(states / name / ANSWERS)
                private = _private(protection, context)
                protection = replace(protection, private=private, run_answers=answers)
                protection = replace(protection, answered=answered, deployed=True)
                protection = verified(protection, context.node_config, experiment, states)
            reply = replace(client, protection=protection).answer(request)
        facts["bytes"] = reply.nbytes
        signed_reply = _signed(reply, context, request, name, number)
        return Message(to_records(signed_reply), reply_to=message)


@contextmanager
def _outcome_logged(context: Context) -> Iterator[dict[str, Any]]:
    """Log the outcome of a message in the site's events; the server gets no details."""
    outcome = outcome_logged("message answered", "message failed", "message stopped")
    with _details_kept_local(SETTINGS in context.node_config), site_events(), outcome as facts:
        try:
            with _problems_kept_local():
                yield facts
        except (NotAllowedError, PolicyError) as error:
            log_event(ERROR, "run refused", **facts, reason=str(error))
            raise


@contextmanager
def _details_kept_local(is_site: bool) -> Iterator[None]:
    """Hide the text of unforeseen errors from the server, because it may quote data or paths."""
    try:
        yield
    except RametError:
        raise
    except Exception as error:
        if not is_site:
            raise
        log(ERROR, "This site could not answer a message.", exc_info=error)
        raise RametError(f"the site failed ({type(error).__name__}); see its log.") from None


def _described(experiment: Experiment, name: str, policy: Policy) -> dict[str, str]:
    """The site's schema and the sums of its columns; an empty schema if the data has problems.

    Whether a class is rare is sent with the sums only: a policy that keeps them hides it too.
    """
    setting, data = experiment.setting, experiment.settings.data
    try:
        with _problems_kept_local():
            schema, sums = setting.schema(name, data), setting.sums(name, data)
            is_silent = experiment.settings.dp or not policy.numbers.columns
            sums = sums.without_rarity() if is_silent else sums
    except SiteDataError:
        return {"form": ""}
    if sums == SiteSums():
        return {"form": schema.text()}
    if not policy.numbers.columns:
        raise PolicyError("`numbers.columns`: this site does not send the sums of its columns.")
    if experiment.settings.dp:
        raise NotAllowedError("`dp`: sums of columns would leave this site without noise.")
    return {"form": schema.text(), COLUMNS: sums.text()}


def _columns_step(context: Context, request: Payload) -> Payload:
    """What the site answers about sums of its columns under masks."""
    from ramet.experiment.client_side import secure_site  # these need an extra
    from ramet.flower.masked_columns import columns_answer

    experiment, _, policy = _permitted(context)
    if not experiment.settings.secure:
        raise NotAllowedError("`secure`: only runs with secure sums have columns under masks.")
    name, states = _name(context, experiment), _states(context, request, COLUMNS)
    with write_errors_kept_local("write its state"):
        secure = secure_site(experiment, name, states, "secure")
        own = _secured(Protection(secure=secure, policy=policy), context)
        assert own is not None
        sums = _site_columns(context, experiment, name)
        sent = sums.once(_described(experiment, name, policy), policy)
        reply = columns_answer(own, request, sent, sums.version)
        sums.keep(sent.text(), reply, sent.in_words(masked=True))
    number = int(request.numbers["round"])
    return _signed(reply, context, request, name, number)


def _site_columns(context: Context, experiment: Experiment, name: str) -> SiteColumns:
    folder, data = context.node_config.get("state"), experiment.settings.data
    return SiteColumns(
        site=name,
        method=experiment.settings.label,
        folder=Path(str(folder)) if folder else None,
        data=experiment.setting.data_of(name, data),
        run_config=run_config_digest(context.run_config),
    )


@contextmanager
def _problems_kept_local() -> Iterator[None]:
    """Log data problems at this node and hide them from the server, because they quote data."""
    try:
        yield
    except SiteDataError as error:
        log(ERROR, "The data of this site cannot be used: %s", error)
        log_event(ERROR, "data problem", reason="see this site's logs, or `ramet data check`")
        raise SiteDataError("the site's data has problems; see the site's log") from None


def _permitted(
    context: Context, preparation: str = "", states: Path | None = None
) -> tuple[Experiment, SiteLimit | None, Policy]:
    """The run, if the site's settings and policy permit it, the limit on what leaves, the policy.

    No data is read.
    """
    config, data = context.run_config, context.node_config.get("data")
    check_accepted({kind: str(config.get(kind, "")) for kind in BUILT_IN})
    terms, policy = site_terms(context.node_config), site_policy(context.node_config)
    if terms is None:
        settings = from_run_config({**config, "data": data or config["data"]})
    else:
        settings = permitted_settings(config, terms)
    charters = site_charters(context.node_config)
    if settings.verified and states is not None and charters is not None:
        seed = charters.signed(states.name).seed
        settings = settings.model_copy(update={"seed": seed})
    experiment = _experiment(settings, preparation, states)
    if settings.dp and experiment.preparation.types:
        raise NotAllowedError("`dp`: no noise covers sums of columns, so none are prepared.")
    check_policy(experiment, policy)
    return experiment, site_limit(experiment, terms, policy), policy


def _client(experiment: Experiment, name: str, states: Path) -> Client:
    """The site's client, if its data is the same as in the run's first round."""
    data = experiment.setting.data_of(name, experiment.settings.data)
    if experiment.setting.user_defined and data is not None:
        check_same_data(states / name, data)
        start_at_site(experiment, name, states)
    return client_of(experiment, name, states)


def _audit(context: Context, experiment: Experiment, name: str, states: Path) -> AuditLog:
    """The log of what leaves the site in a run, with the run config's digest."""
    log = audit_log(experiment, name, states)
    return replace(log, run_config=run_config_digest(context.run_config))


def _secured(protection: Protection, context: Context) -> SecureSite | None:
    """The site's side of secure sums, with its own keys if it is a member of a consortium."""
    config, simulated, policy = context.node_config, protection.secure, protection.policy
    if simulated is None:
        return None
    if MEMBERS in config and "key" in config:
        from ramet.engine.site.secure_site import deployed_site  # needs an extra

        key, members = Path(str(config["key"])), Path(str(config[MEMBERS]))
        return deployed_site(simulated, key, members, policy.members)
    if SETTINGS in config or policy.secure == "required":
        raise PolicyError("`secure`: this site has no key or no list of members for secure sums.")
    return simulated


def _release(context: Context, request: Payload) -> Payload:
    """What the site answers when it is told which run counts."""
    run, site = request.notes[RELEASE], str(context.node_config["client"])
    with write_errors_kept_local("write its state"):
        reply = use(run, site, Path(str(context.node_config["state"])), _states(context, request))
    return _signed(reply, context, request, site, INTRODUCTION)


def _new_rows(context: Context, request: Payload) -> Payload:
    """What the site answers when it is asked whether it has new rows."""
    experiment, _, policy = _permitted(context)
    name, states = _name(context, experiment), _states(context, request)
    log, state = _audit(context, experiment, name, states), states.parent.parent
    with write_errors_kept_local("write its state"):
        reply = new_rows.answer(experiment, name, state, log, policy)
    return _signed(reply, context, request, name, INTRODUCTION)


def _charter_step(context: Context, request: Payload) -> Payload:
    """What the site answers to a step of a charter: it may sign it."""
    from ramet.experiment.chain_parts import charter_quorum, charter_terms  # these need an extra
    from ramet.secure.identity import Identity, Peers

    experiment, _, policy = _permitted(context, request.notes.get(PREPARATION, ""))
    name, config = _name(context, experiment), context.node_config
    charters = site_charters(config)
    if charters is None:
        raise NotAllowedError("only a site that has joined a consortium signs charters.")
    with write_errors_kept_local("write its state"):
        identity = Identity.read(Path(str(config["key"])))
        peers = Peers.read(Path(str(config[MEMBERS])))
        due = Due(charter_terms(experiment), charter_quorum(experiment), experiment.clients)
        reply = charters.answer(request, identity, peers, due, policy)
    return _signed(reply, context, request, name, INTRODUCTION)


def _private(protection: Protection, context: Context) -> PrivateSite | None:
    """The deployed site's side of differential privacy, with its own noise and ledger."""
    simulated, ceiling = protection.private, protection.policy.privacy
    if simulated is None:
        return None
    state = context.node_config.get("state") or context.run_config["folder"]
    ledger = Ledger(Path(str(state)) / LEDGER)
    return replace(simulated, ledger=ledger, ceiling=ceiling, deployed=True)


def _is_deployed(context: Context) -> bool:
    """Whether the site is on its own; a simulation keeps all states in the run's folder."""
    config, folder = context.node_config, context.run_config["folder"]
    return SETTINGS in config or (config.get("state") or folder) != folder


def _answered(context: Context, request: Payload) -> Answered | None:
    """The run in what the site has answered; None for a node without a policy."""
    config = context.node_config
    if POLICY not in config or not config.get("state"):
        return None
    return Answered(Path(str(config["state"])) / ANSWERED, request.notes["run"])


def _experiment(settings: RunSettings, preparation: str, states: Path | None) -> Experiment:
    return _cached_experiment(settings.model_dump_json(), preparation, states)


@lru_cache(maxsize=4)
def _cached_experiment(settings: str, preparation: str, states: Path | None) -> Experiment:
    """Read data once in processes that answer several messages, as in a simulation."""
    agreement = Preparation.parse(preparation) if preparation else Preparation()
    return Experiment(RunSettings.model_validate_json(settings), None, agreement, states)


def _name(context: Context, experiment: Experiment) -> str:
    config = context.node_config
    if "client" in config:
        return str(config["client"])
    if "partition-id" in config:
        return experiment.clients[int(config["partition-id"])]
    if experiment.setting.user_defined:
        return site_name(experiment.settings.data)
    raise RametError(
        "this SuperNode's config does not name its client. Start it with "
        '--node-config \'client="NAME" state="FOLDER"\'.'
    )


def _signed(
    reply: Payload, context: Context, request: Payload, name: str, round_number: int
) -> Payload:
    """Sign the reply if the site has a key; the coordinator decides if a signature is needed."""
    key = context.node_config.get("key")
    if not key:
        return reply
    notes = request.notes
    request_id = RequestId(notes.get("run", ""), name, round_number, notes.get(NONCE, ""))
    return signed(reply, request_id, Path(str(key)))


def _states(context: Context, request: Payload, kind: str = "clients") -> Path:
    """The folder for this run's private state; every run has its own."""
    run = request.notes.get("run", "")
    if not re.fullmatch(r"[0-9a-f]{32}|[0-9a-f]{64}", run):
        raise RametError(f"expected the run's name as 32 or 64 hex digits, received '{run}'.")
    folder = context.node_config.get("state") or context.run_config["folder"]
    if not folder:
        raise RametError(
            'this SuperNode has no folder for its state. Add state="FOLDER" to its --node-config.'
        )
    return Path(str(folder)) / kind / run


_STEPS = {COLUMNS: _columns_step, RELEASE: _release, NEW_ROWS: _new_rows, STEP: _charter_step}
"""What a site answers besides the messages of a round, by the note that asks for it."""
