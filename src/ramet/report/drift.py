"""New rows beside those of before, column by column."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from ramet.data.own.columns import EPOCH
from ramet.report.drawing import COLOURS, new_figure
from ramet.report.plain_table import plain_table
from ramet.studies.drift import LARGE, LEVEL, SMALL, Drift, Drifted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DRAWN, _MOST_CATEGORIES = 30, 3


def drift_table(found: Drift) -> Table:
    """A row per column, those that have changed first."""
    table = plain_table(f"{found.site}: new rows beside those of before")
    table.add_column("column", overflow="fold")
    table.add_column("PSI", justify="right")
    table.add_column("p (Holm)", justify="right")
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("before", overflow="fold")
    table.add_column("outside", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for one in found.columns:
        least = min(one.values.p_value, one.gaps.p_value)
        missing = "then ".join(f"{100 * share:.0f} % " for share in one.missing).strip()
        table.add_row(
            escape(one.name),
            f"{one.psi:.2f}",
            f"{least:.2g}",
            missing if any(one.missing) else "",
            _before(one),
            f"{100 * one.outside:.1f} %" if one.outside else "",
            one.verdict,
        )
    table.caption = (
        f"outside: share of new values outside the range, or in new categories; changed: p (Holm) "
        f"below {LEVEL} and PSI from {SMALL}, much from {LARGE}"
    )
    return table


def _before(one: Drifted) -> str:
    """The range, or the categories that were not there."""
    if one.spans[0] is not None:
        return " to ".join(_value(end, one.kind) for end in one.spans[0])
    if not one.categories:
        return ""
    more = ", …" if len(one.categories) > _MOST_CATEGORIES else ""
    return escape(f"not {', '.join(one.categories[:_MOST_CATEGORIES])}{more}")


def _value(value: float, kind: str) -> str:
    return f"{EPOCH + timedelta(days=value):%Y-%m-%d}" if kind == "date" else f"{value:g}"


def drift_figure(found: Drift) -> Figure:
    """The PSI of each column as a bar, with the bounds; those that have changed are coloured."""
    drawn = found.columns[:_MOST_DRAWN][::-1]
    with new_figure(8, 1.2 + 0.28 * len(drawn)) as (figure, axes):
        colours = [COLOURS[6] if one.changed else "0.7" for one in drawn]
        axes.barh([one.name for one in drawn], [one.psi for one in drawn], color=colours)
        for bound, text, side in ((SMALL, "change ", "right"), (LARGE, " large change", "left")):
            axes.axvline(bound, color="0.3", linestyle=":", linewidth=1)
            axes.text(bound, 1.0, text, ha=side, transform=axes.get_xaxis_transform(), fontsize=8)
        axes.set(xlabel="population stability index", xlim=(0, max(0.4, axes.get_xlim()[1])))
        axes.set_title(_title(found), loc="left", pad=14)
        axes.grid(axis="y", visible=False)
    return figure


def _title(found: Drift) -> str:
    every, changed = len(found.columns), len(found.changed)
    return f"{found.site}: {changed} of {every} columns changed by more than chance (coloured)"
