"""Tables that stay readable in a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ramet.errors import one_line


def plain_table(title: str) -> Table:
    """Create a table without vertical lines, so that many columns fit into a narrow terminal."""
    return Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)


def list_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Create a table of texts whose first column does not wrap."""
    table = plain_table("")
    for index, head in enumerate(heads):
        table.add_column(head, no_wrap=index == 0)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _visible(cell: RenderableType) -> RenderableType:
    return "\n".join(map(one_line, cell.split("\n"))) if isinstance(cell, str) else cell


def without_truncation(table: Table) -> Table:
    """Make columns wide enough that no number or word is cut; columns that fold may be narrower.

    Names may come from other sites, so control characters are written as escapes.
    """
    for column in table.columns:
        column.header = _visible(column.header)
        column._cells[:] = map(_visible, column.cells)
        cells = [Text.from_markup(str(cell)).plain for cell in (column.header, *column.cells)]
        pieces = cells if column.no_wrap else [word for cell in cells for word in cell.split()]
        if column.overflow != "fold":
            column.min_width = max(map(cell_len, pieces), default=0)
    return table
