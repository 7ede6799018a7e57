"""The board as a page in Markdown, and its figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ramet.report.drawing import MARKS, line_style, new_figure
from ramet.report.text import percent, plural, size
from ramet.studies.board import Entry, Panel
from ramet.studies.gains import Gain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEADS = (
    *("rank", "method", "test, % [95 %]", "up", "down", "seconds"),
    *("lines", "what leaves a site", "secure sum", "commit"),
)
_COMMIT_DIGITS = 8
_SMALLEST_BYTES = 1e4


def board_markdown(panels: Sequence[Panel]) -> str:
    """A table for each panel, with the command that adds an entry."""
    return "\n\n".join(map(_panel_markdown, panels))


def _panel_markdown(panel: Panel) -> str:
    splits = max(entry.splits for entry in panel.entries)
    lines = [
        f"### {panel.terms}",
        "",
        f"Test {panel.terms.metric}, {plural(splits, 'split')}. Intervals are over "
        + ("splits." if splits > 1 else "the seeds of this split.")
        + " Bytes are per client and round.",
        "",
        "| " + " | ".join(_HEADS) + " |",
        "|---" * len(_HEADS) + "|",
        *("| " + " | ".join(_cells(entry)) + " |" for entry in panel.entries),
        "",
        f"To add an entry: `{panel.command}`",
    ]
    return "\n".join(lines)


def _cells(entry: Entry) -> tuple[str, ...]:
    leaving = entry.leaving
    return (
        "–".join(map(str, dict.fromkeys(entry.rank))),
        f"`{entry.method}`",
        f"{_score(entry.score)} ({plural(len(entry.sha256), 'run')})",
        size(entry.up),
        size(entry.down),
        f"{entry.seconds:.0f}",
        "?" if entry.lines is None else str(entry.lines),
        leaving.arrays.replace("*", r"\*") if leaving else "?",
        _secure(entry),
        ", ".join(commit[:_COMMIT_DIGITS] for commit in entry.commits),
    )


def _score(score: Gain) -> str:
    if score.low is None or score.high is None:
        return percent(score.mean)
    low, high = max(0.0, score.low), min(1.0, score.high)
    return f"{percent(score.mean)} [{percent(low)}, {percent(high)}]"


def _secure(entry: Entry) -> str:
    if entry.leaving is None:
        return "?"
    if not entry.total:
        return "nothing to sum"
    obstacle = entry.leaving.obstacle
    return "yes" if obstacle is None else f"no: {obstacle}"


def board_figure(panels: Sequence[Panel]) -> Figure:
    """Mean score with its interval over the bytes of a whole run, a panel each."""
    with new_figure(8, 4.5 * len(panels), rows=len(panels)) as (figure, axes):
        for place, panel in zip(np.atleast_1d(axes), panels, strict=True):
            for index, entry in enumerate(sorted(panel.entries, key=lambda one: one.method)):
                score, mean = entry.score, 100 * entry.score.mean
                low, high = (mean if end is None else 100 * end for end in (score.low, score.high))
                place.errorbar(
                    entry.total,
                    mean,
                    [[mean - low], [high - mean]],
                    fmt=MARKS[index % len(MARKS)],
                    color=line_style(index)["color"],
                    capsize=3,
                    ms=7,
                    label=entry.method,
                )
            place.set_xscale("symlog", linthresh=_SMALLEST_BYTES)
            place.set_xlim(left=-_SMALLEST_BYTES / 10)
            place.set(
                xlabel="bytes of a run, all clients, both ways",
                ylabel=f"test {panel.terms.metric}, %",
                title=str(panel.terms),
            )
            place.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure
