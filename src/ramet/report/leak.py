"""Audits of `ramet leak` as a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ramet.leak import ATTACKS, Audit, Finding
from ramet.leak.findings import View
from ramet.report.drawing import COLOURS, MARKS, new_figure
from ramet.report.plain_table import plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOT_DRAWN = ("epsilon",)
"""Has no upper end and another scale than the other attacks."""


def leak_table(audit: Audit) -> Table:
    """One row per attack and view."""
    table = plain_table("")
    table.add_column("attack", no_wrap=True)
    table.add_column("seen", no_wrap=True)
    for head in ("result", "95 % interval", "chance"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("what it is")
    for one in audit.findings:
        about = f"{ATTACKS[one.attack]}" + (f"; {one.note}" if one.note else "")
        table.add_row(one.attack, one.view, *one.cells, verdict(one), about)
    return table


def verdict(one: Finding) -> str:
    """What the interval says."""
    if one.value is None:
        return "does not apply"
    if one.leaks:
        return "leaks"
    return "not shown" if one.has_power else "no power here"


def leak_figure(audits: Mapping[str, Audit]) -> Figure:
    """Results and intervals of several audits, by attack and view, with chance as a line."""
    lines = [
        (one.attack, one.view)
        for one in next(iter(audits.values())).findings
        if one.attack not in _NOT_DRAWN
    ]
    lines = [
        line
        for line in lines
        if any((found := audit.of(*line)) and found.value is not None for audit in audits.values())
    ]
    with new_figure(8.0, 1.2 + 0.4 * len(lines)) as (figure, axes):
        for index, (name, audit) in enumerate(audits.items()):
            _draw(axes, audit, lines, name, index, len(audits))
        axes.set_yticks(range(len(lines)), [f"{attack}, {view}" for attack, view in lines])
        axes.invert_yaxis()
        axes.set_xlabel("result with 95 % interval; grey: chance")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), title="protection")
    return figure


def _draw(
    axes: Any, audit: Audit, lines: list[tuple[str, View]], name: str, index: int, total: int
) -> None:
    colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
    shift = (index - (total - 1) / 2) * 0.6 / max(total, 1)
    labelled = False
    for row, line in enumerate(lines):
        one = audit.of(*line)
        if one is None or one.value is None or one.chance is None:
            continue
        low, high = one.low if one.low is not None else 0.0, one.high if one.high is not None else 1
        height = row + shift
        axes.plot([low, high], [height, height], color=colour, linewidth=1.5)
        label = None if labelled else name
        axes.plot(one.value, height, mark, color=colour, markersize=5, label=label)
        axes.plot([one.chance] * 2, [height - 0.12, height + 0.12], color="grey", linewidth=2)
        labelled = True
