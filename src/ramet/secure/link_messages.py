"""The three messages of a link between two sites, as text that any channel may carry."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from ramet.errors import RametError
from ramet.secure.charter import canonical
from ramet.secure.identity import Identity, Peers, fingerprint, is_signed

Kind = Literal["start", "answer", "finish"]
FORMAT = 1


@dataclass(frozen=True)
class LinkMessage:
    """What a site sends another, signed with its long-lived key.

    Args:
        kind: its place in the exchange.
        exchange: drawn by the site that starts.
        sender: the name of the site that has signed it.
        receiver: the name of the site that it is for.
        key: the sender's long-lived public key.
        channel: the sender's public X25519 key in this exchange, in hex.
        follows: SHA-256 of the message that this one answers; empty for the first.
        body: base64 of points; but for the first message under a key that both sites derive.
        signature: in hex, of all else.
        format: of the message; sites with another one cannot be linked.
    """

    kind: Kind
    exchange: str
    sender: str
    receiver: str
    key: str
    channel: str
    follows: str
    body: str
    signature: str = ""
    format: int = FORMAT

    @property
    def statement(self) -> bytes:
        """What the sender signs, unlike anything else that it signs."""
        content = asdict(replace(self, signature=""))
        return canonical(["a link between sites in Ramet", content]).encode()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.statement).hexdigest()

    @property
    def text(self) -> str:
        return canonical(asdict(self)) + "\n"

    @property
    def content(self) -> bytes:
        return base64.b64decode(self.body)

    def signed(self, identity: Identity) -> LinkMessage:
        return replace(self, signature=identity.sign(self.statement).hex())

    @staticmethod
    def parse(text: str) -> LinkMessage:
        try:
            given = json.loads(text)
            if given["format"] != FORMAT:
                raise RametError(
                    f"the message has format {given['format']}, but this version of Ramet reads "
                    f"{FORMAT}. Install the same version at both sites."
                )
            message = LinkMessage(**given)
            texts = asdict(replace(message, format=0))
            texts.pop("format")
            is_valid = message.text == text and all(isinstance(v, str) for v in texts.values())
            base64.b64decode(message.body, validate=True)
            bytes.fromhex(message.channel + message.signature)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _damaged(type(error).__name__) from error
        if not is_valid or message.kind not in get_args(Kind) or len(message.channel) != 64:
            raise _damaged("not in its one form")
        return message

    def check(self, receiver: str, peers: Peers) -> None:
        """Raise RametError unless it is for this site, and signed by a site that it accepts."""
        if self.receiver != receiver:
            raise RametError(
                f"the message is for {self.receiver}, but this site is {receiver}. Send it there."
            )
        if not peers.accepts(self.sender, self.key):
            raise RametError(
                f"{self.sender} with the key {fingerprint(self.key)} is not among this site's "
                "members. Compare the fingerprint with the other site by phone, and add it with "
                "`ramet deploy member`."
            )
        if not is_signed(self.statement, bytes.fromhex(self.signature), self.key):
            raise RametError(
                f"the signature is not that of {self.sender}: the message was changed on its way. "
                "Ask for it again over another channel."
            )


def _damaged(why: str) -> RametError:
    return RametError(f"not a message of `ramet link` ({why}). Ask the other site for its file.")
