"""The ledger of printed cells and the claims of papers, as tables of the terminal and of pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from ramet.papers.claims import Outcome
from ramet.papers.ledger import STATUSES, Command, Entry, Ledger
from ramet.report.plain_table import list_table
from ramet.report.text import markdown_table, plural
from ramet.studies.choice import Choice

_BLANK = "–"


def status_table(ledger: Ledger) -> Table:
    """A row per cell that could be run."""
    cells = [cell for cell in ledger.cells if cell.status != "not available"]
    heads = ("table", "row", "column", "status", "seeds", "splits", "core-hours left")
    return list_table(heads, [(cell.table, *_cell_texts(cell)) for cell in cells])


def queue_table(ledger: Ledger) -> Table:
    """A row per command, most valuable first."""
    return list_table(
        ("core-hours", "runs", "status", "command"),
        [(_hours(one.hours), str(one.runs), one.status, one.text) for one in ledger.queue],
    )


def counts(cells: Sequence[Entry]) -> str:
    """`3 holds, 13 undecided, 12 not run`."""
    found = Counter(cell.status for cell in cells)
    return ", ".join(f"{found[status]} {status}" for status in STATUSES if found[status])


def totals(ledger: Ledger) -> str:
    """How much of the main tables and of everything is done, and what is left."""
    main, hours = ledger.main_cells(), sum(one.hours or 0.0 for one in ledger.queue)
    run = sum(cell.status != "not run" for cell in main)
    return (
        f"Main tables: {run} of {len(main)} cells are run ({counts(main)}). All: "
        f"{counts(ledger.cells)}. Left: {plural(len(ledger.queue), 'command')}, about {hours:.0f} "
        "core-hours."
    )


def _cell_texts(cell: Entry) -> tuple[str, ...]:
    return (
        *(cell.row, cell.column, cell.status, str(cell.seeds or _BLANK)),
        *(str(cell.splits or _BLANK), _hours(cell.hours) if cell.hours != 0 else _BLANK),
    )


def _hours(hours: float | None) -> str:
    return "?" if hours is None else f"{hours:.1f}"


def claims_markdown(outcomes: Sequence[Outcome]) -> str:
    """A row per comparison that was run, by claim."""
    rows: list[tuple[str, ...]] = []
    left, before = 0, ("", "")
    for one in outcomes:
        if one.status == "not run":
            left += 1
            continue
        now = (one.claim.paper, one.claim.says)
        paper, says = ("", "") if now == before else now
        before = now
        comparison = f"`{one.claim.better}` over `{one.claim.than}` on `{one.claim.folder}`"
        rows.append((paper, says, comparison, f"**{one.status}**", _difference(one), _runs(one)))
    table = markdown_table(("paper", "claim", "comparison", "", "difference", "runs"), rows)
    further = f"{plural(left, 'further comparison')} of these claims"
    return f"{table}\n\n{further} {'is' if left == 1 else 'are'} not run." if left else table


def _difference(one: Outcome) -> str:
    if one.times_fewer_operations is not None:
        return f"{one.times_fewer_operations:.1f} times fewer operations"
    gain = one.gain
    assert gain is not None
    text = f"{100 * gain.mean:+.2f}"
    if gain.low is not None and gain.high is not None:
        text += f" [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
    if one.claim.at_least:
        text += f", at least {one.claim.at_least:+g} asked for"
    if one.share_of_bytes is not None:
        text += f", {100 * one.share_of_bytes:.0f} % of the bytes"
    return text


def _runs(one: Outcome) -> str:
    if one.times_fewer_operations is not None:
        return "counted"
    seeds = plural(one.seeds, "seed")
    if one.splits == 1:
        text = f"{seeds} of one split"
    elif one.runs == one.splits * one.seeds:
        text = f"{one.splits} splits × {seeds}"
    else:
        text = f"{one.runs} runs on {one.splits} splits"
    if one.claim.round is not Choice.LAST:
        text += f"; {one.claim.round.value}"
    if one.depends_on_round:
        others = (f"{choice.value}: {status}" for choice, status in one.other_rounds.items())
        text += f"; **depends on the round** ({', '.join(others)})"
    return text


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
    """`holds (1 × 5)`: splits × seeds; `holds (9 on 5)`: runs on splits with unequal seeds."""
    if cell is None:
        return ""
    if not cell.runs:
        return cell.status
    complete = cell.runs == cell.splits * cell.seeds
    runs = f"{cell.splits} × {cell.seeds}" if complete else f"{cell.runs} on {cell.splits}"
    return f"{cell.status} ({runs})"


def _queue(queue: Sequence[Command]) -> Iterator[str]:
    yield "## The queue"
    yield (
        "What would add most, cheapest first, and last what cannot be compared with print. "
        "Core-hours are estimated from the seconds of kept runs; ? if there are none. A command "
        "continues where it stopped, and kept runs are not repeated."
    )
    yield markdown_table(
        ("core-hours", "runs", "now", "command"),
        [(_hours(one.hours), str(one.runs), one.status, f"`{one.text}`") for one in queue],
    )
