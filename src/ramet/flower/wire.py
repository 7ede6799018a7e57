"""The wire over a Flower grid, either a simulation's or a SuperLink's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from ramet.data.own import Preparation, Schema, SiteSums
from ramet.engine.server.wire import Answer, Refused
from ramet.errors import RametError, one_line
from ramet.flower.records import COLUMNS, DECODING_ERRORS, PREPARATION, from_records, to_records
from ramet.flower.signing import (
    INTRODUCTION,
    NONCE,
    CoordinatorKey,
    Keyring,
    RequestId,
    fresh_nonce,
)
from ramet.payload import Payload

IN_FLIGHT = 64
"""Maximum number of messages in flight; bounds the server's memory for any number of clients."""
CONNECT_TIMEOUT = 120.0
"""Seconds that a run waits for the nodes of all clients before it begins with those connected."""
_PAUSE, _LONGEST_PAUSE, _PAUSE_PER_MESSAGE = 0.1, 0.5, 0.15
"""Seconds between two looks for replies. Each message is a call, so many in flight wait longer."""
_ANSWER_TIME = 300.0
"""Seconds after which a node that has not said which client it is, is asked again."""
_RETRIES = (1.0, 5.0)
"""Seconds before a node whose answer was lost is asked again."""
LOST = {
    3: "MESSAGE_UNAVAILABLE",
    4: "REPLY_MESSAGE_UNAVAILABLE",
    5: "NODE_UNAVAILABLE",
    8: "CLIENT_APP_CRASHED",
}
"""Flower's errors that did not come from the site, by the code in messages."""
_LONGEST_REASON = 2000
"""Characters of a site's reason for not answering."""
_NOT_ADMITTED = "it has no key at the coordinator: it was revoked, or not admitted"


class _Lost(str):
    """Why there is no answer."""


