"""A table for LaTeX and a figure of gains, with short names, as a paper can use them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ramet.disk import write_atomically
from ramet.report import drawing
from ramet.report.study_tables import scale_of, standing_columns
from ramet.report.text import short_names
from ramet.studies.comparison import Standing

TABLE, FIGURE = "table.tex", "gains.pdf"
_WIDTH = 3.5
"""Inches, of a column in two columns."""


def write_for_paper(rows: Sequence[Standing], folder: Path) -> None:
    """Write both files; the figure only if there is a gain with an interval."""
    write_atomically(folder / TABLE, latex(rows))
    compared = [row for row in rows if row.gain_low is not None]
    if compared:
        _draw(rows, compared, folder / FIGURE)


def latex(rows: Sequence[Standing]) -> str:
    """A row per method, for the package booktabs."""
    import pandas as pd  # takes half a second to import

    columns = standing_columns(rows, None)
    shown = {
        "method": short_names([row.label for row in rows]),
        f"test {rows[0].metric}": columns["last round"],
        "gain": columns["gain"],
        "95 % interval": [_interval(row) for row in rows],
        "KB up": columns["up KB"],
    }
    return pd.DataFrame(shown).to_latex(index=False, escape=True, column_format="lrrrr")


def _interval(row: Standing) -> str:
    if row.gain_low is None or row.gain_high is None:
        return "–"
    return f"[{row.scale.change(row.gain_low, 2)}, {row.scale.change(row.gain_high, 2)}]"


def _draw(rows: Sequence[Standing], compared: Sequence[Standing], path: Path) -> None:
    names = dict(
        zip([row.label for row in rows], short_names([row.label for row in rows]), strict=True)
    )
    baseline = next((names[row.label] for row in rows if row.gain is None), "the first method")
    scale = scale_of(rows)
    with drawing.new_figure(_WIDTH, 0.7 + 0.22 * len(compared)) as (figure, axes):
        places = range(len(compared), 0, -1)
        for place, row in zip(places, compared, strict=True):
            ends = [scale.factor * (end or 0.0) for end in (row.gain_low, row.gain_high)]
            axes.plot(ends, [place, place], color=drawing.COLOURS[1])
            axes.plot(scale.factor * (row.gain or 0.0), place, "o", color=drawing.COLOURS[1])
        axes.axvline(0, linestyle=":", color=drawing.COLOURS[0])
        axes.set_yticks(places, [names[row.label] for row in compared])
        axes.set_xlabel(f"gain over {baseline}, with its 95 % interval")
    drawing.save_as(figure, path)
