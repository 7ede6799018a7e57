"""FedLIT and its baselines over partitions, from kept runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import TypeAlias

from columns import HERE, Runs, Score, at_best_validation, in_words, on_all_data, on_clients

from ramet.experiment import MethodSpec
from ramet.report.text import markdown_table
from ramet.studies.archive import finished_runs
from ramet.studies.gains import paired_gain

PARTITIONS, BASELINE = ("distinct", "dominant", "balanced", "central"), "fed-gcn"
ByMethod: TypeAlias = Mapping[str, Mapping[str, Runs]]


def tables(setting: str, *clients: str) -> dict[str, str]:
    """By the choice of the round: the server's model on the whole graph, or only these clients.

    A cell has the mean ± standard deviation over seeds and, in brackets, the number of seeds if it
    is not five, the gain over Fed-GCN on common seeds with the p-value of a paired t-test if there
    are five, and the NMI of found and true link kinds in the last round. Local GCNs have no common
    model, so their cells are means over the clients' own test nodes and have no gain.
    """
    by_method = _runs_by_method(setting)
    if clients:
        parts = {  # the central partition has one client
            method: {name: runs for name, runs in own.items() if name != "central"}
            for method, own in by_method.items()
        }
        return {"last round": _table(parts, on_clients(*clients), lambda _: True)}
    return {
        "best validation": _table(by_method, at_best_validation, _has_common_model, True),
        "last round": _table(by_method, on_all_data, _has_common_model),
    }


def _runs_by_method(setting: str) -> dict[str, dict[str, Runs]]:
    by_method: dict[str, dict[str, Runs]] = {}
    for label, runs in finished_runs([HERE / setting]).items():
        spec = MethodSpec.parse(label)
        options = {**spec.options}
        partition = options.pop("partition")
        by_method.setdefault(str(replace(spec, options=options)), {})[partition] = runs
    return by_method


def _table(
    by_method: ByMethod,
    score: Score,
    comparable: Callable[[Runs], bool],
    agreement: bool = False,
) -> str:
    """A row per method, a column per partition that some method was run on."""
    shown = [p for p in PARTITIONS if any(p in own for own in by_method.values())]
    rows = []
    for method, by_partition in by_method.items():
        cells = []
        for partition in shown:
            runs = by_partition.get(partition, {})
            baseline = by_method[BASELINE].get(partition, {}) if comparable(runs) else {}
            cells.append(_cell(runs, baseline, score, agreement) if runs else "–")
        rows.append((method, *cells))
    return markdown_table(("", *shown), rows)


def _cell(runs: Runs, baseline: Runs, score: Score, agreement: bool) -> str:
    own = {seed: score(run) for seed, run in runs.items()}
    notes = [] if len(own) == 5 else [f"{len(own)} seeds"]
    gains = {s: own[s] - score(baseline[s]) for s in sorted(own.keys() & baseline.keys())}
    if any(gains.values()):
        p = paired_gain(gains, None).p_value
        notes.append(f"{fmean(gains.values()):+.2f}" + ("" if p is None else f", p {p:.3f}"))
    overviews = [run.summary.scores.overview for run in runs.values()]
    known = [overview["nmi"] for overview in overviews if "nmi" in overview]
    if known and agreement:
        notes.append(f"NMI {fmean(known):.2f}")
    return in_words([*own.values()]) + (f" ({'; '.join(notes)})" if notes else "")


def _has_common_model(runs: Runs) -> bool:
    return all(run.on_all_data is not None for run in runs.values())
