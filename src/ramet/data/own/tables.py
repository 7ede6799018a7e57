"""Tables from CSV and Parquet, and their columns as numbers, classes and references.

CSV is read by Python's own reader because it provides the line number of each problem.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data.own.columns import ColumnPart, ColumnValues, absent_values, found_markers, parsed
from ramet.data.own.hints import (
    NEGATIVE_HINT,
    OF_NODES,
    SAVE_AS_CSV,
    did_you_mean,
    format_hint,
    header_hint,
    id_hint,
    missing_hint,
    number_hint,
)
from ramet.data.own.problems import Problems, shown
from ramet.data.splits import PARTS

NO_PART = -1
_NONE = "none"
_MAX_PARQUET = 2**34
_ROWS_AT_ONCE = 2**12
Cells: TypeAlias = NDArray[Any]
"""Text, or numbers if the file has typed columns."""
Ids: TypeAlias = NDArray[Any]
"""Identifiers of rows as in the table: text, or integers if the file has typed columns."""


@dataclass(frozen=True)
class Table:
    """Named columns, and the line number of each row."""

    file: str
    columns: Mapping[str, Cells]
    lines: Sequence[int]
    problems: Problems
    place: str = OF_NODES
    """Where the kinds of its columns can be declared, for messages; empty if nowhere."""
    own: int | None = None
    """How many rows are of the file; None for all. The others are of ``past_file``."""
    past_file: str = ""
    stubs: int = 0
    """How many rows at the end stand for ids that only edges have."""

    def followed_by(self, past: Table) -> Table:
        """This table, and below it the rows of another one; cells that one lacks are empty."""
        names = dict.fromkeys([*self.columns, *past.columns])
        columns = {
            name: np.concatenate(
                [one.columns.get(name, np.full(len(one), "", object)) for one in (self, past)]
            )
            for name in names
        }
        lines = [*self.lines, *past.lines]
        return replace(self, columns=columns, lines=lines, own=len(self), past_file=past.file)

    def only(self, rows: NDArray[Any]) -> Table:
        """The table with some rows; ``rows`` says of each whether it is kept."""
        lines = [line for line, kept in zip(self.lines, rows, strict=True) if kept]
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        own = None if self.own is None else int(rows[: self.own].sum())
        return replace(self, columns=columns, lines=lines, own=own)

    def renamed(self, names: Mapping[str, str]) -> Table:
        """The table with other names of some columns."""
        columns = {names.get(name, name): cells for name, cells in self.columns.items()}
        return replace(self, columns=columns)

    def report(self, row: int, column: str, text: str) -> None:
        """Report a problem with a row, counted from 0."""
        of_past = self.own is not None and row >= self.own
        self.problems.add(self.past_file if of_past else self.file, text, self.lines[row], column)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def stub_rows(self) -> range:
        return range(len(self) - self.stubs, len(self))

    def has(self, names: Sequence[str]) -> bool:
        """Whether the table has these columns; missing ones are reported as problems."""
        missing = [name for name in names if name not in self.columns]
        for name in missing:
            existing = ", ".join(self.columns) or "none"
            hint = did_you_mean(name, self.columns) or header_hint(self.columns)
            text = f"there is no such column. The columns are {existing}{hint}"
            self.problems.add(self.file, text, 1, name)
        return not missing

    def note_unused(self, used: Collection[str | None], file: str | None = None) -> None:
        """Note the columns that nothing reads; ``file`` stands for many files of the same kind."""
        unused = [name for name in self.columns if name not in used]
        if unused:
            self.problems.unused.setdefault(file or self.file, {}).update(dict.fromkeys(unused))

    def texts(self, column: str) -> list[str]:
        return [str(cell).strip() for cell in self.columns[column].tolist()]

    def numbers(self, names: Sequence[str]) -> Tensor:  # [rows, names]
        """Read columns as finite numbers; without any columns, return a column of ones."""
        if not names:
            return torch.ones((len(self), 1))
        return torch.stack([self._number(name) for name in names], dim=1)

    def weights(self, column: str) -> Tensor:  # [rows]
        """Read a column as weights, which are finite and not negative."""
        weights = replace(self, place="")._number(column)
        for row in (weights < 0).nonzero().flatten().tolist():
            text = shown(str(self.columns[column][row]))
            self.report(row, column, f"{text} is negative{NEGATIVE_HINT}")
        return weights

    def values(self, parts: Mapping[str, ColumnPart]) -> ColumnValues:
        """Read columns of declared kinds."""
        values = {
            name: absent_values(part, len(self)) if part.absent else self._values(name, part)
            for name, part in parts.items()
        }
        read = {name: part for name, part in parts.items() if not part.absent}
        marked = {name: found_markers(part, self.columns[name]) for name, part in read.items()}
        return ColumnValues(parts, values, len(self), marked)

    def _values(self, column: str, part: ColumnPart) -> Cells:
        return parsed(part, self.columns[column], lambda row, text: self.report(row, column, text))

    def identifiers(self, column: str) -> Ids:
        cells = self.columns[column]
        return cells if cells.dtype.kind in "iu" else np.array(self.texts(column), dtype=object)

    def ids(self, column: str) -> dict[str, int]:
        """Map each id to its row; missing and duplicate ids are problems."""
        return self.keys([self.texts(column)], column)

    def keys(self, parts: Sequence[list[str]], column: str) -> dict[Any, int]:
        """Like ``ids``, for ids that consist of several columns."""
        row_of: dict[Any, int] = {}
        for row, key in enumerate(zip(*parts, strict=True)):
            full_id = key if len(key) > 1 else key[0]
            if not key[-1]:
                self.report(row, column, "the id is missing")
            elif full_id in row_of:
                first = self.lines[row_of[full_id]]
                self.report(
                    row,
                    column,
                    f"{shown(key[-1])} already appears in row {first}. Ids must be unique",
                )
            else:
                row_of[full_id] = row
        return row_of

    def labels(self, column: str, classes: Sequence[str], parts: Tensor | None) -> Tensor:
        """[rows] index of the class; rows in no part may lack a class and get -1."""
        index = {name: number for number, name in enumerate(classes)}
        labels, stubs = [-1] * len(self), self.stub_rows
        for row, text in enumerate(self.texts(column)):
            if text in index:
                labels[row] = index[text]
            elif not text and (row in stubs or _is_in_none(parts, row)):
                continue
            elif not text:
                hint = "; write none in a column that `split` names to leave a row unlabelled"
                self.report(row, column, f"the class is missing{hint}")
            else:
                hint = did_you_mean(text, classes)
                text = f"{shown(text)} is not one of the classes {', '.join(classes)}{hint}"
                self.report(row, column, text)
        return torch.tensor(labels)

    def parts(self, column: str | None) -> Tensor | None:
        """[rows] 0, 1 or 2 for train, val and test, -1 for none of them."""
        if column is None:
            return None
        number_of = {**{name: number for number, name in enumerate(PARTS)}, _NONE: NO_PART}
        parts = [NO_PART] * len(self)
        for row, text in enumerate(self.texts(column)[: len(self) - self.stubs]):
            if text not in number_of:
                self.report(row, column, f"{shown(text)} is not one of train, val, test, none")
            else:
                parts[row] = number_of[text]
        return torch.tensor(parts)

    def references(
        self, column: str, rows: Mapping[Any, int], what: str, graphs: list[str] | None = None
    ) -> Tensor:
        """[rows] index of the referenced row of another table.

        With ``graphs``, the graph of each row, keys of ``rows`` are pairs of graph and id.
        """
        referenced = [-1] * len(self)
        for row, text in enumerate(self.texts(column)):
            target = rows.get(text if graphs is None else (graphs[row], text))
            if target is None:
                within = f" in graph {shown(graphs[row])}" if graphs else id_hint(text, what, rows)
                self.report(row, column, f"there is no {what} {shown(text)}{within}")
            else:
                referenced[row] = target
        return torch.tensor(referenced, dtype=torch.int64)

    def _number(self, column: str) -> Tensor:
        cells = self.columns[column]
        try:
            values = cells.astype(np.float64)
        except (ValueError, TypeError):
            values = np.array([self._parsed(row, column) for row in range(len(self))])
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        for row in np.flatnonzero(~np.isfinite(narrow)).tolist():
            text = str(cells[row])
            if _is_number(text):  # otherwise it was reported already
                hint = number_hint(text, self.place)
                self.report(row, column, f"{shown(text)} is not a finite number{hint}")
        return torch.from_numpy(narrow)

    def _parsed(self, row: int, column: str) -> float:
        text = str(self.columns[column][row])
        if _is_number(text):
            return float(text)
        self.report(
            row,
            column,
            f"{shown(text)} is not a number{number_hint(text, self.place)}"
            if text.strip()
            else f"the number is missing{missing_hint(self.place)}",
        )
        return float("nan")


def read_table(path: Path, name: str, problems: Problems) -> Table | None:
    """Read a CSV or Parquet file, or report why not and return None.

    ``name`` is the file's name in messages.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        problems.add(name, f"is neither {' nor '.join(_READERS)}{format_hint(path.suffix)}")
        return None
    return reader(path, name, problems)


