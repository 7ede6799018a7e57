"""Tables, sentences and the figure of `docs/banks.md`, from the kept scores of `banks.py`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from banks import (
    ALERTS,
    BOOSTED,
    CLAIMS,
    KEPT,
    MARKS,
    ROUNDS,
    ROWS,
    SPLITS,
    TOGETHER,
    Claim,
)
from banks_data import LEVELS, TASKS
from banks_study import ALONE, POOLED, Case, cases, last_rises
from claims import status_of
from hospitals_study import counts, words

from ramet.report.drawing import COLOURS, new_figure
from ramet.report.text import markdown_table, plural
from ramet.studies.gains import Gain, holm

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TREES_ALONE, TREES_POOLED = BOOSTED
NAMES = {
    ALONE: "network alone",
    **{row: f"`{row}`" for row in TOGETHER},
    POOLED: "network, one place",
    TREES_ALONE: "trees alone",
    TREES_POOLED: "trees, one place",
}
_LEVEL = 0.05


def blocks() -> dict[str, str]:
    """What is written into the page, by its place."""
    found = cases()
    tables = {task: methods_table([one for one in found if one.task == task]) for task in TASKS}
    return {
        "answer": answer(_answered(found)),
        **tables,
        "claims": claims_table(found),
        "stopped": stopped(),
        "data": data_table(),
    }


def short_answer() -> str:
    """For the first screen of the README."""
    found = _answered(cases())
    network, trees = (statuses(found, TOGETHER[0], than)["holds"] for than in BY_ITSELF)
    return (
        f"On *synthetic* banks, FedAvg is shown to be ahead of both models that a bank trains "
        f"alone in **{_ahead_of_both(found)} of {plural(len(found), 'comparison')}**: of the same "
        f"network in {network}, of boosted trees in {trees}. [How that was "
        f"measured](docs/banks.md)."
    )


def _answered(found: Sequence[Case]) -> list[Case]:
    """The cases that have been run on all splits."""
    return [one for one in found if one.is_complete(*ANSWERED)]


def _ahead_of_both(found: Sequence[Case]) -> int:
    """In how many cases FedAvg is ahead of both models that banks train alone."""
    return sum(all(_ahead(one, than) for than in BY_ITSELF) for one in found)


def answer(found: Sequence[Case]) -> str:
    """What the page begins with, from cases that have been run on all splits."""
    if not found:
        return "**Nothing is decided yet:** no comparison has been run on all splits."
    both = _ahead_of_both(found)
    network, trees = (statuses(found, TOGETHER[0], than) for than in BY_ITSELF)
    sites = [one for case in found for one in case.banks(TOGETHER[0])]
    adjusted = (
        holm([one.gain(TOGETHER[0], ALONE).p_value for one in found]),
        [one.p_holm for one in sites],
    )
    decided = [sum(p is not None and p < _LEVEL for p in values) for values in adjusted]
    return (
        f"**In {both} of {plural(len(found), 'comparison')}, FedAvg is shown to be ahead of both "
        f"models that each bank trains alone**, on average over *synthetic* banks. It is ahead of "
        f"the same network in {_counted(network)}, and of small boosted trees, without links, in "
        f"{_counted(trees)}. {_trees(found)}Adjusted for their number by Holm, {decided[0]} of "
        f"{len(found)} gains over the network are decided, and {decided[1]} of {len(sites)} gains "
        f"of single banks.{_ceiling(found)}\n\n{answer_table(found)}"
    )


BY_ITSELF = (ALONE, TREES_ALONE)
ANSWERED = (TOGETHER[0], *BY_ITSELF)


def _ahead(one: Case, than: str) -> bool:
    return status_of(one.gain(TOGETHER[0], than)) == "holds"


def statuses(found: Sequence[Case], better: str, than: str) -> Counter[str]:
    return Counter(status_of(one.gain(better, than)) for one in found)


def _counted(status: Counter[str]) -> str:
    return f"{status['holds']} (behind in {status['fails']}, undecided in {status['undecided']})"


def _trees(found: Sequence[Case]) -> str:
    """Where a bank gains by another model of its own."""
    ahead = [one for one in found if status_of(one.gain(TREES_ALONE, ALONE)) == "holds"]
    texts = [
        f"{task} ({', '.join(levels)})"
        for task in TASKS
        if (levels := [one.level for one in ahead if one.task == task])
    ]
    where = " and ".join(texts)
    return f"For {where}, banks' own trees are ahead of their own networks. " if texts else ""


def _ceiling(found: Sequence[Case]) -> str:
    levels = [
        level
        for level in LEVELS
        if (own := [one.mean(ALONE, "ap") for one in found if one.level == level])
        and min(own) > _NEARLY_ALL
    ]
    if not levels:
        return ""
    where = ", ".join(levels)
    return f" At {where}, banks' own networks find nearly everything: little is left to gain."


_NEARLY_ALL = 0.98


def answer_table(found: Sequence[Case]) -> str:
    """Average precision by the models that the answer compares."""
    rows = [
        (
            f"{one.task}, {one.level}",
            _percent(one.share),
            _percent(one.mean(ALONE, "ap")),
            _percent(one.mean(TOGETHER[0], "ap")),
            words(one.gain(TOGETHER[0], ALONE)),
            _percent(one.mean(TREES_ALONE, "ap")),
            words(one.gain(TOGETHER[0], TREES_ALONE)),
            _percent(one.mean(POOLED, "ap")) if one.has(POOLED) else "–",
        )
        for one in found
    ]
    heads = (
        *("average precision, %", "random ranking", NAMES[ALONE], "`fedavg`", "its gain"),
        *(NAMES[TREES_ALONE], "`fedavg` over trees", NAMES[POOLED]),
    )
    return markdown_table(heads, rows)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def stopped() -> str:
    """How much networks still learned when training ended."""
    rises = {row: max(last_rises(row), default=0.0) for row in (ALONE, TOGETHER[0])}
    alone, together = (f"{100 * rise:.1f}" for rise in rises.values())
    return (
        f"- **Networks were still learning.** In the last of {ROUNDS} rounds, the mean validation "
        f"score of a comparison rose by up to {alone} points alone and {together} by FedAvg. What "
        "longer training leaves of a gain is not known."
    )


def methods_table(found: Sequence[Case]) -> str:
    """A row per level and method."""
    rows = [
        (
            one.level,
            NAMES[row],
            _percent(one.mean(row, "ap")),
            _over_alone(one, row),
            _percent(one.mean(row, "recall")),
            words(one.gain(row, ALONE, "recall")) if row != ALONE else "–",
            " / ".join(map(str, counts(one.banks(row)))) if row in TOGETHER else "–",
        )
        for one in found
        for row in NAMES
        if one.has(row, ALONE)
    ]
    heads = (
        *("level", "method", "average precision %", "gain over alone"),
        *(f"recall at {100 * ALERTS:.0f} % alerts, %", "gain over alone"),
        "helped / hurt / undecided",
    )
    return "\n\n".join([markdown_table(heads, rows), *_missing(found)])


def _over_alone(one: Case, row: str) -> str:
    if row == ALONE:
        return "–"
    gain = one.gain(row, ALONE)
    planned = any((claim.better, claim.than) == (row, ALONE) for claim in CLAIMS)
    return _judged(gain) if planned else words(gain)


def _judged(gain: Gain) -> str:
    return f"{words(gain)} **{status_of(gain)}**"


def _missing(found: Sequence[Case]) -> Iterator[str]:
    """What the design has and the kept scores have not."""
    texts = [
        f"{one.level}, {NAMES[row.name]} ({count} of {len(SPLITS)} splits)"
        for one in found
        for row in ROWS
        if (count := len(one.rows.get(row.name, ()))) < len(SPLITS)
    ]
    if texts:
        yield f"Not run yet, or not on all splits: {'; '.join(texts)}."


def claims_table(found: Sequence[Case]) -> str:
    """Claims other than those over training alone, which stand with the methods."""
    rows = [
        (claim.says, task, *cells)
        for claim in CLAIMS
        if claim.than != ALONE
        for task in TASKS
        if any(cells := [_claimed(found, claim, task, level) for level in LEVELS])
    ]
    return markdown_table(("claim", "of", *LEVELS), rows)


def _claimed(found: Sequence[Case], claim: Claim, task: str, level: str) -> str:
    for one in found:
        if (one.task, one.level) == (task, level) and one.has(claim.better, claim.than):
            return _judged(one.gain(claim.better, claim.than))
    return ""


def data_table() -> str:
    """What was drawn, by level."""
    rows = []
    for one in map(json.loads, (KEPT / "data.jsonl").read_text().splitlines()):
        sizes = (one[name] for name in ("accounts", "transfers"))
        shares = (f"{size['rows']:,} ({size['fraud']:,})" for size in sizes)
        marks = (
            f"{100 * one[mark]['fraud']:.0f} % ({100 * one[mark]['fine']:.2g} %)" for mark in MARKS
        )
        rows.append((one["level"], *shares, *_in_a_test(one["level"]), *marks, one["sha256"][:8]))
    heads = (
        *("level", "accounts (laundering)", "transfers (laundering)"),
        *("laundering accounts in a bank's test", "laundering transfers in it"),
        *MARKS,
        "SHA-256",
    )
    return markdown_table(heads, rows)


def _in_a_test(level: str) -> Iterator[str]:
    for task in TASKS:
        counts = [
            count
            for one in cases()
            if (one.task, one.level) == (task, level)
            for count in one.laundering
        ]
        yield f"{min(counts)} to {max(counts)}" if counts else "–"


def figure() -> Figure:
    """Average precision of banks and their mean, alone and together, with the gain's interval."""
    found = cases()
    with new_figure(10.0, 5.6, panels=len(LEVELS), rows=len(TASKS)) as (drawn, grid):
        for panels, task in zip(grid, TASKS, strict=True):
            for axes, level in zip(panels, LEVELS, strict=True):
                for one in found:
                    if (one.task, one.level) == (task, level):
                        _draw(axes, one)
                axes.set_title(f"{task}, {level}", fontsize=10, loc="left")
        for axes in grid[-1]:
            axes.set_xlabel("average precision %")
        for axes in grid.flat:
            axes.set_xlim(0, 103)
        shown = {label: line for axes in grid.flat for line, label in _legend(axes)}
        drawn.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=5, fontsize=9)
        drawn.suptitle("Synthetic banks", fontsize=11, x=0.01, ha="left")
    return drawn


