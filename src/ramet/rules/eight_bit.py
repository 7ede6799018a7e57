r"""Send updates in 8 bits per value, and make up for the rounding error in later rounds.

Error feedback: Seide et al., *1-Bit Stochastic Gradient Descent*, Interspeech 2014; Karimireddy et
al., *Error Feedback Fixes SignSGD and other Gradient Compression Schemes*, ICML 2019.

.. math:: p = w - w^t + e, \quad s = \max |p| / 127, \quad q = \operatorname{round}(p / s),
          \quad e \leftarrow p - s q

=====================  ==========================================================
symbol                 name here
=====================  ==========================================================
:math:`w^t`            ``sent``: the array as the server sent it
:math:`w`              the array after training
:math:`q, s`           what leaves: 8-bit integers, and one scale per array
:math:`e`              the client's memory
=====================  ==========================================================

The server merges :math:`w^t + s q`. What it sends to clients is not compressed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from ramet.payload import Array, Arrays, Payload
from ramet.rules.release import Exit

_SCALE, _ERROR = "/scale", "error/"
_LEVELS = np.float32(127)


@dataclass(frozen=True)
class EightBit:
    """Send updates as 8-bit integers with a scale per array, and make up for the error later."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        arrays: dict[str, Array] = {}
        for name, array in reply.arrays.items():
            if not _compressed(name, array, exit.sent):
                arrays[name] = array
                continue
            error = exit.memory.get(_ERROR + name)
            update = array - exit.sent[name] + (0 if error is None else error.cpu().numpy())
            scale = np.abs(update).max() / _LEVELS
            levels = np.rint(update / (scale or np.float32(1))).astype(np.int8)
            exit.memory[_ERROR + name] = torch.from_numpy(update - levels * scale)
            arrays |= {name: levels, name + _SCALE: scale}
        return replace(reply, arrays=arrays)

    def form(self, reply: Payload, sent: Arrays) -> Payload:
        arrays: dict[str, Array] = {}
        for name, array in reply.arrays.items():
            if _compressed(name, array, sent):
                arrays |= {name: array.astype(np.int8), name + _SCALE: np.zeros((), np.float32)}
            else:
                arrays[name] = array
        return replace(reply, arrays=arrays)

    def arrive(self, reply: Payload, sent: Arrays) -> Payload:
        arrays = {
            name: sent[name] + array * reply.arrays[name + _SCALE]
            if name + _SCALE in reply.arrays
            else array
            for name, array in reply.arrays.items()
            if not name.endswith(_SCALE)
        }
        return replace(reply, arrays=arrays)


def _compressed(name: str, array: Array, sent: Arrays) -> bool:
    return name in sent and array.dtype == np.float32 and array.size > 1
