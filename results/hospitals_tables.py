"""Tables of `docs/hospitals.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from statistics import fmean, stdev
from typing import Any

from hospitals import (
    CLAIMS,
    EXTENDED,
    KEPT,
    MORE,
    NOT_CENTRED,
    ROWS,
    SPLITS,
    Row,
    protections,
    tuned,
)
from hospitals_study import (
    ALONE,
    Runs,
    Study,
    adjusted,
    alone_of,
    by_size,
    constant_score,
    counts,
    gain_between,
    judged,
    method_of,
    score,
    sizes_of,
    standings,
    words,
)

from ramet.errors import RametError
from ramet.leak import Audit, Finding
from ramet.leak.findings import View
from ramet.report.site_tables import interval
from ramet.report.text import markdown_table, percent, plural
from ramet.runs import given_experiment
from ramet.scale import SHARE
from ramet.studies.convergence import not_converged
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import Gain


def methods_table(found: Study) -> str:
    """A row per method and network."""
    compared = [name for name in found.rows if name not in _ALONE_AND_POOLED]
    gains = {name: found.gain(name, alone_of(name)) for name in compared if _has_alone(found, name)}
    rows, p_values = [], adjusted(found)
    for name, runs in found.rows.items():
        gain = gains.get(name)
        sites = counts(found.hospitals(name)) if gain else None
        p = p_values.get(name)
        rows.append(
            (
                *_named(name),
                _spread(runs),
                _over_hospitals(runs),
                validation(name),
                words(gain) if gain else "–",
                "–" if p is None else f"{p:.3f}",
                " / ".join(map(str, sites)) if sites else "–",
                _megabytes(runs),
                *(_protected_cell(found, name, kind) for kind in _WAYS),
                _rising(runs),
            )
        )
    heads = (
        *("method", "network", "accuracy %", "by hospital", "validation %"),
        *("gain over alone", "p (Holm)"),
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
    values = [100 * score(run) for run in runs.values()]
    around = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    few = "" if len(values) == len(SPLITS) else f" ({plural(len(values), 'split')})"
    return f"{fmean(values):.2f}{around}{few}"


def _over_hospitals(runs: Runs) -> str:
    """The unweighted mean."""
    clients = [run.summary.scores.clients.values() for run in runs.values()]
    if any(len(scores) == 1 for scores in clients):
        return "–"
    return f"{fmean(100 * (one or 0.0) for scores in clients for one in scores):.2f}"


def validation(name: str) -> str:
    """The mean validation accuracy of the configurations that count."""
    lines = [line for (row, split), line in tuned().items() if row == name and split in SPLITS]
    return percent(fmean(line["trials"][line["best"]]["val"] for line in lines))


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
        given_experiment(row.method, "abide", dict(NOT_CENTRED), {"network": row.network, **way})
    except RametError:
        return False
    return True


_PROTECTIONS = {
    "fixed-point": "sums in fixed point",
    "secure": "secure sums",
    "not-centred": "no mean subtracted",
    "epsilon-8": "ε = 8 per person",
    "epsilon-2": "ε = 2 per person",
}


def protected_table(found: Study) -> str:
    """Each protection next to the same method without, on the same splits."""
    rows: list[tuple[str, ...]] = []
    for name, runs in found.protected.items():
        row = protections()[name].row
        scored = {draw: _scored(found, name, draw) for draw in runs}
        plain = {draw: found.rows[row][draw] for draw in runs}
        alone = {draw: found.rows[ALONE][draw] for draw in runs}
        values = [fmean(map(score, one.values())) for one in (plain, scored)]
        cells = (f"`{method_of(row)}`", _PROTECTIONS[name], str(len(runs)), *map(percent, values))
        gains = [words(gain_between(scored, other)) for other in (plain, alone)]
        rows.append((*cells, *gains, _megabytes(runs), _bits(found, name)))
    if not rows:
        return "Not run yet."
    heads = ("method", "protection", "splits", "without %", "with %", "difference")
    return markdown_table((*heads, "over alone", "MB per hospital", "SHA-256"), rows)


def _scored(found: Study, name: str, draw: Draw) -> FinishedRun:
    """The run, or the one in fixed point with its bits: masks hide scores of single hospitals."""
    run = found.protected[name][draw]
    fixed = found.protected["fixed-point"].get(draw)
    same = fixed is not None and fixed.summary.sha256 == run.summary.sha256
    return fixed if fixed is not None and same else run


def _bits(found: Study, name: str) -> str:
    """How many runs with secure sums end with the bits of fixed point."""
    if name != "secure":
        return "–"
    runs, fixed = found.protected[name], found.protected["fixed-point"]
    same = sum(runs[draw].summary.sha256 == fixed[draw].summary.sha256 for draw in runs)
    return f"{same} of {len(runs)} as in fixed point"


def claims_table(found: Study) -> str:
    """Each claim with its status, by the code that judges the papers' claims."""
    rows, left, p_values = [], 0, adjusted(found)
    for claim in CLAIMS:
        one = judged(found, claim)
        if one.gain is None:
            left += 1
            continue
        bound = f", at least {claim.at_least:+g} asked for" if claim.at_least else ""
        over = f"{_compared(claim.better)} over {_compared(claim.than)}"
        p = p_values.get(claim.better) if claim.than == ALONE else None
        cells = (f"{words(one.gain)}{bound}", "–" if p is None else f"{p:.3f}", f"**{one.status}**")
        rows.append((claim.says, over, *cells))
    table = markdown_table(("claim", "comparison", "difference", "p (Holm)", ""), rows)
    return f"{table}\n\n{plural(left, 'further comparison')} not run." if left else table


