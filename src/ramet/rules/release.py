"""Releases: what happens to a reply at a site's exit, before it is audited, counted and sent.

A release may change or drop what leaves, and says which form a reply then has, so that the server
can check it. Quantisation and compression are releases; the noise and the masks of a run are gates
(`engine/site`), because they are not the method's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from ramet.payload import Arrays, Payload
from ramet.randomness import Randomness


@dataclass(frozen=True)
class Exit:
    """What a release knows at the site's exit."""

    sent: Arrays
    """The shared parameters that the server sent; in round 1 those that all clients start with.
    Buffers are left out, and there are none in stages."""
    memory: dict[str, Tensor]
    """Private tensors of the release, kept until the client's next reply."""
    randomness: Randomness
    """Random draws of this client in this round. The coordinator can repeat them."""


@runtime_checkable
class Release(Protocol):
    """Protocol of releases."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        """Return what leaves the site instead of this reply."""
        ...

    def form(self, reply: Payload, sent: Arrays) -> Payload:
        """The names, shapes and types of what leaves, given those of a reply.

        It is called with arrays of zeros. A site refuses to send anything else, and the server
        refuses to accept it. Numbers and notes can be left out, but not added.
        """
        ...

    def arrive(self, reply: Payload, sent: Arrays) -> Payload:
        """Return the reply that is merged, given what left the site."""
        ...
