"""Methods of the field next to FedAvg and Local: `python results/field.py [FOLDER …]`.

Prints a table for each folder, by default all `field-*`: test score after the last round, averaged
over clients, as mean ± standard deviation over seeds; kilobytes per client and round; wall time of
a run on one thread, which depends on what else the machine did. All runs of a folder have the same
setting and number of rounds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, stdev

from ramet.studies.archive import finished_runs

HERE = Path(__file__).parent
HEADS = ("method", "seeds", "test", "KB up", "KB down", "seconds")


def main() -> None:
    for name in sys.argv[1:] or sorted(path.name for path in HERE.glob("field-*")):
        by_label = finished_runs([HERE / name])
        first = next(run for runs in by_label.values() for run in runs.values())
        print(f"\n{name}: {first.setting}, {first.summary.rounds} rounds\n")
        print(f"| {' | '.join(HEADS)} |")
        print("|---" * len(HEADS) + "|")
        for label, runs in by_label.items():
            summaries = [run.summary for run in runs.values()]
            scores = [100 * one.scores.test for one in summaries]
            spread = f" ± {stdev(scores):.2f}" if len(scores) > 1 else ""
            up, down, seconds = (
                fmean(values)
                for values in (
                    [one.traffic.up_per_client_round / 1024 for one in summaries],
                    [one.traffic.down_per_client_round / 1024 for one in summaries],
                    [one.seconds for one in summaries],
                )
            )
            cells = f"{fmean(scores):.2f}{spread} | {up:.2f} | {down:.2f} | {seconds:.0f}"
            print(f"| `{label}` | {len(scores)} | {cells} |")


if __name__ == "__main__":
    main()
