"""Tables, sentences and the figure of `docs/hospitals.md`, from the kept runs of `hospitals.py`."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from hospitals import CLAIMS, SPLITS
from hospitals_kernel import findings
from hospitals_study import (
    ALONE,
    POOLED,
    Study,
    adjusted,
    by_size,
    constant_score,
    counts,
    extended_gain,
    gain_between,
    hits,
    judged,
    method_of,
    score,
    sizes_of,
    study,
    words,
)
from hospitals_tables import (
    ages_table,
    claims_table,
    hospitals_table,
    leak_table,
    methods_table,
    more_splits_table,
    protected_table,
)

from ramet.report.drawing import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVEL = 0.05


def blocks() -> dict[str, str]:
    """What is written into the page, by its place."""
    found = study()
    return {
        "answer": answer(found),
        "methods": methods_table(found),
        "claims": claims_table(found),
        "hospitals": hospitals_table(found),
        "protected": protected_table(found),
        "leak": leak_table(),
        "more": more_splits_table(found),
        "ages": ages_table(found),
        "kernel": findings(),
    }


def answer(found: Study) -> str:
    """The first paragraphs of the page."""
    row, gain = found.chosen, found.gain(found.chosen, ALONE)
    claim = next(one for one in CLAIMS if (one.better, one.than) == (row, ALONE))
    says = {
        "holds": "By the method that validation chose, joining helps",
        "fails": "By the method that validation chose, joining hurts",
        "undecided": "By the method that validation chose, it is undecided whether joining helps",
    }[judged(found, claim).status]
    sites = found.hospitals(row)
    helped, hurt, undecided = counts(sites)
    decided = sum(one.p_holm is not None and one.p_holm < _LEVEL for one in sites)
    people = [one.test for one in sizes_of(found).values()]
    no_better = [
        sum(getattr(one, way) <= (one.constant or 0.0) for one in sites)
        for way in ("alone", "together")
    ]
    return (
        f"**{says}.** It is `{method_of(row)}`, by which {hits(found, row)} % of people whom no "
        f"model had seen are classified correctly, instead of "
        f"{hits(found, ALONE)} % alone: {words(gain)} points. {_others(found)} In one place it "
        f"is {hits(found, POOLED)} %; always saying what is more frequent at a hospital gives "
        f"{_majority(found):.1f} %. All of this is a linear model on the correlations; "
        f"{_networks(found)}.\n\n{_more(found)}"
        f"**No single hospital can tell whether it gains**: a split leaves it "
        f"{min(people)} to {max(people)} test people. By intervals that each stand for "
        f"themselves, joining helps {helped} of {len(sites)}, hurts {hurt}, and is undecided for "
        f"{undecided}. Adjusted for the number of hospitals, {decided or 'none'} "
        f"{'are' if decided > 1 else 'is'} decided. {sum(one.gain.mean > 0 for one in sites)} of "
        f"the {len(sites)} means are above zero. The means of {no_better[0]} hospitals alone, and "
        f"of {no_better[1]} together, are no better than always their more frequent answer."
        f"{_private(found)}"
    )


def _more(found: Study) -> str:
    """What the splits say that were added later."""
    gain = extended_gain(found, found.chosen, ALONE)
    if gain.pairs == len(SPLITS):
        return ""
    averaged = extended_gain(found, "fedavg, linear", ALONE)
    return (
        f"**With {gain.pairs - len(SPLITS)} more splits**, which were added after these ten had "
        f"been seen and do not count for claims, the gain of "
        f"`{method_of(found.chosen)}` is {words(gain)} points and that of `fedavg` "
        f"{words(averaged)} ({gain.pairs} splits).\n\n"
    )


def _private(found: Study) -> str:
    """What is left of the gain with differential privacy."""
    texts = []
    for name, runs in found.protected.items():
        if name.startswith("epsilon"):
            gain = gain_between(runs, found.rows[ALONE])
            texts.append(f"{words(gain)} points at ε = {name[-1]} (*{gain.at_least(0)}*)")
    if not texts:
        return ""
    return (
        f"\n\n**With differential privacy** for each person, FedAvg's difference from training "
        f"alone without it is {' and '.join(texts)}."
    )


def _others(found: Study) -> str:
    """What the claims about the other methods with the linear model come to."""
    by_status: dict[str, list[str]] = {}
    for claim in CLAIMS:
        if claim.than == ALONE and claim.better not in (found.chosen, POOLED):
            one = judged(found, claim)
            if one.gain is not None:
                text = f"`{method_of(claim.better)}` {words(one.gain)}"
                by_status.setdefault(one.status, []).append(text)
    texts = [f"{_ASKED[status]} for {', '.join(gains)}" for status, gains in by_status.items()]
    p_values = [p for p in adjusted(found).values() if p is not None]
    decided = sum(p < _LEVEL for p in p_values)
    return (
        f"Each for itself, the same claim {'; '.join(texts)}. Adjusted for the number of methods "
        f"(Holm), {decided or 'none'} {'are' if decided > 1 else 'is'} decided; the smallest "
        f"p-value is {min(p_values):.2f}."
    )


_ASKED = {"holds": "holds", "undecided": "is undecided", "fails": "fails"}


def _networks(found: Study) -> str:
    """How graph networks do compared with the linear model."""
    pairs = [
        (network, found.gain(f"fedavg, {network}", "fedavg, linear"))
        for network in ("aligned-gcn", "gcn")
        if f"fedavg, {network}" in found.rows
    ]
    if not pairs:
        return "graph networks have not been run"
    texts = [f"{words(gain)} points with `{network}`" for network, gain in pairs]
    return f"a graph network in its place changes FedAvg's accuracy by {' and '.join(texts)}"


def _majority(found: Study) -> float:
    return 100 * fmean(map(constant_score, found.rows[ALONE].values()))


def short_answer() -> str:
    """For the first screen of the README."""
    found = study()
    row = found.chosen
    claim = next(one for one in CLAIMS if (one.better, one.than) == (row, ALONE))
    helped, hurt, undecided = counts(found.hospitals(row))
    return (
        f"**Does it help?** Twenty real hospitals, 1,035 brain scans, autism or control: of people "
        f"whom no model had seen, {hits(found, ALONE)} % are classified correctly if each hospital "
        f"trains alone, and {hits(found, row)} % together, by the method that validation chose: "
        f"{words(found.gain(row, ALONE))} points, *{judged(found, claim).status}*. "
        f"{_others(found)} A single hospital has too few people to be sure of its own gain: "
        f"{helped} helped, {hurt} hurt, {undecided} undecided. [How it was measured, and what it "
        f"does not say](docs/hospitals.md).\n\n![Each of twenty hospitals alone and together, with "
        f"the gain and its 95 % interval](docs/figures/hospitals.png)"
    )


def figure() -> Figure:
    """All people and each hospital: accuracy alone and together, and the gain with its interval."""
    found = study()
    sizes, sites = sizes_of(found), by_size(found)
    alone, together, pooled = (
        100 * fmean(map(score, found.rows[name].values())) for name in (ALONE, found.chosen, POOLED)
    )
    everybody = sum(one.test for one in sizes.values())
    lines = [
        (f"ALL  ({everybody})", alone, together, found.gain(found.chosen, ALONE)),
        *(
            (f"{s.site.upper()}  ({sizes[s.site].test})", 100 * s.alone, 100 * s.together, s.gain)
            for s in sites
        ),
    ]
    places = range(len(lines))
    with new_figure(9.0, 6.6, panels=2) as (drawn, (left, right)):
        for place, (_, start, end, gain) in enumerate(lines):
            left.plot([start, end], [place, place], color="lightgrey", linewidth=2, zorder=1)
            if gain.low is not None and gain.high is not None:
                ends = [100 * gain.low, 100 * gain.high]
                right.plot(ends, [place, place], color=COLOURS[1], linewidth=1.5 if place else 3)
        names, starts, stops, gains = zip(*lines, strict=True)
        left.scatter(starts, places, s=60, color=COLOURS[2], label="alone")
        left.scatter(
            stops, places, s=30, color=COLOURS[1], label=f"together ({method_of(found.chosen)})"
        )
        right.scatter([100 * gain.mean for gain in gains], places, color=COLOURS[1], s=25)
        left.axvline(pooled, color=COLOURS[0], linestyle="--", label="all data in one place")
        majority = [_majority(found), *(100 * (one.constant or 0.0) for one in sites)]
        left.scatter(
            majority, places, s=60, color="grey", marker="|", label="its more frequent answer"
        )
        right.axvline(0, color="grey", linestyle=":")
        left.set_yticks(places, names, fontsize=8)
        right.set_yticks(places, [])
        for axes in (left, right):
            axes.axhline(0.5, color="lightgrey", linewidth=1)
            axes.set_ylim(len(lines) - 0.5, -0.5)
        left.set_xlabel("of 100 unseen people, classified correctly")
        right.set_xlabel("gain by training together, with its 95 % interval (points)")
        left.set_title("hospital (test people in a split)", fontsize=10, loc="left")
        drawn.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return drawn
