"""Tables, sentences and the figure of `docs/hospitals.md`, from the kept runs of `hospitals.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import claims
from hospitals import CLAIMS, KEPT, ROWS, SPLITS, Claim, Row, chosen, protections, tuned

from ramet.errors import RametError
from ramet.leak import Audit, Finding
from ramet.leak.findings import View
from ramet.metrics.summary import Baseline
from ramet.papers.wanted import RunsByFolder
from ramet.report.drawing import COLOURS, new_figure
from ramet.report.site_tables import interval
from ramet.report.text import markdown_table, percent, plural
from ramet.runs import given_experiment
from ramet.scale import SHARE
from ramet.studies.archive import kept
from ramet.studies.choice import samples_ratio
from ramet.studies.convergence import not_converged
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import Gain, holm, paired_gain
from ramet.studies.sites import SiteStanding, site_standings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Mapping[Draw, FinishedRun]
ALONE, POOLED = "local, linear", "pooled, linear"
_LEVEL = 0.05


@dataclass(frozen=True)
class Study:
    """The runs that count, by row, and those with protections, by name."""

    rows: Mapping[str, Runs]
    protected: Mapping[str, Runs]

    @cached_property
    def chosen(self) -> str:
        return chosen()

    def gain(self, better: str, than: str) -> Gain:
        return _gain(self.rows[better], self.rows[than])

    def hospitals(self, row: str) -> list[SiteStanding]:
        """Each hospital alone and together, with the same network."""
        alone = self.rows[alone_of(row)]
        (found,) = site_standings({"local": alone, "fedavg": self.rows[row]})
        return found.sites


@cache
def study() -> Study:
    """The kept runs, those of the configuration that validation chose on each split."""
    files = {(run.label, run.split_seed): run for run in _kept("")}
    rows: dict[str, dict[Draw, FinishedRun]] = {}
    for (name, split), line in sorted(tuned().items()):
        run = _over_people(files[line["run"], split])
        rows.setdefault(name, {})[run.draw] = run
    ordered = {row.name: rows[row.name] for row in ROWS if row.name in rows}
    protected = {n: {r.draw: _over_people(r) for r in _kept(n)} for n in protections()}
    return Study(ordered, {name: runs for name, runs in protected.items() if runs})


def _kept(name: str) -> Iterator[FinishedRun]:
    for path in sorted((KEPT / name).glob("*.json")):
        yield from kept(path)


def _over_people(run: FinishedRun) -> FinishedRun:
    """With the share of all test people that are classified correctly as its score."""
    sizes, scores = run.summary.baselines, run.summary.scores
    right = sum(sizes[site].test * (score or 0.0) for site, score in scores.clients.items())
    share = right / sum(one.test for one in sizes.values())
    changed = scores.model_copy(update={"test": share})
    return replace(run, summary=run.summary.model_copy(update={"scores": changed}))


def _gain(own: Runs, other: Runs) -> Gain:
    common = own.keys() & other.keys()
    found = {draw: _score(own[draw]) - _score(other[draw]) for draw in common}
    return paired_gain(found, samples_ratio(own))


def _score(run: FinishedRun) -> float:
    return run.summary.scores.test


def alone_of(row: str) -> str:
    """The row of training alone with the network of a row, or with the most similar one."""
    _, _, network = row.partition(", ")
    return f"local, {network or 'gcn'}"


def method_of(row: str) -> str:
    return row.partition(", ")[0]


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
    }


# --- sentences ---


def answer(found: Study) -> str:
    """The first paragraphs of the page."""
    row, gain = found.chosen, found.gain(found.chosen, ALONE)
    claim = next(one for one in CLAIMS if (one.better, one.than) == (row, ALONE))
    says = {
        "holds": "Together, the hospitals classify more people correctly than each alone",
        "fails": "Together, the hospitals classify fewer people correctly than each alone",
        "undecided": "Whether the hospitals gain by training together is undecided",
    }[judged(found, claim).status]
    sites = found.hospitals(row)
    helped, hurt, undecided = counts(sites)
    adjusted = sum(one.p_holm is not None and one.p_holm < _LEVEL for one in sites)
    people = [one.test for one in _sizes(found).values()]
    return (
        f"**{says}.** By `{method_of(row)}`, the method that validation chose, {_hits(found, row)} "
        f"% of people whom no model had seen are classified correctly, instead of "
        f"{_hits(found, ALONE)} % alone: {_words(gain)} points. {_others(found)} In one place it "
        f"is {_hits(found, POOLED)} %; always saying what is more frequent at a hospital gives "
        f"{_majority(found):.1f} %. All of this is a linear model on the correlations; "
        f"{_networks(found)}.\n\n"
        f"**A single hospital learns little about itself**, because a split leaves it "
        f"{min(people)} to {max(people)} test people. By intervals that each stand for "
        f"themselves, joining helps {helped} of {len(sites)}, hurts {hurt}, and is undecided for "
        f"{undecided}. Adjusted for the number of hospitals, {adjusted or 'none'} "
        f"{'are' if adjusted > 1 else 'is'} decided."
    )


def _others(found: Study) -> str:
    """What the claims about the other methods with the linear model come to."""
    by_status: dict[str, list[str]] = {}
    for claim in CLAIMS:
        if claim.than == ALONE and claim.better not in (found.chosen, POOLED):
            one = judged(found, claim)
            if one.gain is not None:
                text = f"`{method_of(claim.better)}` {_words(one.gain)}"
                by_status.setdefault(one.status, []).append(text)
    texts = [f"{status} for {', '.join(gains)}" for status, gains in by_status.items()]
    return f"The same claim {'; '.join(texts)}." if texts else ""


def _hits(found: Study, row: str) -> str:
    return f"{100 * fmean(map(_score, found.rows[row].values())):.1f}"


def _sizes(found: Study) -> Mapping[str, Baseline]:
    return next(iter(found.rows[ALONE].values())).summary.baselines


def _networks(found: Study) -> str:
    """How graph networks do compared with the linear model."""
    pairs = [
        (network, found.gain(f"fedavg, {network}", "fedavg, linear"))
        for network in ("aligned-gcn", "gcn")
        if f"fedavg, {network}" in found.rows
    ]
    if not pairs:
        return "graph networks have not been run"
    texts = [f"`{network}` {_words(gain)} points" for network, gain in pairs]
    return f"graph networks trained by FedAvg differ from it by {' and '.join(texts)}"


def _majority(found: Study) -> float:
    sizes = _sizes(found).values()
    right = sum(one.test * (one.constant or 0.0) for one in sizes)
    return 100 * right / sum(one.test for one in sizes)


def short_answer() -> str:
    """For the first screen of the README."""
    found = study()
    row = found.chosen
    helped, hurt, undecided = counts(found.hospitals(row))
    return (
        f"**Does it help?** Twenty real hospitals, 1,035 brain scans, autism or control: of people "
        f"whom no model had seen, {_hits(found, ALONE)} % are classified correctly if each trains "
        f"alone and {_hits(found, row)} % together, {_words(found.gain(row, ALONE))} points. A "
        f"single hospital has too few people to be sure of its own gain: {helped} helped, {hurt} "
        f"hurt, {undecided} undecided. [How it was measured, and what it does not "
        f"say](docs/hospitals.md).\n\n![Each of twenty hospitals alone and together, with the gain "
        f"and its 95 % interval](docs/figures/hospitals.png)"
    )


def _words(gain: Gain) -> str:
    return f"{SHARE.change(gain.mean)} {interval(gain, SHARE)}"


def counts(sites: Sequence[SiteStanding]) -> tuple[int, int, int]:
    """Hospitals that are helped, hurt, and undecided, by intervals that stand for themselves."""
    verdicts = [one.gain.verdict for one in sites]
    return tuple(verdicts.count(one) for one in ("helps", "hurts", "undecided"))  # type: ignore[return-value]


# --- tables ---


def methods_table(found: Study) -> str:
    """A row per method and network."""
    compared = [name for name in found.rows if name not in _ALONE_AND_POOLED]
    gains = {name: found.gain(name, alone_of(name)) for name in compared if _has_alone(found, name)}
    linear = [name for name in gains if name.endswith(", linear")]
    adjusted = dict(zip(linear, holm([gains[name].p_value for name in linear]), strict=True))
    rows = []
    for name, runs in found.rows.items():
        gain = gains.get(name)
        sites = counts(found.hospitals(name)) if gain else None
        p = adjusted.get(name)
        rows.append(
            (
                *_named(name),
                _spread(runs),
                _words(gain) if gain else "–",
                "–" if p is None else f"{p:.3f}",
                " / ".join(map(str, sites)) if sites else "–",
                _megabytes(runs),
                *(_protected_cell(found, name, kind) for kind in _WAYS),
                _rising(runs),
            )
        )
    heads = (
        *("method", "network", "accuracy %", "gain over alone", "p (Holm)"),
        *("helped / hurt / undecided", "MB per hospital", "secure sums", "ε = 8", "ε = 2"),
        "still rising",
    )
    return "\n\n".join([markdown_table(heads, rows), *_missing(found)])


def _missing(found: Study) -> Iterator[str]:
    """What the design has and the kept runs have not."""
    names = [
        f"`{row.name}`"
        + (
            f" ({len(found.rows[row.name])} of {len(SPLITS)} splits)"
            if row.name in found.rows
            else ""
        )
        for row in ROWS
        if len(found.rows.get(row.name, ())) < len(SPLITS)
    ]
    if names:
        yield f"Not run yet, or not on all splits: {', '.join(names)}."


_ALONE_AND_POOLED = {row.name for row in ROWS if row.method == "local"}


def _has_alone(found: Study, name: str) -> bool:
    return alone_of(name) in found.rows


def _named(name: str) -> tuple[str, str]:
    method, _, network = name.partition(", ")
    return f"`{method}`", f"`{network}`" if network else "its own"


def _spread(runs: Runs) -> str:
    values = [100 * _score(run) for run in runs.values()]
    around = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    few = "" if len(values) == len(SPLITS) else f" ({plural(len(values), 'split')})"
    return f"{fmean(values):.2f}{around}{few}"


def _megabytes(runs: Runs) -> str:
    sent = fmean(r.summary.traffic.total / len(r.summary.scores.clients) for r in runs.values())
    return f"{sent / 1e6:.1f}" if sent else "0"


def _rising(runs: Runs) -> str:
    return f"{sum(not_converged([run]) is not None for run in runs.values())} of {len(runs)}"


_WAYS: Mapping[str, Mapping[str, object]] = {
    "secure": {"secure": True},
    "epsilon-8": {"dp": "unit=graph,epsilon=8,delta=1e-4"},
    "epsilon-2": {"dp": "unit=graph,epsilon=2,delta=1e-4"},
}


def _protected_cell(found: Study, name: str, way: str) -> str:
    """The accuracy with a protection, `refused` if it is, or that it was not run."""
    row = next(one for one in ROWS if one.name == name)
    if row.method == "local":
        return "–"
    runs = found.protected.get("fixed-point" if way == "secure" else way, {})
    if runs and protections()[way].row == name:
        return _spread(runs)
    return "not run" if _allowed(row, _WAYS[way]) else "refused"


def _allowed(row: Row, way: Mapping[str, Any]) -> bool:
    try:
        given_experiment(row.method, "abide", {}, {"network": row.network, **way})
    except RametError:
        return False
    return True


_PROTECTIONS = {
    "fixed-point": "sums in fixed point",
    "secure": "secure sums",
    "epsilon-8": "ε = 8 per person",
    "epsilon-2": "ε = 2 per person",
}


def protected_table(found: Study) -> str:
    """Each protection next to the same method without, on the same splits."""
    rows: list[tuple[str, ...]] = []
    for name, runs in found.protected.items():
        row = protections()[name].row
        plain = {draw: found.rows[row][draw] for draw in runs}
        gain = _gain(runs, plain)
        values = [fmean(map(_score, one.values())) for one in (plain, runs)]
        cells = (f"`{method_of(row)}`", _PROTECTIONS[name], str(len(runs)), *map(percent, values))
        rows.append((*cells, _words(gain), _megabytes(runs), _bits(found, name)))
    if not rows:
        return "Not run yet."
    heads = ("method", "protection", "splits", "without %", "with %", "difference")
    return markdown_table((*heads, "MB per hospital", "SHA-256"), rows)


def _bits(found: Study, name: str) -> str:
    """How many runs with secure sums end with the bits of fixed point."""
    if name != "secure":
        return "–"
    runs, fixed = found.protected[name], found.protected["fixed-point"]
    same = sum(runs[draw].summary.sha256 == fixed[draw].summary.sha256 for draw in runs)
    return f"{same} of {len(runs)} as in fixed point"


def claims_table(found: Study) -> str:
    """Each claim with its status, by the code that judges the papers' claims."""
    rows, left = [], 0
    for claim in CLAIMS:
        one = judged(found, claim)
        if one.gain is None:
            left += 1
            continue
        bound = f", at least {claim.at_least:+g} asked for" if claim.at_least else ""
        over = f"{_compared(claim.better)} over {_compared(claim.than)}"
        rows.append((claim.says, over, f"{_words(one.gain)}{bound}", f"**{one.status}**"))
    table = markdown_table(("claim", "comparison", "difference", ""), rows)
    return f"{table}\n\n{plural(left, 'further comparison')} not run." if left else table


