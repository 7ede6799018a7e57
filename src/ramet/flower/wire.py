"""The wire over a Flower grid, be it a simulation's or a SuperLink's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from ramet.data.own import Schema
from ramet.engine import Answer
from ramet.errors import RametError
from ramet.flower.records import from_records, to_records
from ramet.payload import Payload

IN_FLIGHT = 64
"""Messages under way at once: bounds what the server holds, however many clients there are."""
_PAUSE = 0.1


class GridWire:
    """Sends each client's request to its node; yields replies one by one, as they come."""

    def __init__(
        self,
        grid: Grid,
        clients: Iterable[str],
        deadline: float = 600.0,
        gathering: float = 120.0,
    ) -> None:
        self._grid = grid
        self._run = ""
        self._expected: Mapping[str, Schema] = {}
        self.forms: dict[str, str] = {}
        """What sites said of the form of their own graphs, as they said it."""
        self._deadline = deadline
        self._nodes: dict[str, int] = {}
        self._met: set[int] = set()
        self._gather(set(clients), gathering)

    def begin(self, run: str, expected: Mapping[str, Schema]) -> None:
        """Before the first exchange: the run's name, and the form of the sites' own graphs.

        A node that comes later with graphs of another form does not take part.
        """
        self._run, self._expected = run, expected

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        self._meet()
        waiting = iter(requests)
        pending: dict[str, str] = {}
        last_news = time.monotonic()
        while True:
            for client, asked in islice(waiting, IN_FLIGHT - len(pending)):
                if client in self._nodes:
                    pending[self._push(self._train(client, asked))] = client
                else:
                    yield client, "its node is not connected"
            if not pending:
                return
            for sent in list(pending):
                for reply in self._grid.pull_messages([sent]):
                    last_news = time.monotonic()
                    yield pending.pop(sent), _content(reply)
            if time.monotonic() - last_news > self._deadline:
                for client in pending.values():
                    yield client, f"no reply within {self._deadline:.0f} s"
                return
            if pending:
                time.sleep(_PAUSE)

    def _train(self, client: str, asked: Payload) -> Message:
        named = Payload(asked.arrays, asked.numbers, {**asked.notes, "run": self._run})
        return Message(to_records(named), self._nodes[client], MessageType.TRAIN)

    def _push(self, message: Message) -> str:
        (sent,) = self._grid.push_messages([message])
        if not sent:
            raise RametError("the SuperLink did not take a message. See its log.")
        return sent

    def _gather(self, expected: set[str], patience: float) -> None:
        """Wait until every client's node is there, or go on with those that are."""
        end = time.monotonic() + patience
        while True:
            if len(set(self._grid.get_node_ids()) - self._met) + len(self._nodes) >= len(expected):
                self._meet()
            if expected <= self._nodes.keys():
                return
            if time.monotonic() > end:
                self._meet()
                break
            time.sleep(_PAUSE)
        if not self._nodes:
            raise RametError(
                f"no client's node connected within {patience:.0f} s. Start SuperNodes with "
                '--node-config \'client="NAME" state="FOLDER"\'.'
            )

    def _meet(self) -> None:
        """Ask nodes that are new here which client they are."""
        new = set(self._grid.get_node_ids()) - self._met
        if not new:
            return
        asked = {
            self._push(Message(RecordDict(), node, MessageType.QUERY)): node for node in sorted(new)
        }
        end = time.monotonic() + self._deadline
        while asked and time.monotonic() < end:
            for sent in list(asked):
                for reply in self._grid.pull_messages([sent]):
                    node = asked.pop(sent)
                    self._met.add(node)
                    if not reply.has_error():
                        self._note(dict(reply.content["who"]), node)
            time.sleep(_PAUSE)

    def _note(self, who: dict[str, Any], node: int) -> None:
        client = str(who["client"])
        if "form" in who:
            form = self.forms[client] = str(who["form"])
            if not self._fits(client, form):
                return
        self._nodes[client] = node

    def _fits(self, client: str, form: str) -> bool:
        began = self._expected.get(client)
        if began is None:
            return True
        try:
            return Schema.parse(form, client).fits(began)
        except RametError:
            return False


def _content(reply: Message) -> Payload | str:
    if reply.has_error():
        return f"{reply.error.reason or 'failed'} (Flower's code {reply.error.code})"
    try:
        return from_records(reply.content)
    except RametError as error:
        return str(error)