def _read_csv(path: Path, name: str, problems: Problems) -> Table | None:
    rows: list[list[str]] = []
    chunks: list[list[Cells]] = []
    lines: list[int] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            if not _is_valid_header(header, name, problems):
                return None
            for cells in reader:
                if len(cells) == len(header):
                    rows.append(cells)
                    lines.append(reader.line_num)
                    if len(rows) == _ROWS_AT_ONCE:
                        chunks.append(_transposed(rows))
                        rows = []
                elif cells:  # skip empty lines
                    text = f"has {len(cells)} cells, but the header has {len(header)}"
                    if len(cells) > len(header):
                        text += "; a comma within a cell needs quotes, in a number write a point"
                    problems.add(name, text, reader.line_num)
    except csv.Error as error:
        problems.add(name, f"is not valid CSV ({error}). {SAVE_AS_CSV}", reader.line_num)
        return None
    except UnicodeDecodeError:
        problems.add(name, f"is not UTF-8 text. {SAVE_AS_CSV}")
        return None
    except OSError as error:
        problems.add(name, f"cannot be read ({error.strerror or error})")
        return None
    chunks += [_transposed(rows)] if rows else []
    by_column = [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
    if not lines:
        by_column = [np.array([], dtype=object) for _ in header]
    return Table(name, dict(zip(header, by_column, strict=True)), lines, problems)


def _transposed(rows: list[list[str]]) -> list[Cells]:
    """The columns of some rows; a million lists would keep the garbage collector busy."""
    return [np.array(column, dtype=object) for column in zip(*rows, strict=True)]


def _is_valid_header(header: list[str], name: str, problems: Problems) -> bool:
    separator = next((char for char in ";\t|" if len(header) == 1 and char in header[0]), None)
    if separator:
        what = "tabs" if separator == "\t" else f"'{separator}'"
        problems.add(name, f"cells are separated by {what}. Separate them by commas", 1)
        return False
    if not header:
        problems.add(name, "is empty. The first line must name the columns")
    duplicates = sorted({column for column in header if header.count(column) > 1})
    for column in duplicates:
        problems.add(name, "the header has this column more than once", 1, column)
    return bool(header) and not duplicates


def _read_parquet(path: Path, name: str, problems: Problems) -> Table | None:
    try:
        from pyarrow import ArrowException, parquet  # optional dependency
    except ImportError:
        problems.add(name, "Parquet needs pyarrow. Install it: pip install 'ramet[parquet]'")
        return None
    try:
        facts = parquet.read_metadata(path)
        unpacked = sum(facts.row_group(n).total_byte_size for n in range(facts.num_row_groups))
        if max(unpacked, facts.num_rows) > _MAX_PARQUET:
            problems.add(name, f"would unpack to {unpacked:,} bytes, more than allowed")
            return None
        read = parquet.read_table(path)
        header = list(read.column_names)
        columns = [_cells(column) for column in read.columns]
    except (ArrowException, OSError, ValueError) as error:
        problems.add(name, f"is not a readable Parquet file ({_first_line(error)})")
        return None
    if not _is_valid_header(header, name, problems):
        return None
    lines = range(1, read.num_rows + 1)
    return Table(name, dict(zip(header, columns, strict=True)), lines, problems)


def _cells(column: Any) -> Cells:
    """Return numbers as they are and everything else as text; missing values are empty."""
    if not column.null_count:
        values: Cells = column.to_numpy()
        if values.dtype.kind in "iuf":
            return values
    texts = ["" if value is None else str(value) for value in column.to_pylist()]
    return np.array(texts, dtype=object)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _is_in_none(parts: Tensor | None, row: int) -> bool:
    """Whether a row is in no part of the split."""
    return parts is not None and int(parts[row]) == NO_PART


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[Path, str, Problems], Table | None]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
TABLES = tuple(_READERS)
