"""Messages over a Flower grid, signed in both directions in a consortium."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flwr.app import Message

from ramet.engine.server.wire import Refused
from ramet.errors import RametError, one_line
from ramet.flower.file_drop import Carrier
from ramet.flower.records import DECODING_ERRORS, from_records
from ramet.flower.signing import CoordinatorKey, Keyring, RequestId
from ramet.payload import Payload

NOT_ADMITTED = "it has no key at the coordinator: it was revoked, or not admitted"
NODE_AWAY = 5
LOST = {
    3: "MESSAGE_UNAVAILABLE",
    4: "REPLY_MESSAGE_UNAVAILABLE",
    NODE_AWAY: "NODE_UNAVAILABLE",
    8: "CLIENT_APP_CRASHED",
}
"""Flower's errors that did not come from the site, by the code in messages."""
_LONGEST_REASON = 2000
"""Characters of a site's reason for not answering."""
_OUR_ERROR = re.compile(r"<class 'ramet\.[\w.]+'>:<'(?P<message>.*)'>", re.DOTALL)
"""How Flower writes an error of ours that ended a site's answer."""


class Lost(str):
    """Why there is no answer."""


@dataclass(frozen=True)
class SignedGrid:
    """A grid on which replies need a signature if there is a keyring.

    With the coordinator's key, requests are signed too.
    """

    grid: Carrier
    keyring: Keyring | None = None
    coordinator: CoordinatorKey | None = None

    def lacks_key(self, client: str) -> bool:
        return self.keyring is not None and not self.keyring.has(client)

    def signed(self, request: Payload, request_id: RequestId) -> Payload:
        return self.coordinator.signed(request, request_id) if self.coordinator else request

    def push(self, message: Message) -> str | None:
        """Send a message, and return its id; None if its node is no longer registered."""
        (sent,) = self.grid.push_messages([message])
        if sent:
            return sent
        if message.metadata.dst_node_id in self.grid.get_node_ids():
            raise RametError("the SuperLink did not accept a message. See its log.")
        return None

    def pull(self, sent: str) -> Payload | str | None:
        """The reply to a message, what is wrong with it, or None if it has not arrived."""
        try:
            return next((content(reply) for reply in self.grid.pull_messages([sent])), None)
        except DECODING_ERRORS as error:
            return Refused(f"a message that Flower cannot read ({error})")

    def checked(self, reply: Payload | str, request_id: RequestId) -> Payload | str:
        """The reply, or why it does not count: the client's own key has to sign it."""
        if isinstance(reply, str) or self.keyring is None:
            return NOT_ADMITTED if self.lacks_key(request_id.client) else reply
        fault = self.keyring.fault(reply, request_id)
        return Refused(fault) if fault else reply


def content(reply: Message) -> Payload | str:
    """What a message says, or what is wrong with it."""
    if reply.has_error():
        text = reply.error.reason or "failed"
        ours = _OUR_ERROR.fullmatch(text)
        if reply.error.code == NODE_AWAY:
            text = "its SuperNode sends no heartbeats"
        said = one_line(ours["message"] if ours else text)[:_LONGEST_REASON]
        reason = f"{said} (Flower's code {reply.error.code})"
        return Lost(reason) if reply.error.code in LOST else reason
    try:
        return from_records(reply.content)
    except RametError as error:
        return Refused(error)
