"""FedAvg over plain networks on Cora: `python results/networks.py`.

Runs are kept in `cora-10-split-N`. Ten clients hold Louvain communities. A cell has the accuracy
after some rounds, averaged over clients: mean ± standard deviation over five splits, each with its
own communities and seed 1.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from ramet.studies.archive import kept

ROUNDS = (20, 60, 200)


def main() -> None:
    scores: dict[str, dict[int, list[float]]] = {}
    folders = sorted(Path(__file__).parent.glob("cora-10-split-*"))
    for run in (run for folder in folders for run in kept(folder)):
        by_round = scores.setdefault(run.label, {number: [] for number in ROUNDS})
        for number in ROUNDS:
            (score,) = (one.test for one in run.rounds if one.number == number)
            by_round[number].append(100 * score)
    print("| method | splits |" + "".join(f" {number} rounds |" for number in ROUNDS))
    print("|---" * (len(ROUNDS) + 2) + "|")
    for label, by_round in sorted(scores.items()):
        cells = [f"{fmean(own):.2f} ± {stdev(own):.2f}" for own in by_round.values()]
        print(f"| `{label}` | {len(by_round[ROUNDS[0]])} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
