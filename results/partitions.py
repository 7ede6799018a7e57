"""FedLIT and its baselines over partitions, from kept runs.

    python results/partitions.py SETTING                # planted or acm-links
    python results/partitions.py SETTING CLIENT …       # only these clients' own test nodes

The first form prints two tables of the server's model on the whole graph: at the round with the
best validation score there, and after the last round. A cell has the mean ± standard deviation over
seeds and, in brackets, the number of seeds if it is not five, the gain over Fed-GCN on common seeds
with the p-value of a paired t-test if there are five, and the NMI of found and true link kinds in
the last round. Local GCNs have no common model, so their cells are means over the clients' own test
nodes and have no gain. The second form prints the mean over the given clients after the last round.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeAlias

from ramet.studies.archive import finished_runs
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import paired_gain

PARTITIONS, BASELINE = ("distinct", "dominant", "balanced", "central"), "fed-gcn"
ByPartition: TypeAlias = Mapping[str, Mapping[Draw, FinishedRun]]
Score: TypeAlias = Callable[[FinishedRun], float]


def main() -> None:
    setting, *clients = sys.argv[1:]
    if clients:
        print(of_clients(setting, *clients))
        return
    found = tables(setting)
    print(f"At the round with the best validation score:\n\n{found['best validation']}")
    print(f"\nAfter the last round:\n\n{found['last round']}")


def tables(setting: str) -> dict[str, str]:
    """By the choice of the round."""
    by_method = runs_by_method(setting)
    return {
        "best validation": table(by_method, at_best_validation, has_common_model, agreement=True),
        "last round": table(by_method, after_last_round, has_common_model),
    }


def of_clients(setting: str, *clients: str) -> str:
    """Only these clients' own test nodes, after the last round."""
    by_method = runs_by_method(setting)
    parts = {method: without_central(cells) for method, cells in by_method.items()}
    return table(parts, on_clients(list(clients)), comparable=lambda _: True)


def runs_by_method(setting: str) -> dict[str, dict[str, Mapping[Draw, FinishedRun]]]:
    """The kept runs of a setting by method, then by partition."""
    by_method: dict[str, dict[str, Mapping[Draw, FinishedRun]]] = {}
    for label, runs in finished_runs([Path(__file__).parent / setting]).items():
        method, *options = label.split(",")
        partition = next(o for o in options if o.startswith("partition=")).partition("=")[2]
        rest = [option for option in options if not option.startswith("partition=")]
        by_method.setdefault(",".join([method, *rest]), {})[partition] = runs
    return by_method


def table(
    by_method: Mapping[str, ByPartition],
    score: Score,
    comparable: Callable[[Mapping[Draw, FinishedRun]], bool],
    agreement: bool = False,
) -> str:
    """A row per method, a column per partition that some method was run on."""
    shown = [p for p in PARTITIONS if any(p in cells for cells in by_method.values())]
    lines = ["| | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for method, cells in by_method.items():
        texts = []
        for partition in shown:
            runs = cells.get(partition, {})
            baseline = by_method[BASELINE].get(partition, {}) if comparable(runs) else {}
            texts.append(cell(runs, baseline, score, agreement) if runs else "–")
        lines.append(f"| {method} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def cell(
    runs: Mapping[Draw, FinishedRun],
    baseline: Mapping[Draw, FinishedRun],
    score: Score,
    agreement: bool,
) -> str:
    own = {seed: score(run) for seed, run in runs.items()}
    spread = f" ± {stdev(own.values()):.2f}" if len(own) > 1 else ""
    notes = [] if len(own) == 5 else [f"{len(own)} seeds"]
    gains = {s: own[s] - score(baseline[s]) for s in sorted(own.keys() & baseline.keys())}
    if any(gains.values()):
        p = paired_gain(gains, None).p_value
        notes.append(f"{fmean(gains.values()):+.2f}" + ("" if p is None else f", p {p:.3f}"))
    known = [run.summary.scores.overview["nmi"] for run in runs.values() if has_nmi(run)]
    if known and agreement:
        notes.append(f"NMI {fmean(known):.2f}")
    return f"{fmean(own.values()):.2f}{spread}" + (f" ({'; '.join(notes)})" if notes else "")


def without_central(cells: ByPartition) -> ByPartition:
    """The central partition has one client."""
    return {partition: runs for partition, runs in cells.items() if partition != "central"}


def has_common_model(runs: Mapping[Draw, FinishedRun]) -> bool:
    return all(run.on_all_data is not None for run in runs.values())


def has_nmi(run: FinishedRun) -> bool:
    return "nmi" in run.summary.scores.overview


def at_best_validation(run: FinishedRun) -> float:
    """On the whole graph; the mean over the clients if they have no common model."""
    on_all_data = run.on_all_data
    return 100 * (run.summary.scores.test_at_best_val if on_all_data is None else on_all_data)


def after_last_round(run: FinishedRun) -> float:
    """On the whole graph; the mean over the clients if they have no common model."""
    return 100 * run.score


def on_clients(clients: list[str]) -> Score:
    """After the last round, the mean over these clients' own test nodes."""

    def score(run: FinishedRun) -> float:
        scores = (run.summary.scores.clients[client] for client in clients)
        return 100 * fmean(one for one in scores if one is not None)

    return score


if __name__ == "__main__":
    main()
