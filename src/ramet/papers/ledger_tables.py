"""The ledger of printed cells, as tables of the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from ramet.papers.ledger import STATUSES, Entry, Ledger
from ramet.papers.reproduction import ReproducedCell
from ramet.report.plain_table import list_table
from ramet.report.text import plural
from ramet.studies.gains import FEWEST_PAIRS, MOST_PAIRS

_BLANK = "–"


def status_table(ledger: Ledger) -> Table:
    """A row per cell that could be run."""
    cells = [cell for cell in ledger.cells if cell.status != "not available"]
    heads = (
        *("table", "row", "column", "status", "seeds", "splits"),
        *("splits to decide", "core-hours left"),
    )
    return list_table(heads, [(cell.table, *_cell_texts(cell)) for cell in cells])


def queue_table(ledger: Ledger) -> Table:
    """A row per command, most valuable first."""
    return list_table(
        ("core-hours", "runs", "status", "command"),
        [(hours(one.hours), str(one.runs), one.status, one.text) for one in ledger.queue],
    )


def counts(cells: Sequence[Entry | ReproducedCell]) -> str:
    """`3 holds, 13 undecided, 12 not run`."""
    found = Counter(cell.status for cell in cells)
    return ", ".join(f"{found[status]} {status}" for status in STATUSES if found[status])


def totals(ledger: Ledger) -> str:
    """How much of the main tables and of everything is done, and what is left."""
    main, left = ledger.main_cells(), sum(one.hours or 0.0 for one in ledger.queue)
    run = sum(cell.status != "not run" for cell in main)
    whole = sum(cell.splits >= FEWEST_PAIRS for cell in main)
    return (
        f"Main tables: {run} of {len(main)} cells are run, {whole} of them on at least "
        f"{FEWEST_PAIRS} splits ({counts(main)}). All: "
        f"{counts(ledger.cells)}. Left: {plural(len(ledger.queue), 'command')}, about {left:.0f} "
        "core-hours."
    )


def _cell_texts(cell: Entry) -> tuple[str, ...]:
    return (
        *(cell.row, cell.column, cell.status, str(cell.seeds or _BLANK)),
        *(str(cell.splits or _BLANK), to_decide(cell) or _BLANK),
        hours(cell.hours) if cell.hours != 0 else _BLANK,
    )


def to_decide(cell: Entry) -> str:
    """How many splits an undecided cell would take."""
    if cell.status != "undecided":
        return ""
    if cell.splits_to_decide is None:
        return f"over {MOST_PAIRS}"
    return f"{'at least ' * (cell.splits < 2)}{cell.splits_to_decide}"


def hours(count: float | None) -> str:
    return "?" if count is None else f"{count:.1f}"
