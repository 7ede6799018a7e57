"""The tables of a site's types: its rows, those of an earlier period, and ends that are unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from ramet.data.own.description import Description
from ramet.data.own.parts import EdgePart
from ramet.data.own.past import Kind, Past
from ramet.data.own.problems import Problems, counted
from ramet.data.own.tables import Table
from ramet.data.splits import PARTS


@dataclass(frozen=True)
class Rows:
    """Reads each table once.

    An edge whose end is in no table of nodes is a problem, unless ``unknown`` of its type says
    otherwise: "drop" leaves it out, and "stub" adds a node of which only the id is known.
    """

    description: Description
    past: Past | None
    problems: Problems
    read: Callable[[str], Table | None]
    _joined: dict[tuple[Kind, str], Table | None] = field(default_factory=dict)

    def exist(self, kind: Kind, name: str) -> bool:
        """Whether there is a table of a type, now or in the past."""
        sources = [self.description, *([] if self.past is None else [self.past.description])]
        parts = [getattr(one, kind).get(name) for one in sources]
        return any(part is not None and part.file is not None for part in parts)

    def nodes(self, name: str) -> Table | None:
        """The nodes of a type, and below them the stubs."""
        table, column = self._all("nodes", name), self.description.nodes[name].id
        if table is None or column not in table.columns:
            return table
        known = {"", *table.texts(column)}
        edges = (one for one, part in self.description.edges.items() if part.unknown == "stub")
        ends = chain(*(self._ends(edge_type, name) for edge_type in edges))
        new = [*dict.fromkeys(one for one in ends if one not in known)]
        if not new:
            return table
        stubs = counted(len(new), "more node")
        text = f"{name}: {stubs} for ids that only edges have, with all columns missing"
        self.problems.notes.append(text)
        return _with_stubs(table, column, new)

    def edges(self, name: str) -> Table | None:
        """The edges of a type, without those that are dropped."""
        table, part = self._all("edges", name), self.description.edges[name]
        if table is None or part.unknown != "drop" or not _has_ends(table, part):
            return table
        kept = np.ones(len(table), dtype=bool)
        for column, node_type in zip(_columns(part), self.description.ends(name), strict=True):
            nodes = self._all("nodes", node_type)
            if nodes is None or self.description.nodes[node_type].id not in nodes.columns:
                return table
            known = {"", *nodes.texts(self.description.nodes[node_type].id)}
            kept &= np.array([text in known for text in table.texts(column)], dtype=bool)
        of_file = kept[: table.own]
        if not of_file.all():
            dropped = f"{name}: {(~of_file).sum():,} of {counted(of_file.size, 'edge')}"
            self.problems.notes.append(f"{dropped} dropped, because an end is in no table")
        return table.only(kept)

    def _ends(self, edge_type: str, node_type: str) -> list[str]:
        """The ids of a node type that edges of another type name."""
        table, part = self._all("edges", edge_type), self.description.edges[edge_type]
        if table is None or not _has_ends(table, part):
            return []
        ends = zip(_columns(part), self.description.ends(edge_type), strict=True)
        return [*chain(*(table.texts(column) for column, of in ends if of == node_type))]

    def _all(self, kind: Kind, name: str) -> Table | None:
        """The table of a type, with the rows of the past."""
        if (kind, name) not in self._joined:
            part = getattr(self.description, kind)[name]
            table = None if part.file is None else self.read(part.file)
            if self.past is not None and (part.file is None or table is not None):
                table = self.past.added_to(table, kind, name, self.description, self.problems)
            self._joined[kind, name] = table
        return self._joined[kind, name]


def _with_stubs(table: Table, column: str, ids: Sequence[str]) -> Table:
    """The table, and below it a row for each of these ids, whose other cells are empty."""
    empty = np.full(len(ids), "", object)
    columns = {name: np.concatenate([one, empty]) for name, one in table.columns.items()}
    kind = table.columns[column].dtype
    are_numbers = kind.kind in "iu" and all(one.isdecimal() for one in ids)
    added = np.array(ids, dtype=object).astype(kind if are_numbers else object)
    columns[column] = np.concatenate([table.columns[column], added])
    own, lines = len(table) if table.own is None else table.own, [*table.lines, *[0] * len(ids)]
    return replace(table, columns=columns, lines=lines, own=own, stubs=len(ids))


def new_rows(table: Table) -> Tensor:  # [rows]
    """The part of each row if those of the past are trained on, and the others are scored."""
    is_own = torch.arange(len(table)) < (len(table) if table.own is None else table.own)
    return torch.where(is_own, PARTS.index("test"), PARTS.index("train"))


def _columns(part: EdgePart) -> tuple[str, str]:
    return part.source, part.target


def _has_ends(table: Table, part: EdgePart) -> bool:
    return all(column in table.columns for column in _columns(part))
