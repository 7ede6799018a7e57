"""The content of a table for the terminal, without colours and lines."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text


def headers(table: Table) -> list[str]:
    return [_plain(str(column.header)) for column in table.columns]


def rows(table: Table) -> list[tuple[str, ...]]:
    cells = ([_plain(str(cell)) for cell in column.cells] for column in table.columns)
    return list(zip(*cells, strict=True))


def columns(table: Table) -> dict[str, list[str]]:
    """The cells of each column by its header; headers must be distinct."""
    names = headers(table)
    assert len(set(names)) == len(names)
    return {name: [row[place] for row in rows(table)] for place, name in enumerate(names)}


def printed(table: Table, width: int = 200) -> str:
    """The table as printed to a terminal of this width; it is not cropped."""
    out = io.StringIO()
    Console(file=out, width=width).print(table, crop=False)
    return out.getvalue()


def _plain(cell: str) -> str:
    return Text.from_markup(cell).plain
