"""An explained prediction as tables and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ramet.prediction.explanation import Explanation
from ramet.report.drawing import new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOR, AGAINST, PLAIN = "#0072B2", "#D55E00", "#B0B0B0"
_MOST_DRAWN = 12
_MOST_NUMBERED = 4
_NEGLIGIBLE = 0.0005
_FAINT = 0.45
_WIDEST, _THINNEST = 7.0, 0.6


def explanation_tables(found: Explanation, top: int) -> list[Table]:
    """The largest contributions of features and of links, in points of probability."""
    title = (
        f"{found.id}: {found.predicted} with {found.probability:.1%}, "
        f"{found.baseline:.1%} without features and links"
    )
    tables = [_table(title, found.features, top)]
    return [*tables, _table("links", found.links, top)] if len(found.links) else tables


def _table(title: str, frame: pd.DataFrame, top: int) -> Table:
    table = Table(title=title, box=None, title_justify="left", min_width=len(title))
    numbers = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    for name in frame.columns:
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in frame.head(top).to_dict(orient="records"):
        table.add_row(
            *(f"{100 * row[name]:+.1f}" if name in numbers else str(row[name]) for name in row)
        )
    return table


def explanation_figure(found: Explanation) -> Figure:
    """The links that matter around a node, or in a graph, and the features that matter."""
    features = found.features[_size(found.features) >= _NEGLIGIBLE].head(_MOST_DRAWN)
    height = max(3.6, 1.2 + 0.34 * len(features))
    with new_figure(11, height, panels=2) as (figure, (left, right)):
        _draw_links(left, found)
        _draw_features(right, features)
        figure.suptitle(
            f"{found.id}: {found.predicted}, probability {found.probability:.1%}, without features "
            f"and links {found.baseline:.1%}. Blue raises it, orange lowers it."
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
        if abs(contribution) >= _NEGLIGIBLE:
            _draw_number(axes, (x0 + x1) / 2, (y0 + y1) / 2, contribution)
    for node, (x, y) in places.items():
        _draw_node(axes, node, x, y, node == found.id and "value" in found.features)
    axes.margins(0.15)


def _draw_number(axes: Axes, x: float, y: float, contribution: float) -> None:
    axes.text(
        x,
        y,
        f"{100 * contribution:+.1f}",
        ha="center",
        va="center",
        fontsize=8,
        color=_colour(contribution),
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


def _draw_features(axes: Axes, features: pd.DataFrame) -> None:
    ordered = features.iloc[::-1]
    labels = [_label(row) for row in ordered.to_dict(orient="records")]
    places = range(len(ordered))
    own = (100 * ordered["contribution"]).tolist()
    if "neighbours" in ordered:
        near = (100 * ordered["neighbours"]).tolist()
        _bars(axes, [p + 0.2 for p in places], own, 0.36)
        _bars(axes, [p - 0.2 for p in places], near, 0.36, _FAINT)
        _legend(axes)
    else:
        _bars(axes, list(places), own, 0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(list(places), labels)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("contribution to the probability, percentage points")
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
