"""An explained prediction as tables and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ramet.prediction.explanation import Explanation
from ramet.report.drawing import new_figure
from ramet.scale import SHARE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOR, AGAINST, PLAIN = "#0072B2", "#D55E00", "#B0B0B0"
_MOST_DRAWN = 12
_MOST_NUMBERED = 4
_FAINT = 0.45
_WIDEST, _THINNEST = 7.0, 0.6


def explanation_tables(found: Explanation, top: int) -> list[Table]:
    """The largest contributions of features and of links."""
    baseline = f"{_in_words(found, found.baseline)} without features and links"
    title = f"{found.id}: {_prediction(found, ' with')}, {baseline}"
    tables = [_table(title, found, found.features, top)]
    return [*tables, _table("links", found, found.links, top)] if len(found.links) else tables


def _table(title: str, found: Explanation, frame: pd.DataFrame, top: int) -> Table:
    table = Table(title=title, box=None, title_justify="left", min_width=len(title))
    numbers = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    for name in frame.columns:
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in frame.head(top).to_dict(orient="records"):
        table.add_row(
            *(_change(found, row[name]) if name in numbers else str(row[name]) for name in row)
        )
    return table


def _is_probability(found: Explanation) -> bool:
    return found.scale == SHARE


def _prediction(found: Explanation, between: str) -> str:
    """`ill with 51.1%`, or `age 41.2 years`."""
    joint = between if _is_probability(found) else ""
    return f"{found.output}{joint} {_in_words(found, found.value)}"


def _in_words(found: Explanation, value: float) -> str:
    if _is_probability(found):
        return f"{value:.1%}"
    return f"{value:.{_decimals(found)}f}{found.scale.suffix}"


def _change(found: Explanation, contribution: float) -> str:
    """In percentage points of a probability, or in the unit of a number."""
    return f"{found.scale.factor * contribution:+.{_decimals(found)}f}"


def _decimals(found: Explanation) -> int:
    """One for percentage points; for numbers, so that the largest contribution has three digits."""
    largest = 0.0 if _is_probability(found) else _largest(found)
    return max(0, 2 - floor(log10(largest))) if largest else 1


def _largest(found: Explanation) -> float:
    return max(_size(frame).max() for frame in (found.features, found.links) if len(frame))


def _negligible(found: Explanation) -> float:
    """Smaller contributions are shown as 0."""
    return float(0.5 * 10.0 ** -_decimals(found) / found.scale.factor)


def explanation_figure(found: Explanation) -> Figure:
    """The links that matter around a node, or in a graph, and the features that matter."""
    features = found.features[_size(found.features) >= _negligible(found)].head(_MOST_DRAWN)
    height = max(3.6, 1.2 + 0.34 * len(features))
    with new_figure(11, height, panels=2) as (figure, (left, right)):
        _draw_links(left, found)
        _draw_features(right, found, features)
        figure.suptitle(
            f"{found.id}: {_prediction(found, ', probability')}, without features and links "
            f"{_in_words(found, found.baseline)}. Blue raises it, orange lowers it."
        )
    return figure


def _draw_links(axes: Axes, found: Explanation) -> None:
    import networkx as nx

    axes.set_axis_off()
    drawn = found.links.head(_MOST_DRAWN)
    axes.set_title(f"links: {len(drawn)} of {len(found.links)}", loc="left", fontsize=10)
    graph = nx.Graph()
    for source, target, contribution in drawn.itertuples(index=False, name=None):
        graph.add_edge(str(source), str(target), contribution=contribution)
    if "value" in found.features:
        graph.add_node(found.id)
    if not graph:
        return
    places = nx.kamada_kawai_layout(graph, weight=None)
    largest = max((abs(c) for *_, c in graph.edges(data="contribution")), default=1.0) or 1.0
    for source, target, contribution in graph.edges(data="contribution"):
        (x0, y0), (x1, y1) = places[source], places[target]
        share = abs(contribution) / largest
        axes.plot(
            [x0, x1],
            [y0, y1],
            color=_colour(contribution),
            linewidth=_THINNEST + (_WIDEST - _THINNEST) * share,
            alpha=0.35 + 0.65 * share,
            solid_capstyle="round",
            zorder=1,
        )
    for source, target, contribution in drawn.head(_MOST_NUMBERED).itertuples(
        index=False, name=None
    ):
        (x0, y0), (x1, y1) = places[str(source)], places[str(target)]
        if abs(contribution) >= _negligible(found):
            text = _change(found, contribution)
            _draw_number(axes, (x0 + x1) / 2, (y0 + y1) / 2, text, _colour(contribution))
    for node, (x, y) in places.items():
        _draw_node(axes, node, x, y, node == found.id and "value" in found.features)
    axes.margins(0.15)


def _draw_number(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=8,
        color=colour,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
        zorder=2,
    )


def _draw_node(axes: Axes, name: str, x: float, y: float, explained: bool) -> None:
    short = name if len(name) <= 10 else f"{name[:9]}…"
    axes.text(
        x,
        y,
        short,
        ha="center",
        va="center",
        fontsize=9,
        weight="bold" if explained else "normal",
        color="white" if explained else "black",
        bbox={
            "boxstyle": "round,pad=0.35",
            "facecolor": "black" if explained else "white",
            "edgecolor": "black" if explained else PLAIN,
        },
        zorder=2,
    )


def _draw_features(axes: Axes, found: Explanation, features: pd.DataFrame) -> None:
    ordered = features.iloc[::-1]
    labels = [_label(row) for row in ordered.to_dict(orient="records")]
    places = range(len(ordered))
    own = (found.scale.factor * ordered["contribution"]).tolist()
    if "neighbours" in ordered:
        near = (found.scale.factor * ordered["neighbours"]).tolist()
        _bars(axes, [p + 0.2 for p in places], own, 0.36)
        _bars(axes, [p - 0.2 for p in places], near, 0.36, _FAINT)
        _legend(axes)
    else:
        _bars(axes, list(places), own, 0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(list(places), labels)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(
        "contribution to the probability, percentage points"
        if _is_probability(found)
        else found.scale.label(f"contribution to {found.output}")
    )
    axes.set_title("features", loc="left", fontsize=10)


def _bars(
    axes: Axes,
    places: Sequence[float],
    values: Sequence[float],
    height: float,
    alpha: float = 1.0,
) -> None:
    colours = [_colour(value) for value in values]
    axes.barh(places, values, height=height, color=colours, alpha=alpha)


def _legend(axes: Axes) -> None:
    from matplotlib.patches import Patch

    meanings = {"its own value": 1.0, "at other nodes": _FAINT}
    patches = [Patch(color="#444444", alpha=a, label=text) for text, a in meanings.items()]
    axes.legend(
        handles=patches, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, borderpad=0
    )


def _size(frame: pd.DataFrame) -> pd.Series[float]:
    """How much each row contributes, whatever its sign."""
    size: pd.Series[float] = frame.select_dtypes("number").abs().sum(axis=1)
    return size


def _colour(contribution: float) -> str:
    return FOR if contribution >= 0 else AGAINST


def _label(row: Mapping[Any, Any]) -> str:
    value = row.get("value")
    if value is None or value in ("yes", "no"):
        return str(row["feature"]) if value in (None, "yes") else f"not {row['feature']}"
    return f"{row['feature']} = {value}"
