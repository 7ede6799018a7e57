"""Tables of a setting's kept runs: `python results/tables.py SETTING [TARGET]`.

Prints one row per method, and the test score of each client after the last round. TARGET, a test
score in percent, adds a column with the rounds until that score. If the runs were also evaluated on
the whole graph, a third table has those scores: of the server's model, or of the clients' models if
they were evaluated there (`judged=whole`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

from ramet.report.study_tables import standing_columns
from ramet.studies.archive import finished_runs
from ramet.studies.comparison import standings
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import paired_gain


def main() -> None:
    setting, *rest = sys.argv[1:]
    target = float(rest[0]) / 100 if rest else None
    by_label = finished_runs([Path(__file__).parent / setting])
    print(both(by_label, target))
    whole = {label: on_whole_graph(runs) for label, runs in by_label.items()}
    overviews = [run.summary.scores.overview for runs in by_label.values() for run in runs.values()]
    if all("mrr" in overview for overview in overviews):
        print()
        print(of_the_server(by_label))
    elif any(whole.values()):
        print()
        print(whole_graph_table({label: scores for label, scores in whole.items() if scores}))


def both(by_label: FinishedRuns, target: float | None) -> str:
    """One row per method, and the scores by client."""
    return f"{overall(by_label, target)}\n\n{by_client(by_label)}"


def of_the_server(by_label: FinishedRuns) -> str:
    """The server's model on all data after the last round, and what the whole run sent up."""
    heads = ["method", "seeds", "all data", "worst seed", "MRR", "clients", "tensors up", "MB up"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for label, runs in by_label.items():
        scores = [run.summary.scores for run in runs.values()]
        seen = [100 * one.overview["test"] for one in scores]
        ranks = [100 * one.overview["mrr"] for one in scores]
        sent = [run.summary.sent for run in runs.values() if run.summary.sent]
        cells = [
            label,
            str(len(runs)),
            f"{fmean(seen):.2f}" + (f" ± {stdev(seen):.2f}" if len(seen) > 1 else ""),
            f"{min(seen):.2f}",
            f"{fmean(ranks):.2f}",
            f"{fmean(100 * one.test for one in scores):.2f}",
            f"{fmean(one.tensors.up for one in sent):,.0f}",
            f"{fmean(one.bytes.up for one in sent) / 1e6:,.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def overall(by_label: FinishedRuns, target: float | None) -> str:
    rows = standings(by_label, target)
    columns = {
        "method": [row.label for row in rows],
        "seeds": [str(row.seeds) for row in rows],
        **standing_columns(rows, target),
    }
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in zip(*columns.values(), strict=True)]
    return "\n".join(lines)


def by_client(by_label: FinishedRuns) -> str:
    first = next(iter(next(iter(by_label.values())).values()))
    clients = list(first.summary.scores.clients)
    lines = ["| | " + " | ".join(clients) + " |", "|---" * (len(clients) + 1) + "|"]
    for label, runs in by_label.items():
        scores = [run.summary.scores.clients for run in runs.values()]
        if any(list(one) != clients for one in scores):
            continue
        means = [100 * fmean(evaluated(one)[client] for one in scores) for client in clients]
        lines.append(f"| {label} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


def evaluated(scores: Mapping[str, float | None]) -> dict[str, float]:
    """The scores of the clients that replied in the last round; in kept runs all did."""
    return {client: score for client, score in scores.items() if score is not None}


def on_whole_graph(runs: Mapping[Draw, FinishedRun]) -> dict[Draw, float]:
    """Last-round scores in percent by seed; empty without evaluation on the whole graph."""
    scores = {seed: run.summary.scores for seed, run in runs.items()}
    if all(score.overview for score in scores.values()):
        return {seed: 100 * score.overview["test"] for seed, score in scores.items()}
    if all("judged=whole" in run.command for run in runs.values()):
        return {seed: 100 * score.test for seed, score in scores.items()}
    return {}


def whole_graph_table(scores: Mapping[str, Mapping[Draw, float]]) -> str:
    """Mean ± standard deviation, and the gain over FedSage on common seeds with its paired p."""
    baseline = scores.get("fedsage-nodes", {})
    lines = [
        "| on the whole graph | seeds | last round | over fedsage-nodes | p |",
        "|---" * 5 + "|",
    ]
    for label, own in scores.items():
        gains = {seed: own[seed] - baseline[seed] for seed in own.keys() & baseline.keys()}
        compared = own is not baseline and len(gains) > 1
        spread = f" ± {stdev(own.values()):.2f}" if len(own) > 1 else ""
        p = paired_gain(gains, None).p_value if compared else None
        gain = f"{fmean(gains.values()):+.2f}" if compared else "–"
        mean = f"{fmean(own.values()):.2f}{spread}"
        lines.append(
            f"| {label} | {len(own)} | {mean} | {gain} | {'–' if p is None else f'{p:.3f}'} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
