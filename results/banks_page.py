"""Tables, sentences and the figure of `docs/banks.md`, from the kept scores of `banks.py`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from banks import ALERTS, BOOSTED, CLAIMS, KEPT, ROWS, SPLITS, TOGETHER, Claim
from banks_data import LEVELS, TASKS
from banks_study import ALONE, POOLED, Case, cases
from claims import status_of
from hospitals_study import counts, words

from ramet.report.drawing import COLOURS, new_figure
from ramet.report.text import markdown_table, percent, plural

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TREES_ALONE, TREES_POOLED = BOOSTED
NAMES = {
    ALONE: "each bank alone",
    **{row: f"`{row}`" for row in TOGETHER},
    POOLED: "all data in one place",
    TREES_ALONE: "boosted trees, each bank alone",
    TREES_POOLED: "boosted trees, all data in one place",
}
_LEVEL = 0.05


def blocks() -> dict[str, str]:
    """What is written into the page, by its place."""
    found = cases()
    tables = {task: methods_table([one for one in found if one.task == task]) for task in TASKS}
    return {
        "answer": answer([one for one in found if one.is_complete(*ANSWERED)]),
        **tables,
        "claims": claims_table(found),
        "data": data_table(),
    }


def answer(found: Sequence[Case]) -> str:
    """The first paragraph of the page, from cases that have been run on all splits."""
    if not found:
        return "**Nothing is decided yet:** no comparison has been run on all splits."
    helps, trees = (statuses(found, *pair) for pair in ((TOGETHER[0], ALONE), _TREES))
    count = sum(helps.values())
    sites = [one for case in found for one in case.banks(TOGETHER[0])]
    helped, hurt, undecided = counts(sites)
    decided = sum(one.p_holm is not None and one.p_holm < _LEVEL for one in sites)
    return (
        f"**{_gain(helps)}, and {_trees(trees)}**, in {plural(count, 'comparison')} of average "
        f"precision on *synthetic* data. {' '.join(_tasks(found))} Of "
        f"{plural(len(sites), 'single comparison')} of a bank with itself, FedAvg helps {helped}, "
        f"hurts {hurt}, and is undecided for {undecided}; adjusted for the five banks of a "
        f"comparison, {decided} {'is' if decided == 1 else 'are'} decided."
    )


_TREES = (TOGETHER[0], TREES_ALONE)
ANSWERED = (ALONE, *_TREES)


def statuses(found: Sequence[Case], better: str, than: str) -> Counter[str]:
    return Counter(status_of(one.gain(better, than)) for one in found if one.has(better, than))


def _gain(helps: Counter[str]) -> str:
    if not helps["holds"]:
        lead = "No gain by training together is shown"
    elif helps["holds"] == helps.total():
        return f"FedAvg is ahead of training alone in all {helps.total()}"
    else:
        lead = f"FedAvg is ahead of training alone in {helps['holds']} of {helps.total()}"
    return f"{lead} ({helps['fails']} behind, {helps['undecided']} undecided)"


def _trees(trees: Counter[str]) -> str:
    return (
        f"boosted trees that each bank trains alone, without links, are ahead of FedAvg in "
        f"{trees['fails']} (behind in {trees['holds']}, undecided in {trees['undecided']})"
    )


def _tasks(found: Sequence[Case]) -> Iterator[str]:
    """The means of the most important rows, by level."""
    for task in TASKS:
        own = [one for one in found if one.task == task]
        texts = [
            f"{NAMES[row]} {' / '.join(percent(one.mean(row, 'ap')) for one in own)}"
            for row in (ALONE, TOGETHER[0], POOLED, TREES_ALONE, TREES_POOLED)
            if all(one.has(row) for one in own)
        ]
        levels = " / ".join(one.level for one in own)
        if own:
            yield f"{task.capitalize()} at difficulty {levels}, in %: {', '.join(texts)}."


def methods_table(found: Sequence[Case]) -> str:
    """A row per level and method."""
    rows = [
        (
            one.level,
            NAMES[row],
            percent(one.mean(row, "ap")),
            words(one.gain(row, ALONE)) if row != ALONE else "–",
            percent(one.mean(row, "recall")),
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
    """Each claim with its status at every level, by the rule that judges the papers' claims."""
    rows = [
        (claim.says, f"{NAMES[claim.better]} over {NAMES[claim.than]}", task, *cells)
        for claim in CLAIMS
        for task in TASKS
        if any(cells := [_claimed(found, claim, task, level) for level in LEVELS])
    ]
    return markdown_table(("claim", "comparison", "of", *LEVELS), rows)


def _claimed(found: Sequence[Case], claim: Claim, task: str, level: str) -> str:
    for one in found:
        if (one.task, one.level) == (task, level) and one.has(claim.better, claim.than):
            gain = one.gain(claim.better, claim.than)
            return f"{words(gain)} **{status_of(gain)}**"
    return ""


def data_table() -> str:
    """What was drawn, by level."""
    rows = []
    for one in map(json.loads, (KEPT / "data.jsonl").read_text().splitlines()):
        sizes = (one[name] for name in ("accounts", "transfers"))
        shares = (f"{size['rows']:,} ({size['fraud']:,})" for size in sizes)
        within = f"{100 * one['within a bank']:.0f} %"
        rows.append((one["level"], *shares, within, f"`{one['sha256'][:12]}`"))
    heads = ("level", "accounts (laundering)", "transfers (laundering)", "within a bank", "SHA-256")
    return markdown_table(heads, rows)


def figure() -> Figure:
    """Each bank's average precision alone and together, its gain's interval, and one place."""
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
        shown = {label: line for axes in grid.flat for line, label in _legend(axes)}
        drawn.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=5, fontsize=9)
        drawn.suptitle("Synthetic banks", fontsize=11, x=0.01, ha="left")
    return drawn


def _legend(axes: Axes) -> Iterator[tuple[Artist, str]]:
    return zip(*axes.get_legend_handles_labels(), strict=True)


def _draw(axes: Axes, case: Case) -> None:
    sites = case.banks(TOGETHER[0])
    places = range(len(sites))
    for place, one in zip(places, sites, strict=True):
        if one.gain.low is not None and one.gain.high is not None:
            ends = [100 * (one.alone + end) for end in (one.gain.low, one.gain.high)]
            axes.plot(ends, [place, place], color=COLOURS[1], linewidth=1.5, alpha=0.6)
    alone, together = ([100 * s.alone for s in sites], [100 * s.together for s in sites])
    axes.scatter(alone, places, s=50, color=COLOURS[2], label="alone", zorder=3)
    axes.scatter(
        together, places, s=25, color=COLOURS[1], label="FedAvg, 95 % interval of gain", zorder=4
    )
    for row, label, colour, dashes in _LINES:
        if case.has(row):
            value = 100 * case.mean(row, "ap")
            axes.axvline(value, color=COLOURS[colour], linestyle=dashes, label=label)
    axes.set_yticks(places, [one.site for one in sites], fontsize=8)
    axes.set_ylim(len(sites) - 0.5, -0.5)


_LINES = (
    (POOLED, "one place", 0, "--"),
    (TREES_ALONE, "trees alone", 7, ":"),
    (TREES_POOLED, "trees, one place", 7, "--"),
)
