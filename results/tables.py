"""The tables of this folder from its kept runs: `python results/tables.py SETTING [TARGET]`.

Where a setting has an overview, a third table has the scores on the whole graph: of the averaged
model, or of the clients' own models if they were judged there (`judged=whole`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

from ramet.archive import found
from ramet.metrics import Stories, Story, chance, standings
from ramet.report.tables import standing_columns


def main() -> None:
    setting, *rest = sys.argv[1:]
    target = float(rest[0]) / 100 if rest else None
    stories = found([Path(__file__).parent / setting])
    print(overall(stories, target))
    print()
    print(by_client(stories))
    whole = {label: on_the_whole(runs) for label, runs in stories.items()}
    told = [story.result for runs in stories.values() for story in runs.values()]
    if all(
        "overview" in result["scores"] and "mrr" in result["scores"]["overview"] for result in told
    ):
        print()
        print(of_the_server(stories))
    elif any(whole.values()):
        print()
        print(beside_each_other({label: scores for label, scores in whole.items() if scores}))


def of_the_server(stories: Stories) -> str:
    """The server's model on all data, beside what the whole run sent up."""
    heads = ["method", "seeds", "all data", "worst seed", "MRR", "clients", "tensors up", "MB up"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for label, runs in stories.items():
        results = [story.result for story in runs.values()]
        seen = [100 * result["scores"]["overview"]["test"] for result in results]
        ranks = [100 * result["scores"]["overview"]["mrr"] for result in results]
        sent = [result["sent"] for result in results]
        cells = [
            label,
            str(len(runs)),
            f"{fmean(seen):.2f}" + (f" ± {stdev(seen):.2f}" if len(seen) > 1 else ""),
            f"{min(seen):.2f}",
            f"{fmean(ranks):.2f}",
            f"{fmean(100 * result['scores']['test'] for result in results):.2f}",
            f"{fmean(told['tensors']['up'] for told in sent):,.0f}",
            f"{fmean(told['bytes']['up'] for told in sent) / 1e6:,.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def overall(stories: Stories, target: float | None) -> str:
    rows = standings(stories, target)
    columns = {
        "method": [row.label for row in rows],
        "seeds": [str(row.seeds) for row in rows],
        **standing_columns(rows, target),
    }
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in zip(*columns.values(), strict=True)]
    return "\n".join(lines)


def by_client(stories: Stories) -> str:
    first = next(iter(next(iter(stories.values())).values()))
    clients = list(first.result["scores"]["clients"])
    lines = ["| | " + " | ".join(clients) + " |", "|---" * (len(clients) + 1) + "|"]
    for label, runs in stories.items():
        if any(list(story.result["scores"]["clients"]) != clients for story in runs.values()):
            continue
        means = [
            100 * fmean(story.result["scores"]["clients"][client] for story in runs.values())
            for client in clients
        ]
        lines.append(f"| {label} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


def on_the_whole(runs: Mapping[int, Story]) -> dict[int, float]:
    """By seed, in percent; nothing if these runs were not judged on the whole graph."""
    scores = {seed: story.result["scores"] for seed, story in runs.items()}
    if all("overview" in score for score in scores.values()):
        return {seed: 100 * score["overview"]["test"] for seed, score in scores.items()}
    if all("judged=whole" in story.command for story in runs.values()):
        return {seed: 100 * score["test"] for seed, score in scores.items()}
    return {}


def beside_each_other(scores: Mapping[str, Mapping[int, float]]) -> str:
    """Mean and spread, and the gain over FedSage on common seeds with its paired p."""
    yardstick = scores.get("fedsage-nodes", {})
    lines = [
        "| on the whole graph | seeds | last round | over fedsage-nodes | p |",
        "|---" * 5 + "|",
    ]
    for label, own in scores.items():
        gains = [own[seed] - yardstick[seed] for seed in own.keys() & yardstick.keys()]
        told = own is not yardstick and len(gains) > 1
        spread = f" ± {stdev(own.values()):.2f}" if len(own) > 1 else ""
        p = chance(gains) if told else None
        gain = f"{fmean(gains):+.2f}" if told else "–"
        mean = f"{fmean(own.values()):.2f}{spread}"
        lines.append(
            f"| {label} | {len(own)} | {mean} | {gain} | {'–' if p is None else f'{p:.3f}'} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
