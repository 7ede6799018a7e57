"""A site's tables without some of its graphs or nodes, as if they had never been in them."""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ramet.data.own.description import Description
from ramet.data.own.files import described
from ramet.data.own.problems import Problems
from ramet.data.own.tables import Table, read_table
from ramet.disk import write_atomically
from ramet.errors import RametError, unknown
from ramet.experiment.files import filling

Rows: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class People:
    """Ids of graphs, or of nodes of a type."""

    ids: frozenset[str]
    node_type: str | None = None

    @staticmethod
    def read(path: Path, node_type: str | None = None) -> People:
        """From a file with an id per line."""
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RametError(f"cannot read the ids in {path} ({error}).") from error
        ids = frozenset(filter(None, map(str.strip, lines)))
        if not ids:
            raise RametError(f"{path} names nobody. Write one id per line.")
        return People(ids, node_type)

    @property
    def label(self) -> str:
        """A short name, which other people do not have."""
        return hashlib.sha256("\n".join(sorted(self.ids)).encode()).hexdigest()[:8]

    def removed_from(self, toml: Path) -> Path:
        """Write the site's files without them, and without their links, beside its folder."""
        source = toml.absolute().parent
        folder = source.parent / f"{source.name}-without-{self.label}"
        with filling(folder):
            for name, table, theirs in self._marked(toml):
                kept = ~np.any([*theirs.values()], axis=0) if theirs else np.ones(len(table), bool)
                _write(folder / name, source / name, table, kept)
            shutil.copyfile(toml, folder / toml.name)
        return folder / toml.name

    def rows_in(self, toml: Path) -> dict[str, int]:
        """How many rows of the site's files are theirs, by file.

        Raises RametError if one of the ids is in no file.
        """
        counts, found = dict[str, int](), set[str]()
        for name, table, theirs in self._marked(toml):
            counts[name] = int(np.any([*theirs.values()], axis=0).sum()) if theirs else 0
            for column, rows in theirs.items():
                found |= {*table.only(rows).texts(column)}
        if missing := sorted(self.ids - found):
            raise RametError(
                f"{len(missing)} of {len(self.ids)} ids are in no table of {toml}, "
                f"'{missing[0]}' among them."
            )
        return counts

    def _marked(self, toml: Path) -> Iterator[tuple[str, Table, Mapping[str, Rows]]]:
        """Each file, its table, and by column which rows have one of the ids."""
        for name, columns in self._columns(toml).items():
            table = _read(toml.absolute().parent / name, name, toml)
            for column in columns - {*table.columns}:
                raise RametError(f"{name} has no column {column}, where the ids would be.")
            theirs = {
                column: np.array([text in self.ids for text in table.texts(column)], bool)
                for column in sorted(columns)
            }
            yield name, table, theirs

    def _columns(self, toml: Path) -> Mapping[str, set[str]]:
        """By file, the columns in which the ids are."""
        site = described(toml)
        columns: dict[str, set[str]] = defaultdict(set)
        graphs = site.graphs
        if site.tensors or (graphs and graphs.folder):
            raise RametError(
                f"{toml} describes tensors or a folder of files, from which Ramet removes nobody. "
                "Write the site's data without them to another folder, and train on that."
            )
        chosen = None if graphs else self._chosen(site)
        if graphs and graphs.file:
            columns[graphs.file] |= {graphs.id}
        for name, part in site.nodes.items():
            if part.file:
                columns[part.file] |= {part.graph} if graphs else set()
                columns[part.file] |= {part.id} if name == chosen else set()
        for name, edges in site.edges.items():
            if edges.file:
                head, tail = site.ends(name)
                columns[edges.file] |= {
                    *([edges.graph] if graphs else []),
                    *([edges.source] if head == chosen else []),
                    *([edges.target] if tail == chosen else []),
                }
        return columns

    def _chosen(self, site: Description) -> str:
        types = [*site.nodes]
        if self.node_type is None and len(types) > 1:
            raise RametError(
                f"the ids can be of {', '.join(types)}. Say which, such as --type {types[0]}."
            )
        if self.node_type not in (None, *types):
            raise unknown("node type", str(self.node_type), types)
        return self.node_type or types[0]


def _read(path: Path, name: str, toml: Path) -> Table:
    problems = Problems()
    table = read_table(path, name, problems)
    if table is None or problems:
        raise RametError(f"{problems.sorted()[0]} (`ramet data check {toml}` lists all)")
    return table


def _write(path: Path, source: Path, table: Table, kept: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        parquet.write_table(parquet.read_table(source).filter(kept), path)
        return
    text, rest = io.StringIO(), table.only(kept)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rest.columns)
    writer.writerows(zip(*rest.columns.values(), strict=True))
    write_atomically(path, text.getvalue())