class GridWire:
    """Sends each client's request to its node, and yields replies as they arrive.

    With a keyring, a reply only counts if the client's own key signed it for this request. With the
    coordinator's key, requests are signed too.
    """

    def __init__(
        self,
        grid: Grid,
        clients: Iterable[str],
        deadline: float = 600.0,
        connect_timeout: float = CONNECT_TIMEOUT,
        keyring: Keyring | None = None,
        names: Mapping[int, str] | None = None,
        coordinator: CoordinatorKey | None = None,
    ) -> None:
        """`names` maps node ids to registered clients; nodes still have to prove who they are."""
        self._grid = grid
        self._run = ""
        self._expected: Mapping[str, Schema] = {}
        self.schema_texts: dict[str, str] = {}
        """The schemas of user-defined graphs, as the sites sent them."""
        self.sums: dict[str, SiteSums] = {}
        """The sums of the columns of user-defined graphs."""
        self._notes: dict[str, str] = {}
        self._deadline = deadline
        self._keyring = keyring
        self._coordinator = coordinator
        self._nodes: dict[str, int] = {}
        self._pending: dict[str, RequestId] = {}
        self._names = names or {}
        self.refused: dict[str, str] = {}
        """Clients whose node is connected but does not take part, with the reason."""
        self._seen: set[int] = set()
        self._questions: dict[str, tuple[int, str]] = {}
        """The nodes that were asked which client they are, by message, each with its nonce."""
        self._next_question: dict[int, float] = {}
        self._unknown: set[int] = set()
        """The connected nodes that have not said which client they are."""
        self._waited_for: dict[int, float] = {}
        """Until when each of them is waited for."""
        self._errors: dict[int, list[str]] = {}
        """Why nodes' answers to this question were lost."""
        self._await_nodes(set(clients), connect_timeout)

    def set_run(self, run: str, expected: Mapping[str, Schema], preparation: Preparation) -> None:
        """Set the run's name, the sites' schemas and their preparation, before the first exchange.

        A node that connects later with another schema does not take part.
        """
        self._run, self._expected = run, expected
        self._notes = {PREPARATION: preparation.text()} if preparation != Preparation() else {}

    def reasons(self, clients: Iterable[str]) -> str:
        """Why these clients do not take part."""
        return one_line("; ".join(f"{client}: {self._reason(client)}" for client in clients))

    def _reason(self, client: str) -> str:
        if client in self.refused:
            return self.refused[client]
        if self._lacks_key(client):
            return _NOT_ADMITTED
        answered = [e[-1] for node, e in self._errors.items() if self._names.get(node) == client]
        if answered:
            return _connected_but(answered[0])
        if client not in (self._names.get(node, client) for node in self._unknown):
            return "its node is not connected"
        silence = f"has not said within {self._deadline:.0f} s which client it is"
        return f"a node is connected, but {silence}"

    def _lacks_key(self, client: str) -> bool:
        return self._keyring is not None and not self._keyring.has(client)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        """Also yields replies to requests of earlier exchanges that were left before their end."""
        self._introduce_new_nodes()
        remaining = iter(requests)
        pending = self._pending
        last_reply, pause = time.monotonic(), _PAUSE
        while True:
            for client, request in islice(remaining, IN_FLIGHT - len(pending)):
                request_id = self._request_id(client, int(request.numbers["round"]))
                if sent := self._send(request_id, request):
                    pending[sent] = request_id
                else:
                    yield client, self._reason(client)
            if not pending:
                return
            for sent in list(pending):
                reply = self._pull(sent)
                if reply is not None:
                    last_reply, pause = time.monotonic(), _PAUSE
                    request_id = pending.pop(sent)
                    yield request_id.client, self._checked(reply, request_id)
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
        if request_id.client not in self._nodes or self._lacks_key(request_id.client):
            return None
        sent = self._push(self._train(request_id, request))
        if sent is None:
            del self._nodes[request_id.client]
        return sent

    def _request_id(self, client: str, round_number: int) -> RequestId:
        return RequestId(self._run, client, round_number, fresh_nonce())

    def _train(self, request_id: RequestId, request: Payload) -> Message:
        notes = {**request.notes, **self._notes, "run": self._run, NONCE: request_id.nonce}
        content = to_records(self._signed(replace(request, notes=notes), request_id))
        return Message(
            content, self._nodes[request_id.client], MessageType.TRAIN, ttl=self._lifetime
        )

    def _signed(self, request: Payload, request_id: RequestId) -> Payload:
        return self._coordinator.signed(request, request_id) if self._coordinator else request

    @property
    def _lifetime(self) -> float:
        """An upper bound on how long the server waits for any message in flight."""
        return IN_FLIGHT * self._deadline

    def _pull(self, sent: str) -> Payload | str | None:
        """The reply to a message, what is wrong with it, or None if it has not arrived."""
        try:
            return next((_content(reply) for reply in self._grid.pull_messages([sent])), None)
        except DECODING_ERRORS as error:
            return Refused(f"a message that Flower cannot read ({error})")

    def _checked(self, reply: Payload | str, request_id: RequestId) -> Payload | str:
        if isinstance(reply, str) or self._keyring is None:
            return _NOT_ADMITTED if self._lacks_key(request_id.client) else reply
        fault = self._keyring.fault(reply, request_id)
        return Refused(fault) if fault else reply

    def _push(self, message: Message) -> str | None:
        """Send a message, and return its id; None if its node is no longer registered."""
        (sent,) = self._grid.push_messages([message])
        if sent:
            return sent
        if message.metadata.dst_node_id in self._grid.get_node_ids():
            raise RametError("the SuperLink did not accept a message. See its log.")
        return None

    def _await_nodes(self, expected: set[str], patience: float) -> None:
        """Wait for every client's node; after `patience` seconds continue with those connected."""
        end = time.monotonic() + patience
        while True:
            self._ask_unknown_nodes()
            missing = expected - self._nodes.keys() - self.refused.keys()
            is_over = len(self._unknown) >= len(missing) or time.monotonic() > end
            if not missing or (is_over and not self._is_waiting()):
                break
            time.sleep(_PAUSE)
        if not self._nodes:
            if self.refused or self._unknown:
                known = self.refused or sorted(expected)
                raise RametError(f"no client takes part: {self.reasons(known)}.")
            raise RametError(
                f"no client's node connected within {patience:.0f} s. Start SuperNodes with "
                '--node-config \'client="NAME" state="FOLDER"\'.'
            )

    def _introduce_new_nodes(self) -> None:
        """Ask new nodes which client they are, and wait for the answers, once for each node."""
        self._ask_unknown_nodes()
        while self._is_waiting():
            time.sleep(_PAUSE)
            self._ask_unknown_nodes()

    def _is_waiting(self) -> bool:
        """Whether a node has been silent for less than a deadline.

        One that has been silent for longer takes part as soon as it answers, but nobody waits.
        """
        now = time.monotonic()
        return any(now < self._waited_for.get(node, 0.0) for node in self._unknown)

    def _ask_unknown_nodes(self) -> None:
        """Ask new nodes which client they are, and read the answers that have arrived."""
        connected = set(self._grid.get_node_ids())
        for node in sorted(connected - self._seen):
            if time.monotonic() >= self._next_question.get(node, 0.0):
                self._ask_which_client(node)
        for sent in list(self._questions):
            reply = self._pull(sent)
            if reply is not None:
                self._add_node(*self._questions.pop(sent), reply)
        self._unknown = connected - self._seen

    def _ask_which_client(self, node: int) -> None:
        nonce = fresh_nonce()
        question = Payload(notes={"run": self._run, NONCE: nonce})
        question = self._signed(question, RequestId(self._run, str(node), INTRODUCTION, nonce))
        if sent := self._push(Message(to_records(question), node, MessageType.QUERY)):
            self._questions[sent] = node, nonce
            now = time.monotonic()
            self._next_question[node] = now + _ANSWER_TIME
            self._waited_for.setdefault(node, now + self._deadline)

    def _add_node(self, node: int, nonce: str, reply: Payload | str) -> None:
        """Accept a node as the client that it claims to be; with a keyring it must prove it."""
        if node in self._seen:  # it was asked twice
            return
        if isinstance(reply, _Lost):
            errors = self._errors.setdefault(node, [])
            errors.append(reply)
            if len(errors) <= len(_RETRIES):
                self._next_question[node] = time.monotonic() + _RETRIES[len(errors) - 1]
                return
        self._seen.add(node)
        if isinstance(reply, str) or "client" not in reply.notes:
            if node in self._names and isinstance(reply, str):
                self.refused[self._names[node]] = _connected_but(reply)
            return
        client = reply.notes["client"]
        checked = self._checked(reply, RequestId(self._run, client, INTRODUCTION, nonce))
        if isinstance(checked, str):
            self.refused[client] = Refused(f"its node's introduction {checked}")
        elif self._schema_matches(client, reply.notes.get("form")):
            try:
                self.sums[client] = SiteSums.parse(reply.notes.get(COLUMNS, "{}"), client)
            except RametError as error:
                self.refused[client] = Refused(str(error))
            else:
                self._nodes[client] = node

    def _schema_matches(self, client: str, text: str | None) -> bool:
        """Store a site's schema, and check that it fits the one with which the run started."""
        if text is None:
            return True
        self.schema_texts[client] = text
        expected = self._expected.get(client)
        if expected is None:
            return True
        try:
            return Schema.parse(text, client).fits(expected)
        except RametError:
            return False


def _connected_but(answer: str) -> str:
    return f"its node is connected, but answered: {answer}"


def _content(reply: Message) -> Payload | str:
    if reply.has_error():
        said = one_line(reply.error.reason or "failed")[:_LONGEST_REASON]
        reason = f"{said} (Flower's code {reply.error.code})"
        return _Lost(reason) if reply.error.code in LOST else reason
    try:
        return from_records(reply.content)
    except RametError as error:
        return Refused(error)
