"""Tables of an earlier period, which new data is read together with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ramet.data.own.description import Description
from ramet.data.own.parts import EdgePart, NodePart
from ramet.data.own.paths import resolve_inside
from ramet.data.own.problems import Problems
from ramet.data.own.tables import Table, read_table

Kind: TypeAlias = Literal["nodes", "edges"]
_COLUMNS = ("id", "source", "target", "weight", "time")
_OF_FILES = {"file", "label", "split"}


@dataclass(frozen=True)
class Past:
    """The description of an earlier period, and the folder of its files."""

    path: Path
    description: Description

    def keys(self, kind: Kind) -> dict[str, dict[str, Any]]:
        """The keys of each type that new data need not repeat."""
        parts: dict[str, Any] = getattr(self.description, kind)
        return {
            name: part.model_dump(by_alias=True, exclude=_OF_FILES, exclude_defaults=True)
            for name, part in parts.items()
        }

    def added_to(
        self, own: Table | None, kind: Kind, name: str, part: NodePart | EdgePart
    ) -> Table | None:
        """The rows of a type, and below them those of the past that they do not repeat.

        A node that is in both has the row of the new data. So has a link whose whole row is.
        """
        earlier = self._table(kind, name, part, Problems() if own is None else own.problems)
        if earlier is None or own is None:
            return own or earlier
        keys = [part.id] if isinstance(part, NodePart) else [*own.columns]
        if not all(key in earlier.columns and key in own.columns for key in keys):
            return own.followed_by(earlier)
        mine, theirs = (zip(*map(one.texts, keys), strict=True) for one in (own, earlier))
        known = set(mine)
        return own.followed_by(earlier.only(np.array([row not in known for row in theirs])))

    def _table(
        self, kind: Kind, name: str, part: NodePart | EdgePart, problems: Problems
    ) -> Table | None:
        there = getattr(self.description, kind).get(name)
        if there is None or there.file is None:
            return None
        folder = self.path.absolute().parent
        path = resolve_inside(folder, there.file, str(self.path), problems)
        read = None if path is None else read_table(path, str(path), problems)
        if read is None:
            return None
        names = {
            getattr(there, key): getattr(part, key)
            for key in _COLUMNS
            if getattr(there, key, None) is not None and getattr(part, key, None) is not None
        }
        return read.renamed(names)
