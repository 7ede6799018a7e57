"""The wire over a Flower grid, be it a simulation's or a SuperLink's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from ramet.data.own import Schema
from ramet.engine import Answer, Refused
from ramet.errors import RametError
from ramet.flower.records import UNREADABLE, from_records, to_records
from ramet.flower.signing import INTRODUCTION, NONCE, Keyring, Occasion, fresh_nonce
from ramet.payload import Payload

IN_FLIGHT = 64
"""Messages under way at once: bounds what the server holds, however many clients there are."""
_PAUSE, _LONGEST_PAUSE = 0.1, 0.5


class GridWire:
    """Sends each client's request to its node; yields replies one by one, as they come.

    With a keyring, a reply counts only if the client's own key signed it for this very request.
    """

    def __init__(
        self,
        grid: Grid,
        clients: Iterable[str],
        deadline: float = 600.0,
        gathering: float = 120.0,
        keyring: Keyring | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """`names`: the clients that nodes are known to be, though they have yet to prove it."""
        self._grid = grid
        self._run = ""
        self._expected: Mapping[str, Schema] = {}
        self.forms: dict[str, str] = {}
        """What sites said of the form of their own graphs, as they said it."""
        self._deadline = deadline
        self._keyring = keyring
        self._nodes: dict[str, int] = {}
        self._names = names or {}
        self.refused: dict[str, str] = {}
        """Clients whose node is connected and does not take part, and why."""
        self._met: set[int] = set()
        self._gather(set(clients), gathering)

    def begin(self, run: str, expected: Mapping[str, Schema]) -> None:
        """Before the first exchange: the run's name, and the form of the sites' own graphs.

        A node that comes later with graphs of another form does not take part.
        """
        self._run, self._expected = run, expected

    def reasons(self, clients: Iterable[str]) -> str:
        """Why these take no part."""
        return "; ".join(f"{one}: {self._reason(one)}" for one in clients)

    def _reason(self, client: str) -> str:
        return self.refused.get(client, "its node is not connected")

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        self._meet()
        waiting = iter(requests)
        pending: dict[str, Occasion] = {}
        last_news, pause = time.monotonic(), _PAUSE
        while True:
            for client, asked in islice(waiting, IN_FLIGHT - len(pending)):
                if client in self._nodes:
                    occasion = self._occasion(client, int(asked.numbers["round"]))
                    pending[self._push(self._train(occasion, asked))] = occasion
                else:
                    yield client, self._reason(client)
            if not pending:
                return
            for sent in list(pending):
                reply = self._pulled(sent)
                if reply is not None:
                    last_news, pause = time.monotonic(), _PAUSE
                    occasion = pending.pop(sent)
                    yield occasion.client, self._checked(reply, occasion)
            if time.monotonic() - last_news > self._deadline:
                for occasion in pending.values():
                    yield occasion.client, f"no reply within {self._deadline:.0f} s"
                return
            if pending:
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _occasion(self, client: str, round_number: int) -> Occasion:
        return Occasion(self._run, client, round_number, fresh_nonce())

    def _train(self, occasion: Occasion, asked: Payload) -> Message:
        notes = {**asked.notes, "run": self._run, NONCE: occasion.nonce}
        named = to_records(Payload(asked.arrays, asked.numbers, notes))
        return Message(named, self._nodes[occasion.client], MessageType.TRAIN, ttl=self._lifetime)

    @property
    def _lifetime(self) -> float:
        """Nobody waits for a message longer than all that are in flight may take."""
        return IN_FLIGHT * self._deadline

    def _pulled(self, sent: str) -> Payload | str | None:
        """The reply to a message, what is wrong with it, or None if it is not there yet."""
        try:
            return next((_content(reply) for reply in self._grid.pull_messages([sent])), None)
        except UNREADABLE as error:
            return Refused(f"a message that Flower cannot read ({error})")

    def _checked(self, reply: Payload | str, occasion: Occasion) -> Payload | str:
        if isinstance(reply, str) or self._keyring is None:
            return reply
        fault = self._keyring.fault(reply, occasion)
        return Refused(fault) if fault else reply

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
            if self.refused:
                raise RametError(f"no client takes part: {self.reasons(self.refused)}.")
            raise RametError(
                f"no client's node connected within {patience:.0f} s. Start SuperNodes with "
                '--node-config \'client="NAME" state="FOLDER"\'.'
            )

    def _meet(self) -> None:
        """Ask nodes that are new here which client they are."""
        new = set(self._grid.get_node_ids()) - self._met
        if not new:
            return
        asked: dict[str, tuple[int, str]] = {}
        for node in sorted(new):
            nonce = fresh_nonce()
            who = to_records(Payload(notes={"run": self._run, NONCE: nonce}))
            asked[self._push(Message(who, node, MessageType.QUERY))] = node, nonce
        end = time.monotonic() + self._deadline
        while asked and time.monotonic() < end:
            for sent in list(asked):
                reply = self._pulled(sent)
                if reply is not None:
                    self._introduce(*asked.pop(sent), reply)
            time.sleep(_PAUSE)

    def _introduce(self, node: int, nonce: str, reply: Payload | str) -> None:
        """Believe a node which client it is, if it can prove it where proof is asked for."""
        self._met.add(node)
        if isinstance(reply, str) or "client" not in reply.notes:
            if node in self._names and isinstance(reply, str):
                self.refused[self._names[node]] = f"its node is connected, but answered: {reply}"
            return
        client = reply.notes["client"]
        checked = self._checked(reply, Occasion(self._run, client, INTRODUCTION, nonce))
        if isinstance(checked, str):
            self.refused[client] = Refused(f"its node's introduction {checked}")
        elif self._fits(client, reply.notes.get("form")):
            self._nodes[client] = node

    def _fits(self, client: str, form: str | None) -> bool:
        """Note the form of a site's own graphs; whether it is the one that the run began with."""
        if form is None:
            return True
        self.forms[client] = form
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
        return Refused(error)
