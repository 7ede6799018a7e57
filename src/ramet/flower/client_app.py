"""A site's side of Flower: one message in, one round's work, one message out.

Over a SuperLink every message starts a fresh process, and `context.state` is lost when the
SuperNode restarts: so private state lies on the site's own disk.

The SuperNode's node config says who the site is: ``client`` its name, ``state`` the folder for its
private state, ``data`` its data, ``key`` the private key that signs its replies. In Flower's
simulation there is none; there the partition's number picks the client, and state lies in the run's
folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from logging import ERROR
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common import log

from ramet.data.own import UnfitError, site_name
from ramet.errors import RametError
from ramet.events import ending, tell
from ramet.experiment import Experiment, RunSettings
from ramet.flower.guard import check_accepted, site_events
from ramet.flower.records import from_records, from_run_config, to_records
from ramet.flower.signing import INTRODUCTION, NONCE, Occasion, signed
from ramet.payload import Payload

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Tell the server which client this node is, and the form of its graphs if they are its own."""
    with _answering() as facts:
        with _problems_stay_here():
            experiment = _experiment(_settings(context))
            name = _name(context, experiment)
        facts |= {"client": name}
        form = {"form": _form(experiment, name)} if experiment.setting.user_defined else {}
        asked, who = from_records(message.content), Payload(notes={"client": name, **form})
        told = _signed(who, context, asked, name, INTRODUCTION)
        return Message(to_records(told), reply_to=message)


@contextmanager
def _answering() -> Iterator[dict[str, Any]]:
    """The site notes how each message ended."""
    answered = ending("message answered", "message failed", "message stopped")
    with site_events(), answered as facts:
        yield facts


def _form(experiment: Experiment, name: str) -> str:
    """Empty where the data have problems."""
    try:
        with _problems_stay_here():
            return experiment.setting.schema(name, experiment.settings.data).text()
    except UnfitError:
        return ""


@contextmanager
def _problems_stay_here() -> Iterator[None]:
    """Problems quote data, so they go into this node's log and not to the server."""
    try:
        yield
    except UnfitError as error:
        log(ERROR, "The data of this site cannot be used: %s", error)
        tell(ERROR, "data problem", reason="see this site's logs, or `ramet data check`")
        raise UnfitError("the site's data have problems; see its own log") from None


@app.train()
def answer(message: Message, context: Context) -> Message:
    """Lay over what arrived, judge it, train, send what is shared."""
    with _answering() as facts:
        settings = _settings(context)
        torch.set_num_threads(settings.threads)
        experiment = _experiment(settings)
        asked = from_records(message.content)
        number = int(asked.numbers["round"])
        with _problems_stay_here():
            name = _name(context, experiment)
            facts |= {"run": asked.notes.get("run", ""), "round": number, "client": name}
            node = experiment.node(name, _states(context, asked))
        reply = node.answer(asked)
        facts["bytes"] = reply.nbytes
        told = _signed(reply, context, asked, name, number)
        return Message(to_records(told), reply_to=message)


def _settings(context: Context) -> RunSettings:
    named = {kind: str(context.run_config.get(kind, "")) for kind in ("activation", "merge")}
    check_accepted(str(context.run_config["method"]), **named)
    settings = from_run_config(context.run_config)
    data = context.node_config.get("data")
    return settings.model_copy(update={"data": Path(str(data))}) if data else settings


def _experiment(settings: RunSettings) -> Experiment:
    return _kept_experiment(settings.model_dump_json())


@lru_cache(maxsize=4)
def _kept_experiment(settings: str) -> Experiment:
    """A process that answers several messages, as in a simulation, reads its data once."""
    return Experiment(RunSettings.model_validate_json(settings))


def _name(context: Context, experiment: Experiment) -> str:
    config = context.node_config
    if "client" in config:
        return str(config["client"])
    if "partition-id" in config:
        return experiment.clients[int(config["partition-id"])]
    if experiment.setting.user_defined:
        return site_name(experiment.settings.data)
    raise RametError(
        "this SuperNode does not say which client it is. Start it with "
        '--node-config \'client="NAME" state="FOLDER"\'.'
    )


def _signed(
    reply: Payload, context: Context, asked: Payload, name: str, round_number: int
) -> Payload:
    """Signed where the site has a key; whether that is needed is the coordinator's to say."""
    key = context.node_config.get("key")
    if not key:
        return reply
    notes = asked.notes
    occasion = Occasion(notes.get("run", ""), name, round_number, notes.get(NONCE, ""))
    return signed(reply, occasion, Path(str(key)))


def _states(context: Context, asked: Payload) -> Path:
    """Where this run's private state lies; runs never see each other's."""
    run = asked.notes.get("run", "")
    if not re.fullmatch(r"[0-9a-f]{32}", run):
        raise RametError(f"the server named the run '{run}', which is no run's name.")
    folder = context.node_config.get("state") or context.run_config["folder"]
    if not folder:
        raise RametError('this SuperNode has no folder for state. Give state="FOLDER".')
    return Path(str(folder)) / "clients" / run
