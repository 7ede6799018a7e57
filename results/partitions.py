"""Methods over partitions, from kept runs: `python results/partitions.py SETTING`.

Accuracy of the server's model on the whole graph, at the round that is best there in validation:
mean ± standard deviation over seeds; in brackets the gain over Fed-GCN on common seeds with p of a
paired t-test, and the agreement (NMI, last round) of found with true kinds of links.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

from ramet.archive import found
from ramet.metrics import Story, chance

PARTITIONS, YARDSTICK = ("distinct", "dominant", "balanced", "central"), "fed-gcn"


def main() -> None:
    by_method: dict[str, dict[str, Mapping[int, Story]]] = {}
    for label, runs in found([Path(__file__).parent / sys.argv[1]]).items():
        method, *options = label.split(",")
        partition = next(o for o in options if o.startswith("partition=")).partition("=")[2]
        rest = [option for option in options if not option.startswith("partition=")]
        by_method.setdefault(",".join([method, *rest]), {})[partition] = runs
    shown = [p for p in PARTITIONS if any(p in cells for cells in by_method.values())]
    print("| | " + " | ".join(shown) + " |\n" + "|---" * (len(shown) + 1) + "|")
    for method, cells in by_method.items():
        texts = [
            cell(cells[p], by_method.get(YARDSTICK, {}).get(p, {})) if p in cells else "–"
            for p in shown
        ]
        print(f"| {method} | " + " | ".join(texts) + " |")


def cell(runs: Mapping[int, Story], yardstick: Mapping[int, Story]) -> str:
    own = {seed: _score(story) for seed, story in runs.items()}
    spread = f" ± {stdev(own.values()):.2f}" if len(own) > 1 else ""
    notes = [] if len(own) == 5 else [f"{len(own)} seeds"]
    gains = [own[s] - _score(yardstick[s]) for s in sorted(own.keys() & yardstick.keys())]
    if gains and any(gains):
        p = chance(gains)
        notes.append(f"{fmean(gains):+.2f}" + ("" if p is None else f", p {p:.3f}"))
    agreement = [s.result["scores"].get("overview", {}).get("nmi") for s in runs.values()]
    told = [nmi for nmi in agreement if nmi is not None]
    if told:
        notes.append(f"NMI {fmean(told):.2f}")
    return f"{fmean(own.values()):.2f}{spread}" + (f" ({'; '.join(notes)})" if notes else "")


def _score(story: Story) -> float:
    """On the whole graph; the clients' mean where nothing is shared, so that no model is common."""
    scores = story.result["scores"]
    return 100 * float(scores.get("overview", scores)["test_at_best_val"])


if __name__ == "__main__":
    main()
