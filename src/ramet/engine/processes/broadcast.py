"""Arrays on their way to worker processes: each is written once, however many clients it is for.

The file is mapped into the memory of every worker, so that all of them read the same pages.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ramet.payload import Array, Arrays, Payload

_ALIGNMENT = 64


@dataclass(frozen=True)
class Place:
    """Where an array is in the file."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StoredMessage:
    """A message whose arrays are in a file."""

    file: Path
    arrays: Mapping[str, Place]
    numbers: Mapping[str, float]
    notes: Mapping[str, str]
    extras: Mapping[str, Place]

    def payload(self) -> Payload:
        """The message, with arrays that are read from the mapped file when they are used.

        Changes to them stay in this process.
        """
        with self.file.open("rb") as file:
            empty = not file.seek(0, 2)
            content = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

        def mapped(places: Mapping[str, Place]) -> dict[str, Array]:
            return {
                name: np.ndarray(at.shape, np.dtype(at.dtype), content, at.offset)
                if 0 not in at.shape
                else np.empty(at.shape, np.dtype(at.dtype))
                for name, at in places.items()
            }

        return Payload(mapped(self.arrays), self.numbers, self.notes, mapped(self.extras))


class Broadcast:
    """Writes messages for workers of this machine; arrays that it has written are not repeated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = False
        self._places: dict[int, tuple[weakref.ref[Array], Place]] = {}

    def restart(self) -> None:
        """Begin a new file. Workers that still use the old one keep it mapped."""
        self._path.unlink(missing_ok=True)
        self._path.touch()
        self._places.clear()
        self._begun = True

    def stored(self, message: Payload) -> StoredMessage:
        return StoredMessage(
            self._path,
            self._stored(message.arrays),
            dict(message.numbers),
            dict(message.notes),
            self._stored(message.extras),
        )

    def close(self) -> None:
        if self._begun:
            self._path.unlink(missing_ok=True)

    def _stored(self, arrays: Arrays) -> dict[str, Place]:
        return {name: self._place(array) for name, array in arrays.items()}

    def _place(self, array: Array) -> Place:
        """Where the array is; it is written if this very object has not been."""
        known, place = self._places.get(id(array), (None, None))
        if known is not None and place is not None and known() is array:
            return place
        with self._path.open("ab") as file:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            place = Place(file.tell(), array.dtype.str, array.shape)
            file.write(np.ascontiguousarray(array).data)
        self._places[id(array)] = weakref.ref(array), place
        return place
