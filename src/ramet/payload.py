"""The content of messages, and the declaration of which arrays may leave a site.

A `Payload` holds named arrays, numbers and short notes. `Sharing` is a declaration by patterns over
parameter names. It is data, so that it can be printed, checked and audited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ramet.errors import RametError

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
"""NumPy arrays by parameter name."""


@dataclass(frozen=True)
class Payload:
    """The content of a message; also the format in which server rules store their state.

    Args:
        arrays: NumPy arrays by name; on the wire these are parameter names.
        numbers: floats by name, such as a reply's ``weight``, ``loss``, ``val`` and ``test``.
        notes: short texts by name.
        extras: arrays that are not parameters, by name; a method declares them.
    """

    arrays: Arrays = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    extras: Arrays = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert NumPy scalars, which its arithmetic returns for 0-d arrays, back to arrays."""
        for field_name, arrays in (("arrays", self.arrays), ("extras", self.extras)):
            if any(isinstance(array, np.generic) for array in arrays.values()):
                converted = {name: np.asarray(array) for name, array in arrays.items()}
                object.__setattr__(self, field_name, converted)

    @property
    def tensors(self) -> list[Array]:
        """All arrays, those that are parameters first."""
        return [*self.arrays.values(), *self.extras.values()]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without names, numbers, notes and framing."""
        return sum(array.nbytes for array in self.tensors)


def digest(arrays: Arrays) -> str:
    """SHA-256 of names, types, shapes and values, in the order of the names.

    A name ends with the first bar that is not escaped, so no two payloads have the same text.
    """
    sha256 = hashlib.sha256()
    for name in sorted(arrays):
        array, escaped = arrays[name], name.replace("\\", r"\\").replace("|", r"\|")
        sha256.update(f"{escaped}|{array.dtype.str}|{array.shape}|".encode())
        sha256.update(np.ascontiguousarray(array).data)
    return sha256.hexdigest()


def under(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays whose names start with a prefix, which is removed."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


@dataclass(frozen=True)
class Sharing:
    """Glob patterns over parameter names, such as `structure.*`; without any, nothing is shared."""

    patterns: tuple[str, ...]

    def __contains__(self, name: str) -> bool:
        """Whether a parameter with this name is shared."""
        return _matches(name, self.patterns)

    def __str__(self) -> str:
        return ", ".join(self.patterns) or "nothing"

    def pick(self, names: Iterable[str]) -> tuple[str, ...]:
        """The shared ones of `names`; a pattern that matches none of them is an error."""
        known = tuple(names)
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise RametError(
                    f"the sharing pattern '{pattern}' matches no parameter. "
                    f"The model has: {', '.join(known)}."
                )
        return tuple(name for name in known if name in self)


@lru_cache(maxsize=2**14)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def only(*patterns: str) -> Sharing:
    """Share only parameters whose names match one of the patterns."""
    return Sharing(patterns)


everything = only("*")
nothing = only()
