"""Which node is which client: no call of Flower's says it, so each node is asked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from flwr.app import Message, MessageType

from ramet.data.own.preparation import SiteSums
from ramet.data.own.schema import Schema
from ramet.engine.server.wire import Refused
from ramet.errors import RametError, one_line
from ramet.flower.records import COLUMNS, to_records
from ramet.flower.signed_grid import NOT_ADMITTED, Lost, SignedGrid
from ramet.flower.signing import INTRODUCTION, NONCE, RequestId, fresh_nonce
from ramet.payload import Payload

_PAUSE = 0.1
"""The polling interval for answers, in seconds."""
_ANSWER_TIME = 300.0
"""Seconds after which a node that has not said which client it is, is asked again."""
_RETRIES = (1.0, 5.0)
"""Seconds before a node whose answer was lost is asked again."""


class Introductions:
    """Asks nodes which client they are; with a keyring they have to prove it."""

    def __init__(
        self,
        grid: SignedGrid,
        deadline: float,
        names: Mapping[int, str],
        common: Mapping[str, str],
    ) -> None:
        """`names` maps node ids to registered clients. All questions have the notes in `common`."""
        self._common = common
        self._grid = grid
        self._deadline = deadline
        self._names = names
        self.run = ""
        self.expected: Mapping[str, Schema] = {}
        """The schemas with which the run started: a node with another one does not take part."""
        self.schema_texts: dict[str, str] = {}
        """The schemas of user-defined graphs, as the sites sent them."""
        self.sums: dict[str, SiteSums] = {}
        """The sums of the columns of user-defined graphs."""
        self.nodes: dict[str, int] = {}
        """The nodes of the clients that take part."""
        self._refused: dict[str, str] = {}
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

    def await_clients(self, expected: set[str], patience: float) -> None:
        """Wait for every client's node; after `patience` seconds continue with those connected."""
        end = time.monotonic() + patience
        while True:
            self._ask_unknown_nodes()
            missing = expected - self.nodes.keys() - self._refused.keys()
            is_over = len(self._unknown) >= len(missing) or time.monotonic() > end
            if not missing or (is_over and not self._is_waiting()):
                break
            time.sleep(_PAUSE)
        if not self.nodes:
            if self._refused or self._unknown:
                known = self._refused or sorted(expected)
                raise RametError(f"no client takes part: {self.reasons(known)}.")
            raise RametError(
                f"no client's node connected within {patience:.0f} s. Start SuperNodes with "
                '--node-config \'client="NAME" state="FOLDER"\'.'
            )

    def await_new_nodes(self) -> None:
        """Ask new nodes which client they are, and wait for the answers, once for each node."""
        self._ask_unknown_nodes()
        while self._is_waiting():
            time.sleep(_PAUSE)
            self._ask_unknown_nodes()

    def reasons(self, clients: Iterable[str]) -> str:
        """Why these clients do not take part."""
        return one_line("; ".join(f"{client}: {self.reason(client)}" for client in clients))

    def reason(self, client: str) -> str:
        if client in self._refused:
            return self._refused[client]
        if self._grid.lacks_key(client):
            return NOT_ADMITTED
        answered = [e[-1] for node, e in self._errors.items() if self._names.get(node) == client]
        if answered:
            return _connected_but(answered[0])
        if client not in (self._names.get(node, client) for node in self._unknown):
            return "its node is not connected"
        silence = f"has not said within {self._deadline:.0f} s which client it is"
        return f"a node is connected, but {silence}"

    def _is_waiting(self) -> bool:
        """Whether a node has been silent for less than a deadline.

        One that has been silent for longer takes part as soon as it answers, but nobody waits.
        """
        now = time.monotonic()
        return any(now < self._waited_for.get(node, 0.0) for node in self._unknown)

    def _ask_unknown_nodes(self) -> None:
        """Ask new nodes which client they are, and read the answers that have arrived."""
        connected = set(self._grid.grid.get_node_ids())
        for node in sorted(connected - self._seen):
            if time.monotonic() >= self._next_question.get(node, 0.0):
                self._ask_which_client(node)
        for sent in list(self._questions):
            reply = self._grid.pull(sent)
            if reply is not None:
                self._add_node(*self._questions.pop(sent), reply)
        self._unknown = connected - self._seen

    def _ask_which_client(self, node: int) -> None:
        nonce = fresh_nonce()
        question = Payload(notes={**self._common, "run": self.run, NONCE: nonce})
        question = self._grid.signed(question, RequestId(self.run, str(node), INTRODUCTION, nonce))
        if sent := self._grid.push(Message(to_records(question), node, MessageType.QUERY)):
            self._questions[sent] = node, nonce
            now = time.monotonic()
            self._next_question[node] = now + _ANSWER_TIME
            self._waited_for.setdefault(node, now + self._deadline)

    def _add_node(self, node: int, nonce: str, reply: Payload | str) -> None:
        """Accept a node as the client that it claims to be."""
        if node in self._seen:  # it was asked twice
            return
        if isinstance(reply, Lost):
            errors = self._errors.setdefault(node, [])
            errors.append(reply)
            if len(errors) <= len(_RETRIES):
                self._next_question[node] = time.monotonic() + _RETRIES[len(errors) - 1]
                return
        self._seen.add(node)
        if isinstance(reply, str) or "client" not in reply.notes:
            if node in self._names and isinstance(reply, str):
                self._refused[self._names[node]] = _connected_but(reply)
            return
        client = reply.notes["client"]
        checked = self._grid.checked(reply, RequestId(self.run, client, INTRODUCTION, nonce))
        if isinstance(checked, str):
            self._refused[client] = Refused(f"its node's introduction {checked}")
        elif self._schema_matches(client, reply.notes.get("form")):
            try:
                self.sums[client] = SiteSums.parse(reply.notes.get(COLUMNS, "{}"), client)
            except RametError as error:
                self._refused[client] = Refused(str(error))
            else:
                self.nodes[client] = node

    def _schema_matches(self, client: str, text: str | None) -> bool:
        """Store a site's schema, and check that it fits the one with which the run started."""
        if text is None:
            return True
        self.schema_texts[client] = text
        expected = self.expected.get(client)
        if expected is None:
            return True
        try:
            return Schema.parse(text, client).fits(expected)
        except RametError:
            return False


def _connected_but(answer: str) -> str:
    return f"its node is connected, but answered: {answer}"
