"""A regional coordinator: a server of its own SuperLink, and a SuperNode of the central one.

Flower hands the central server's messages to a client app, and the connection to the region's own
SuperLink to a server app, which are two programs. They exchange messages through a folder on the
region's machine, the mailbox. The client app has no state, and the server app only knows which node
is which client, so that both may be restarted at any time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from logging import INFO
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.common import log

from ramet.data.own import Preparation
from ramet.engine.server.regions import Region
from ramet.errors import RametError
from ramet.experiment import Experiment, RunSettings
from ramet.flower.mailbox import Mailbox
from ramet.flower.records import MAILBOX, REGION
from ramet.flower.wire import GridWire
from ramet.payload import Payload

_WAIT_SHARE = 0.8
_PAUSE = 0.05


def regional_deadline(settings: RunSettings) -> float:
    """How long a region waits for its clients, so that its own reply is in time."""
    return _WAIT_SHARE * settings.deadline


def coordinate(wire: GridWire, experiment: Experiment, config: Mapping[str, Any]) -> None:
    """Answer the central server's messages until the run is over."""
    name, mailbox = str(config[REGION]), Mailbox(Path(str(config[MAILBOX])))
    clients, deadline = experiment.regions[name], experiment.settings.deadline
    rounds = experiment.rounds(Path(str(config["folder"])) / "server", regional=True)
    log(INFO, "The region %s has %s clients", name, len(clients))
    closed_at = None
    while closed_at is None or time.monotonic() - closed_at < deadline:
        for request_name, request in mailbox.requests():
            wire.set_run(request.notes.get("run", ""), {}, Preparation())
            mailbox.reply(request_name, _answer(Region(rounds, wire), request))
            closed_at = None if request.numbers["train"] else time.monotonic()
        time.sleep(_PAUSE)


def _answer(region: Region, request: Payload) -> Payload | RametError:
    try:
        return region.answer(request)
    except RametError as error:
        return error


def passed_on(request: Payload, context: Context) -> Payload:
    """Pass the central server's message to the region's server app, and return its reply."""
    mailbox = Mailbox(Path(str(context.node_config[MAILBOX])))
    return mailbox.ask(request, float(context.run_config["deadline"]))
