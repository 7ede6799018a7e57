"""How figures look and how they are saved."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy import float64
from numpy.typing import NDArray

from ramet.disk import replace_file
from ramet.errors import RametError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#000000", "#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#8C6D31", "#D55E00", "#009E73")
"""After Okabe and Ito, whose palette is made for readers with colour blindness."""
DASHES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "h", "<")
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "ramet",
    "savefig.dpi": 150,
}


_ROOM = 0.04
"""Of the length of an axis; half a mark is shorter."""


@contextmanager
def new_figure(
    width: float, height: float, panels: int = 1, rows: int = 1
) -> Iterator[tuple[Figure, Any]]:
    """Create an empty figure in our style, without a display and without global state."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RametError(
            "figures need matplotlib. Install it: pip install 'ramet[report]'."
        ) from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, panels)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Save a figure as PNG and SVG."""
    save_as(figure, folder / f"{name}.png")
    save_as(figure, folder / f"{name}.svg")


def save_as(figure: Figure, path: Path) -> None:
    """Save a figure in the format that the file's ending names."""
    kind = path.suffix.lower().removeprefix(".")
    replace_file(path, lambda temporary: _write(figure, temporary, kind))


def inline(figure: Figure) -> str:
    """Return a figure as an SVG element for an HTML page."""
    text = io.StringIO()
    _write(figure, text, "svg")
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _write(figure: Figure, target: Path | io.StringIO, kind: str) -> None:
    import matplotlib as mpl

    undated = {"Date": None} if kind == "svg" else None
    with mpl.rc_context(_STYLE):
        figure.savefig(target, format=kind, bbox_inches="tight", metadata=undated)


def line_style(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
    }


def from_zero(axes: Axes) -> None:
    """Begin the x axis at 0, and leave room for a whole mark there."""
    axes.set_xlim(left=-_ROOM * axes.get_xlim()[1])


def legend_right(axes: Axes, title: str) -> None:
    axes.legend(title=title, loc="center left", bbox_to_anchor=(1.01, 0.5), alignment="left")


def sample_std(values: NDArray[float64]) -> NDArray[float64]:
    """Sample standard deviation over the first axis; 0 for a single value."""
    std: NDArray[float64] = values.std(axis=0, ddof=min(1, len(values) - 1))
    return std
