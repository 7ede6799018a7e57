"""What left a site with one reply: a line of its audit log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ramet.payload import Array


@dataclass(frozen=True)
class DepartedTensor:
    """A tensor that left; the hash is over its bytes as they lie in memory, row by row."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    sha256: str

    @staticmethod
    def of(name: str, array: Array) -> DepartedTensor:
        sha256 = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        return DepartedTensor(name, array.shape, str(array.dtype), array.nbytes, sha256)


@dataclass(frozen=True)
class Departure:
    """One reply; of numbers and notes only the names are kept."""

    time: str
    run: str
    client: str
    round: int
    tensors: tuple[DepartedTensor, ...]
    numbers: tuple[str, ...]
    notes: tuple[str, ...]

    def line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(line: str) -> Departure:
        facts: dict[str, Any] = json.loads(line)
        tensors = [
            DepartedTensor(**{**one, "shape": tuple(one["shape"])}) for one in facts["tensors"]
        ]
        names = {kind: tuple(facts[kind]) for kind in ("numbers", "notes")}
        return Departure(**{**facts, **names, "tensors": tuple(tensors)})
