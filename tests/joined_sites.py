"""A site that has joined a consortium, and messages to its client app, in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from own_sites import node_site
from ramet.deploy.consortium import write
from ramet.deploy.coordinator import SIGNING_CERTIFICATE, SIGNING_KEY, Coordinator
from ramet.deploy.init import init
from ramet.deploy.site import SETTINGS, Site, join, node_config
from ramet.engine.messages import request
from ramet.flower.client_app import app
from ramet.flower.guard import EVENTS_VARIABLE, LIST_VARIABLE
from ramet.flower.records import from_records, to_records
from ramet.flower.run_config import to_run_config
from ramet.flower.signing import INTRODUCTION, CoordinatorKey, RequestId, fresh_nonce
from ramet.flower.terms import Allow
from ramet.payload import Payload

RUN = "0" * 32
NODE = 1
"""Flower's id of the site's node."""
SITES = ("north", "south")


@dataclass(frozen=True)
class Joined:
    """A site and its coordinator, whose run config can be changed."""

    coordinator: Coordinator
    site: Site

    def allow(self, **changes: Any) -> None:
        """Change [allow] in the site's settings, as its owner does in an editor."""
        settings = Site.open(self.site.folder).settings
        write(self.site.folder / SETTINGS, settings.model_copy(update={"allow": Allow(**changes)}))

    def config(self, **changes: Any) -> dict[str, Any]:
        """The run config of the consortium, with changes."""
        settings = self.coordinator.consortium.settings(Path("absent"))
        changed = {name.replace("_", "-"): value for name, value in changes.items()}
        return {**to_run_config(settings, Path("runs")), "keys": "keys", **changed}

    def send(
        self,
        config: Mapping[str, Any],
        kind: str = MessageType.TRAIN,
        notes: Mapping[str, str] | None = None,
        without: str = "",
        **numbers: Any,
    ) -> Payload:
        """Send a signed message of round 1 to the client app, and return its reply.

        ``without`` names a key that the node config lacks.
        """
        return self.deliver(self.signed_request(kind, notes, **numbers), config, kind, without)

    def signed_request(
        self,
        kind: str = MessageType.TRAIN,
        notes: Mapping[str, str] | None = None,
        **numbers: Any,
    ) -> Payload:
        """A request of round 1, signed by the coordinator."""
        given = {**request(1, True, {}).numbers, **numbers} if kind == MessageType.TRAIN else {}
        return self.signed(Payload({}, given, {**(notes or {})}), kind)

    def signed(self, unsigned: Payload, kind: str = MessageType.TRAIN) -> Payload:
        """The request as the coordinator sends it to this site."""
        notes = {"run": RUN, "nonce": fresh_nonce(), **unsigned.notes}
        receiver = self.site.settings.site if kind == MessageType.TRAIN else str(NODE)
        number = unsigned.numbers.get("round", INTRODUCTION)
        request_id = RequestId(notes["run"], receiver, number, notes["nonce"])
        return self.key.signed(replace(unsigned, notes=notes), request_id)

    @property
    def key(self) -> CoordinatorKey:
        folder = self.coordinator.folder
        return CoordinatorKey(folder / SIGNING_KEY, folder / SIGNING_CERTIFICATE)

    def deliver(
        self,
        sent: Payload,
        config: Mapping[str, Any],
        kind: str = MessageType.TRAIN,
        without: str = "",
    ) -> Payload:
        """Hand a request to the client app, and return its reply."""
        node: dict[str, Any] = {**node_config(self.site.settings)}
        node.pop(without, None)
        context = Context(1, NODE, node, RecordDict(), {**config})
        with _inside(self.site.folder):
            return from_records(app(Message(to_records(sent), NODE, kind), context).content)


def joined_site(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: Mapping[str, str] | None = None,
    **settings: Any,
) -> Joined:
    """Set up a consortium of two sites with patients, one of which has joined."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    consortium = {
        "name": "test",
        "address": "localhost",
        "sites": [*SITES],
        "method": "fedavg",
        "network": "gcn",
        "rounds": 3,
        **settings,
        "options": {"task": "node-classification", **(options or {})},
    }
    (root / "consortium.toml").write_text(tomli_w.dumps(consortium))
    coordinator = init(root / "consortium.toml", root / "coordinator", lambda _: None)
    data = node_site(root / "graphs" / "north")
    invitation = coordinator.folder / "invitations" / "north.toml"
    site, _ = join(invitation, data, root / "site", 9094, lambda _: None)
    monkeypatch.setenv(EVENTS_VARIABLE, str(site.events))
    monkeypatch.setenv(LIST_VARIABLE, str(site.accepted))
    return Joined(coordinator, site)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """The programs of a site run in its folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
