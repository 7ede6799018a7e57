"""The tables of this folder from its kept runs: `python results/tables.py SETTING [TARGET]`."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, stdev

from ramet.archive import found
from ramet.metrics import Stories, standings
from ramet.report.tables import standing_cells, standing_heads


def main() -> None:
    setting, *rest = sys.argv[1:]
    target = float(rest[0]) / 100 if rest else None
    stories = found([Path(__file__).parent / setting])
    print(overall(stories, target))
    print()
    print(by_client(stories))
    told = [story.result for runs in stories.values() for story in runs.values()]
    if all("overview" in result["scores"] and "sent" in result for result in told):
        print()
        print(of_the_server(stories))


def of_the_server(stories: Stories) -> str:
    """The server's model on all data, beside what the whole run sent up."""
    heads = ["method", "seeds", "all data", "worst seed", "MRR", "clients", "tensors up", "MB up"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for label, runs in stories.items():
        results = [story.result for story in runs.values()]
        seen = [100 * result["scores"]["overview"]["test"] for result in results]
        ranks = [100 * result["scores"]["overview"].get("mrr", 0.0) for result in results]
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
    heads = ["method", "seeds", *standing_heads(target)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in standings(stories, target):
        cells = [row.label, str(row.seeds), *standing_cells(row, target)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_client(stories: Stories) -> str:
    first = next(iter(next(iter(stories.values())).values()))
    clients = list(first.result["scores"]["clients"])
    lines = ["| | " + " | ".join(clients) + " |", "|---" * (len(clients) + 1) + "|"]
    for label, runs in stories.items():
        means = [
            100 * fmean(story.result["scores"]["clients"][client] for story in runs.values())
            for client in clients
        ]
        lines.append(f"| {label} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
