"""The tables of this folder from its kept runs: `python results/tables.py SETTING [TARGET]`."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

from ramet.archive import found
from ramet.metrics import Stories, standings


def main() -> None:
    setting, *rest = sys.argv[1:]
    target = float(rest[0]) / 100 if rest else None
    stories = found([Path(__file__).parent / setting])
    print(overall(stories, target))
    print()
    print(by_client(stories))


def overall(stories: Stories, target: float | None) -> str:
    heads = ["method", "seeds", "test %", "at best val.", "gain", "p", "scalars", "KB up", "GFLOPs"]
    heads += [f"rounds to {100 * target:g} %"] if target is not None else []
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in standings(stories, target):
        work = row.flops_per_client_round
        cells = [
            row.label,
            str(row.seeds),
            f"{100 * row.test:.2f}" + (f" ± {100 * row.spread:.2f}" if row.spread else ""),
            f"{100 * row.test_at_best_val:.2f}",
            "–" if row.gain is None else f"{100 * row.gain:+.2f}",
            "–" if row.chance is None else f"{row.chance:.3f}",
            f"{row.scalars:,.0f}",
            f"{row.up_per_client_round / 1024:.2f}",
            "–" if work is None else f"{work / 1e9:.2f}",
        ]
        if target is not None:
            reached = row.rounds_to_target
            cells.append("not by all" if reached is None else f"{reached:.0f}")
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
