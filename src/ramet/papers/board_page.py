"""The board as a page in Markdown, and its figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from ramet.papers.board import Entry, Panel, Terms
from ramet.report.drawing import COLOURS, new_figure
from ramet.report.text import markdown_table, percent, plural, short_names, size
from ramet.studies.gains import Gain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEADS = (
    *("rank", "method", "test, % [95 %]", "trained, % [95 %]", "at best round", "parameters"),
    *("up", "down", "seconds", "lines", "what leaves a site", "secure sum", "commit"),
)
_COMMIT_DIGITS = 8
_SMALLEST_BYTES = 1e4


def board_markdown(panels: Sequence[Panel]) -> str:
    """All panels in one table, and then each of them."""
    overview = [overview_markdown(panels)] if len(panels) > 1 else []
    return "\n\n".join([*overview, panels_markdown(panels)])


def panels_markdown(panels: Sequence[Panel], figures: str = "") -> str:
    """A table for each panel, with its figure and the command that adds an entry.

    ``figures`` is the path from the page to the files that `figure_name` names.
    """
    return "\n\n".join(_panel_markdown(panel, figures) for panel in panels)


def figure_name(panel: Panel) -> str:
    """Without a suffix."""
    terms = panel.terms
    return "-".join(["board", terms.setting, *terms.options.values(), str(terms.rounds)])


def overview_markdown(panels: Sequence[Panel]) -> str:
    """Every method on every dataset, by the mean of its ranks."""
    cells: dict[str, list[str]] = {}
    ranks: dict[str, list[float]] = {}
    for column, panel in enumerate(panels):
        names = short_names([entry.method for entry in panel.entries])
        ranked = sum(entry.rank is not None for entry in panel.entries)
        for name, entry in zip(names, panel.entries, strict=True):
            places = ranks.setdefault(name, [])
            places += [sum(entry.rank) / ranked] if entry.rank else []
            score = percent(entry.score.mean)
            row = cells.setdefault(name, ["–"] * len(panels))
            row[column] = (
                f"{f'**{score}**' if entry is panel.entries[0] else score} ({_rank(entry)})"
            )
    heads = _shortest_names([panel.terms for panel in panels])
    rows = sorted(cells, key=lambda name: fmean(ranks[name]) if ranks[name] else math.inf)
    lines = [
        "## Overview",
        "",
        "Mean test score in %, the highest in bold, and in brackets the rank with its ties, or the "
        "method whose algorithm it is here.",
        "",
        markdown_table(["method", *heads], [(f"`{name}`", *cells[name]) for name in rows]),
    ]
    return "\n".join(lines)


def _shortest_names(every: Sequence[Terms]) -> list[str]:
    """The dataset; with the rounds, or with all terms, only where others have the same name."""
    datasets = [terms.setting for terms in every]
    with_rounds = [f"{terms.setting}, {plural(terms.rounds, 'round')}" for terms in every]
    names = zip(datasets, with_rounds, map(str, every), strict=True)
    return [
        short if datasets.count(short) == 1 else longer if with_rounds.count(longer) == 1 else full
        for short, longer, full in names
    ]


def _panel_markdown(panel: Panel, figures: str) -> str:
    splits, seeds = (max(getattr(e, n) for e in panel.entries) for n in ("splits", "seeds"))
    rows = [_cells(entry, len(entry.sha256) == splits * seeds) for entry in panel.entries]
    lines = [
        f"### {panel.terms}",
        "",
        f"Test {panel.terms.metric}, {plural(splits, 'split')} with {plural(seeds, 'seed')} each. "
        f"Intervals are over {'splits' if splits > 1 else 'the seeds of this split'}. Bytes are "
        "per client and round."
        + (f" Majority class: {percent(panel.majority)}." if panel.majority is not None else ""),
        "",
        markdown_table(_HEADS, rows),
        *(["", _unranked_sentence(panel)] if any(one.same_as for one in panel.entries) else []),
        "",
        f"![Test scores with their intervals, and bytes]({figures}{figure_name(panel)}.png)",
        "",
        f"To add an entry: `{panel.command}`",
    ]
    return "\n".join(lines)


def _cells(entry: Entry, complete: bool) -> tuple[str, ...]:
    leaving = entry.leaving
    return (
        _rank(entry),
        f"`{entry.method}`",
        _score(entry.score) + ("" if complete else f" ({plural(len(entry.sha256), 'run')})"),
        "–" if entry.trained is None else _score(entry.trained),
        percent(entry.at_best),
        f"{entry.scalars:,.0f}",
        size(entry.up),
        size(entry.down),
        f"{entry.seconds:.0f}",
        "?" if entry.lines is None else str(entry.lines),
        leaving.arrays.replace("*", r"\*") if leaving else "?",
        _secure(entry),
        ", ".join(commit[:_COMMIT_DIGITS] for commit in entry.commits),
    )


def _rank(entry: Entry) -> str:
    if entry.rank is None:
        return f"= {_name(entry.same_as or '')}"
    return "–".join(map(str, dict.fromkeys(entry.rank)))


def _name(label: str) -> str:
    return label.partition(",")[0]


def _unranked_sentence(panel: Panel) -> str:
    pairs = {_name(one.method): _name(one.same_as) for one in panel.entries if one.same_as}
    named = "; ".join(f"`{own}` is `{other}`" for own, other in pairs.items())
    return (
        f"Not ranked, because it is the algorithm of another row here: {named}. With equal options "
        "their runs end with the same SHA-256, so such rows differ in tuning only."
    )


def _score(score: Gain) -> str:
    if score.low is None:
        return percent(score.mean)
    low, high = _interval(score)
    return f"{percent(score.mean)} [{percent(low)}, {percent(high)}]"


def _secure(entry: Entry) -> str:
    if entry.leaving is None:
        return "?"
    if not entry.total:
        return "nothing to sum"
    why_not = entry.leaving.why_not_secure
    return "yes" if why_not is None else f"no: {why_not}"


def panel_figure(panel: Panel) -> Figure:
    """The mean scores with their intervals, and the bytes of a whole run."""
    with new_figure(9, 1.2 + 0.3 * len(panel.entries), panels=2) as (figure, (scores, sizes)):
        rows = range(len(panel.entries), 0, -1)
        for row, entry in zip(rows, panel.entries, strict=True):
            mean, (low, high) = entry.score.mean, _interval(entry.score)
            scores.plot([100 * low, 100 * high], [row, row], color=COLOURS[1])
            scores.plot(100 * mean, row, "o", color=COLOURS[1])
            sizes.plot(entry.total, row, "s", color=COLOURS[6])
        label = f"test {panel.terms.metric}, %"
        if panel.majority is not None:
            scores.axvline(100 * panel.majority, linestyle=":", color=COLOURS[0])
            label += "; dotted: majority class"
        sizes.set_xscale("symlog", linthresh=_SMALLEST_BYTES)
        sizes.set_xlim(left=-_SMALLEST_BYTES / 10)
        scores.set_yticks(rows, short_names([entry.method for entry in panel.entries]))
        sizes.set_yticks(rows, [""] * len(panel.entries))
        scores.set(xlabel=label)
        sizes.set(xlabel="bytes of a run, all clients, both ways")
    return figure


def _interval(score: Gain) -> tuple[float, float]:
    """The interval of a share, which is between 0 and 1; the mean itself without one."""
    if score.low is None or score.high is None:
        return score.mean, score.mean
    return max(0.0, score.low), min(1.0, score.high)
