"""The wire over a Flower grid, either a simulation's or a SuperLink's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from flwr.app import Message, MessageType

from ramet.data.own.preparation import Preparation
from ramet.data.own.schema import Schema
from ramet.engine.server.wire import Answer
from ramet.flower.file_drop import Carrier
from ramet.flower.introductions import Introductions
from ramet.flower.records import COLUMNS, PREPARATION, to_records
from ramet.flower.signed_grid import SignedGrid
from ramet.flower.signing import NONCE, CoordinatorKey, Keyring, RequestId, fresh_nonce
from ramet.payload import Payload

IN_FLIGHT = 64
"""Maximum number of messages in flight; bounds the server's memory for any number of clients."""
CONNECT_TIMEOUT = 120.0
"""Seconds that a run waits for the nodes of all clients before it begins with those connected."""
_PAUSE, _LONGEST_PAUSE, _PAUSE_PER_MESSAGE = 0.1, 0.5, 0.15
"""The polling interval in seconds. Each message is a call, so many in flight wait longer."""


class GridWire:
    """Sends each client's request to its node, and yields replies as they arrive."""

    def __init__(
        self,
        grid: Carrier,
        clients: Iterable[str],
        deadline: float = 600.0,
        connect_timeout: float = CONNECT_TIMEOUT,
        keyring: Keyring | None = None,
        names: Mapping[int, str] | None = None,
        coordinator: CoordinatorKey | None = None,
        common: Mapping[str, str] | None = None,
    ) -> None:
        """`names` maps node ids to registered clients; nodes still have to prove who they are.

        All messages have the notes in `common`.
        """
        self._grid = SignedGrid(grid, keyring, coordinator)
        self._deadline = deadline
        self._common = common or {}
        self._notes: dict[str, str] = {}
        self._pending: dict[str, RequestId] = {}
        self.sites = Introductions(self._grid, deadline, names or {}, self._common)
        self.sites.await_clients(set(clients), connect_timeout)

    def set_run(self, run: str, expected: Mapping[str, Schema], preparation: Preparation) -> None:
        """Set the run's name, the sites' schemas and their preparation, before the first exchange.

        A node that connects later with another schema does not take part.
        """
        self.sites.run, self.sites.expected = run, expected
        self._notes = {PREPARATION: preparation.text()} if preparation != Preparation() else {}

    def begin_columns(self, name: str, columns: Sequence[str]) -> None:
        """From here on, messages are about sums of columns, which have a name like a run."""
        self.sites.run, self._notes = name, {COLUMNS: json.dumps(columns)}

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        """Also yields replies to requests of earlier exchanges that were left before their end."""
        self.sites.await_new_nodes()
        remaining = iter(requests)
        pending = self._pending
        last_reply, pause = time.monotonic(), _PAUSE
        while True:
            for client, request in islice(remaining, IN_FLIGHT - len(pending)):
                number = int(request.numbers["round"])
                request_id = RequestId(self.sites.run, client, number, fresh_nonce())
                if sent := self._send(request_id, request):
                    pending[sent] = request_id
                else:
                    yield client, self.sites.reason(client)
            if not pending:
                return
            for sent in list(pending):
                reply = self._grid.pull(sent)
                if reply is not None:
                    last_reply, pause = time.monotonic(), _PAUSE
                    request_id = pending.pop(sent)
                    yield request_id.client, self._grid.checked(reply, request_id)
            if time.monotonic() - last_reply > self._deadline:
                for sent in list(pending):
                    yield pending.pop(sent).client, f"no reply within {self._deadline:.0f} s"
                last_reply = time.monotonic()
                continue
            if pending:
                time.sleep(pause)
                longest = max(_LONGEST_PAUSE, _PAUSE_PER_MESSAGE * len(pending))
                pause = min(1.5 * pause, longest)

    def _send(self, request_id: RequestId, request: Payload) -> str | None:
        """Send a request, and return the message's id; None if the client's node is gone."""
        nodes, client = self.sites.nodes, request_id.client
        if client not in nodes or self._grid.lacks_key(client):
            return None
        notes = {
            **request.notes,
            **self._common,
            **self._notes,
            "run": request_id.run,
            NONCE: request_id.nonce,
        }
        content = to_records(self._grid.signed(replace(request, notes=notes), request_id))
        lifetime = IN_FLIGHT * self._deadline  # no message in flight is waited for longer
        message = Message(content, nodes[client], MessageType.TRAIN, ttl=lifetime)
        sent = self._grid.push(message)
        if sent is None:
            del nodes[client]
        return sent