def _compared(row: str) -> str:
    method, _, network = row.partition(", ")
    return f"`{method}`" + (f" (`{network}`)" if network else "")


def judged(found: Study, claim: Claim) -> claims.Outcome:
    folder = "hospitals"
    facts = {"says": claim.says, "better": claim.better, "than": claim.than}
    asked = claims.Claim(
        paper=folder, setting="abide", folder=folder, at_least=claim.at_least, **facts
    )
    runs: RunsByFolder = {folder: found.rows}
    return claims.outcome(asked, runs)


def hospitals_table(found: Study) -> str:
    """Each hospital alone, and together by the chosen method."""
    sizes = _sizes(found)
    rows = [
        (
            one.site,
            f"{sizes[one.site].train} / {sizes[one.site].test}",
            *(percent(score) for score in (one.constant, one.alone, one.together)),
            SHARE.change(one.gain.mean),
            interval(one.gain, SHARE),
            "–" if one.p_holm is None else f"{one.p_holm:.2f}",
            one.gain.verdict,
        )
        for one in by_size(found)
    ]
    heads = ("hospital", "train / test", "majority", "alone", "together", "gain", "95 % interval")
    return markdown_table((*heads, "p (Holm)", "by itself"), rows)


def by_size(found: Study) -> list[SiteStanding]:
    """The hospitals, the largest first."""
    sizes = _sizes(found)
    sites = found.hospitals(found.chosen)
    return sorted(sites, key=lambda one: (-sizes[one.site].train, one.site))


