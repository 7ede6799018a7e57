"""The tables of this folder from its kept runs: `python results/tables.py SETTING [TARGET]`."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

from ramet.archive import found
from ramet.metrics import Stories, standings
from ramet.report.tables import standing_columns


def main() -> None:
    setting, *rest = sys.argv[1:]
    target = float(rest[0]) / 100 if rest else None
    stories = found([Path(__file__).parent / setting])
    print(overall(stories, target))
    print()
    print(by_client(stories))


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
        means = [
            100 * fmean(story.result["scores"]["clients"][client] for story in runs.values())
            for client in clients
        ]
        lines.append(f"| {label} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