def _compared(row: str) -> str:
    method, _, network = row.partition(", ")
    return f"`{method}`" + (f" (`{network}`)" if network else "")


def more_splits_table(found: Study) -> str:
    """The gains on the splits of the design, on those that were added, and on all."""
    pairs = [(name, ALONE) for name in EXTENDED if name != ALONE] + [
        ("scaffold, linear", "fedavg, linear")
    ]
    rows = []
    for better, than in pairs:
        own, other = found.extended[better], found.extended[than]
        designed = {draw: run for draw, run in own.items() if draw.split_seed in SPLITS}
        added = {draw: run for draw, run in own.items() if draw.split_seed in MORE}
        cells = (
            words(gain_between(part, other)) if part else "–" for part in (designed, added, own)
        )
        rows.append((f"{_compared(better)} over {_compared(than)}", *cells, str(len(own))))
    heads = ("comparison", "ten splits of the design", "added", "all", "splits")
    return markdown_table(heads, rows)


def ages_table(found: Study) -> str:
    """The mean absolute error of people's ages."""
    rows = []
    for name, runs in found.ages.items():
        alone = found.ages["local, age"]
        pooled = name == "pooled, age"
        sites = None if pooled or name == "local, age" else standings(alone, runs)
        rows.append(
            (
                f"`{method_of(name)}`",
                str(len(runs)),
                f"{fmean(map(score, runs.values())):.2f}{_deviation(runs)}",
                f"{fmean(map(constant_score, runs.values())):.2f}",
                "–" if name == "local, age" else _years(gain_between(runs, alone)),
                "–" if sites is None else " / ".join(map(str, counts(sites))),
            )
        )
    if not rows:
        return "Not run yet."
    heads = ("method", "splits", "error, years", "always the mean of the training people")
    return markdown_table((*heads, "gain over alone, years", "helped / hurt / undecided"), rows)


def _deviation(runs: Runs) -> str:
    values = [*map(score, runs.values())]
    return f" ± {stdev(values):.2f}" if len(values) > 1 else ""


def _years(gain: Gain) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.mean:+.2f} –"
    return f"{gain.mean:+.2f} [{gain.low:.2f}, {gain.high:.2f}]"


def hospitals_table(found: Study) -> str:
    """Each hospital alone, and together by the chosen method."""
    sizes = sizes_of(found)
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
