"""The ledger of printed cells as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ramet.papers.ledger import Command, Entry, Ledger
from ramet.papers.ledger_tables import counts, hours, to_decide, totals
from ramet.report.text import markdown_table


def ledger_markdown(ledger: Ledger) -> str:
    """All tables and figures, each as a grid if it has one, and the queue."""
    return "\n\n".join([totals(ledger), *_grids(ledger.cells), *_queue(ledger.queue)])


def _grids(cells: Sequence[Entry]) -> Iterator[str]:
    for table in dict.fromkeys(cell.table for cell in cells):
        own = [cell for cell in cells if cell.table == table]
        yield f"### {table}"
        reasons = dict.fromkeys(cell.reason for cell in own if cell.reason)
        yield " ".join([f"{counts(own)}.", *(f"{one[0].upper()}{one[1:]}." for one in reasons)])
        if {cell.status for cell in own} != {"not available"}:
            yield _grid(own)


def _grid(cells: Sequence[Entry]) -> str:
    """Rows and columns as printed."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_place = {(cell.row, cell.column): cell for cell in cells}
    rows = dict.fromkeys(cell.row for cell in cells)
    return markdown_table(
        ["", *columns],
        [(row, *(_place(by_place.get((row, column))) for column in columns)) for row in rows],
    )


def _place(cell: Entry | None) -> str:
    """`holds (1 × 5)`: splits × seeds; `holds (9 on 5)`: runs on splits with unequal seeds.

    `undecided (5 × 1, of 12)`: 12 splits would decide it.
    """
    if cell is None:
        return ""
    if not cell.runs:
        return cell.status
    complete = cell.runs == cell.splits * cell.seeds
    runs = f"{cell.splits} × {cell.seeds}" if complete else f"{cell.runs} on {cell.splits}"
    wanted = f", of {to_decide(cell)}" if cell.status == "undecided" and cell.splits > 1 else ""
    return f"{cell.status} ({runs}{wanted})"


def _queue(queue: Sequence[Command]) -> Iterator[str]:
    yield "## The queue"
    yield (
        "What would add most, cheapest first, and last what cannot be compared with print. "
        "Core-hours are estimated from the CPU-seconds of kept runs, or the seconds of those that "
        "did not count them; ? if there are none. A command continues where it stopped, and kept "
        "runs are not repeated. `python results/missing_runs.py SCRATCH` does one run after the "
        "other, the main tables first."
    )
    yield markdown_table(
        ("core-hours", "runs", "now", "command"),
        [(hours(one.hours), str(one.runs), one.status, f"`{one.text}`") for one in queue],
    )