def leak_table() -> str:
    """What `ramet leak` found in a run without protection and in one with ε = 8."""
    audits = {
        words: Audit.from_json(json.loads((KEPT / f"leak-{name}.jsonl").read_text()))
        for name, words in (("plain", "without protection"), ("epsilon-8", "ε = 8 per person"))
        if (KEPT / f"leak-{name}.jsonl").exists()
    }
    rows = [
        (words, *(_found(one.of(attack, view)) for attack, view in _ATTACKS))
        for words, one in audits.items()
    ]
    if not rows:
        return "Not run yet."
    return markdown_table(("run", *(f"{attack}, {view}" for attack, view in _ATTACKS)), rows)


_ATTACKS: tuple[tuple[str, View], ...] = (
    ("labels", "replies"),
    ("membership", "replies"),
    ("membership", "rounds"),
    ("membership", "model"),
    ("lira", "replies"),
    ("lira", "model"),
    ("lira-tpr", "model"),
    ("epsilon", "model"),
)


def _found(one: Finding | None) -> str:
    """The result with its interval; bold if the interval excludes chance."""
    if one is None or one.value is None or one.low is None:
        return "–"
    if not one.has_power:
        return "no power"
    if one.high is None:
        return f"≥ {one.low:.2f}"
    text = f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"
    return f"**{text}**" if one.leaks else text


# --- the figure ---


def figure() -> Figure:
    """All people and each hospital: accuracy alone and together, and the gain with its interval."""
    found = study()
    sizes, sites = _sizes(found), by_size(found)
    alone, together, pooled = (
        100 * fmean(map(_score, found.rows[name].values()))
        for name in (ALONE, found.chosen, POOLED)
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
        left.scatter(starts, places, color=COLOURS[2], label="alone")
        left.scatter(stops, places, color=COLOURS[1], label="together")
        right.scatter([100 * gain.mean for gain in gains], places, color=COLOURS[1], s=25)
        left.axvline(pooled, color=COLOURS[0], linestyle="--", label="all data in one place")
        left.axvline(
            _majority(found), color="grey", linestyle=":", label="the more frequent answer"
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
