"""What crosses the wire, and the rule that says what may.

A `Payload` is named arrays, numbers and short notes. `Sharing` is the declared list of arrays that
leave a site: patterns over parameter names, as data, so that it can be printed, checked and
audited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ramet.errors import RametError

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
"""numpy arrays by the names of parameters."""


@dataclass(frozen=True)
class Payload:
    """One message's content; also the form in which server rules keep their state.

    Args:
        arrays: numpy arrays by name; on the wire they have the names of parameters.
        numbers: floats by name, such as a reply's ``weight``, ``loss``, ``val`` and ``test``.
        notes: short texts by name.
    """

    arrays: Arrays = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """NumPy's arithmetic gives numbers for arrays without dimensions; here they are arrays."""
        if any(isinstance(array, np.generic) for array in self.arrays.values()):
            arrays = {name: np.asarray(array) for name, array in self.arrays.items()}
            object.__setattr__(self, "arrays", arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays themselves, without names, numbers, notes and framing."""
        return sum(array.nbytes for array in self.arrays.values())


def digest(arrays: Arrays) -> str:
    """SHA-256 over names, types, shapes and values, in the order of the names."""
    seen = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        seen.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        seen.update(np.ascontiguousarray(array).data)
    return seen.hexdigest()


def under(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays whose names start with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


@dataclass(frozen=True)
class Sharing:
    """Patterns (as in file names: `structure.*`) over parameter names; no pattern, no sharing."""

    patterns: tuple[str, ...]

    def __contains__(self, name: str) -> bool:
        """Whether a parameter of this name is shared."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def pick(self, names: Iterable[str]) -> tuple[str, ...]:
        """The shared ones among `names`; a pattern that matches none of them is an error."""
        known = tuple(names)
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise RametError(
                    f"the sharing pattern '{pattern}' matches no parameter. "
                    f"The model has: {', '.join(known)}."
                )
        return tuple(name for name in known if name in self)


def only(*patterns: str) -> Sharing:
    """Share the parameters whose names match one of the patterns, and nothing else."""
    return Sharing(patterns)


everything = only("*")
nothing = only()