def _legend(axes: Axes) -> Iterator[tuple[Artist, str]]:
    return zip(*axes.get_legend_handles_labels(), strict=True)


def _draw(axes: Axes, case: Case) -> None:
    together = TOGETHER[0]
    gain = case.gain(together, ALONE)
    lines = [
        ("MEAN", case.mean(ALONE, "ap"), case.mean(together, "ap"), gain),
        *((one.site, one.alone, one.together, one.gain) for one in case.banks(together)),
    ]
    places = range(len(lines))
    for place, (_, start, _, gain) in enumerate(lines):
        if gain.low is not None and gain.high is not None:
            ends = [100 * (start + end) for end in (gain.low, gain.high)]
            axes.plot(ends, [place, place], color=COLOURS[1], linewidth=1.5, alpha=0.6)
    alone, joined = [100 * line[1] for line in lines], [100 * line[2] for line in lines]
    axes.scatter(alone, places, s=50, color=COLOURS[2], label="alone", zorder=3)
    axes.scatter(
        joined, places, s=25, color=COLOURS[1], label="FedAvg, 95 % interval of gain", zorder=4
    )
    for row, label, colour, marker in _MEANS:
        if case.has(row):
            value = 100 * case.mean(row, "ap")
            axes.scatter(value, 0, s=40, color=COLOURS[colour], marker=marker, label=label)
    axes.axhline(0.5, color="lightgrey", linewidth=1)
    axes.set_yticks(places, [name for name, *_ in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.5, -0.5)


_MEANS = (
    (POOLED, "all data in one place, mean", 0, "D"),
    (TREES_ALONE, "trees alone, mean", 7, "^"),
)
