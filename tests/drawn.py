"""The content of figures, read from their Matplotlib objects."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def legend(panel: Axes) -> list[str]:
    shown = panel.get_legend()
    assert shown is not None
    return [text.get_text() for text in shown.get_texts()]


def xs(line: Any) -> list[float]:
    return [float(value) for value in line.get_xdata()]


def ys(line: Any) -> list[float]:
    return [float(value) for value in line.get_ydata()]


def the_panel(figure: Figure) -> Axes:
    (panel,) = figure.axes
    return panel
