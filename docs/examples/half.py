"""A release: parameters in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ramet import Arrays, Exit, Payload


@dataclass(frozen=True)
class Half:
    """Send parameters in 16 bits instead of 32."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return _converted(reply, np.float32, np.float16)

    def form(self, reply: Payload, sent: Arrays) -> Payload:
        return _converted(reply, np.float32, np.float16)

    def arrive(self, reply: Payload, sent: Arrays) -> Payload:
        return _converted(reply, np.float16, np.float32)


def _converted(reply: Payload, old: type[np.floating], new: type[np.floating]) -> Payload:
    arrays = {n: a.astype(new) if a.dtype == old else a for n, a in reply.arrays.items()}
    return replace(reply, arrays=arrays)
