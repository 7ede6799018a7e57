"""Tables of an earlier period, which new data is read together with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ramet.data.own.description import Description
from ramet.data.own.parts import EdgePart, NodePart
from ramet.data.own.paths import resolve_inside
from ramet.data.own.problems import Problems, counted
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

    def labels(self, kind: Kind) -> dict[str, dict[str, Any]]:
        """The columns with the labels of each type that has any."""
        parts: dict[str, Any] = getattr(self.description, kind)
        return {name: {"label": part.label} for name, part in parts.items() if part.label}

    def added_to(
        self, own: Table | None, kind: Kind, name: str, new: Description, problems: Problems
    ) -> Table | None:
        """The new rows of a type, and below them the earlier ones.

        A node with an id from before replaces the earlier one. An edge that was there before counts
        once: one that carries something if the whole row was, any other if its ends were linked.
        """
        part = getattr(new, kind)[name]
        earlier = self._table(kind, name, part, problems)
        if earlier is None:
            return own
        if own is None:
            return replace(earlier, own=0, past_file=earlier.file)
        if isinstance(part, NodePart):
            return _replacing(own, earlier, part, name)
        keys = [part.source, part.target, *([] if new.level == "link" else part.more_in_table)]
        ends = new.ends(name)
        either_way = len(keys) == 2 and ends[0] == ends[1] and not part.directed
        return _without_repeated(own, earlier, name, keys, either_way)

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


def _replacing(own: Table, earlier: Table, part: NodePart, name: str) -> Table:
    """The nodes of both, without those of before whose id is among the new ones."""
    if not all(part.id in one.columns for one in (own, earlier)):
        return own.followed_by(earlier)
    mine = {*own.texts(part.id)}
    kept = np.array([one not in mine for one in earlier.texts(part.id)], dtype=bool)
    known = kept.size - int(kept.sum())
    replaced = (
        f", {known:,} of them with the id of an earlier row, which they replace" if known else ""
    )
    own.problems.notes.append(f"{name}: {counted(len(own), 'new row')}{replaced}")
    return own.followed_by(earlier.only(kept))


def _without_repeated(
    own: Table, earlier: Table, name: str, columns: Sequence[str], either_way: bool
) -> Table:
    """The edges of both, without new ones that have the same cells as one of before.

    If the columns are those of the ends, edges that repeat new ones are left out, too.
    """
    if not all(one in table.columns for one in columns[:2] for table in (own, earlier)):
        return own.followed_by(earlier)
    mine, theirs = (_keys(table, columns, either_way) for table in (own, earlier))
    left, only_ends = Counter(theirs), len(columns) == 2
    kept = np.ones(len(own), dtype=bool)
    for row, key in enumerate(mine):
        kept[row] = not left[key]
        if only_ends:
            left[key] = 1
        elif left[key]:
            left[key] -= 1
    repeated = kept.size - int(kept.sum())
    once = f", {repeated:,} of them repeated, which count once" if repeated else ""
    own.problems.notes.append(f"{name}: {counted(len(own), 'new edge')}{once}")
    return own.only(kept).followed_by(earlier)


def _keys(table: Table, columns: Sequence[str], either_way: bool) -> list[tuple[str, ...]]:
    """What makes each edge the same as another; cells of columns that are not there are empty."""
    cells = [table.texts(one) if one in table.columns else [""] * len(table) for one in columns]
    rows = [*zip(*cells, strict=True)]
    return [(*sorted(row),) for row in rows] if either_way else rows
