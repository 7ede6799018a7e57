"""How well link kinds are found, by how much they differ: `python results/contrast.py [PNG]`.

Scores are from the kept runs of `planted-contrast`: NMI after the last round, accuracy at the round
with the best validation score. Homophily is recomputed on the generated graphs. With PNG, also
draws NMI over the difference in edge homophily.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from ramet.experiment import SPLIT_SEED, default_data
from ramet.experiment.named import setting_named
from ramet.partition import Reading
from ramet.partition.inspection import LinkInspection, inspect
from ramet.studies.archive import finished_runs


def main() -> None:
    reading, rows = Reading(default_data(), SPLIT_SEED), []
    for label, runs in finished_runs([Path(__file__).parent / "planted-contrast"]).items():
        contrast = next(o for o in label.split(",") if o.startswith("contrast=")).partition("=")[2]
        seen = inspect(setting_named("planted", {"contrast": contrast}), reading)
        assert isinstance(seen, LinkInspection)
        kinds = seen.kinds.values()
        scores = [run.summary.scores.overview for run in runs.values()]
        rows.append(
            (
                float(contrast),
                _range([kind.edge_homophily for kind in kinds]),
                _range([kind.attribute_homophily for kind in kinds]),
                fmean(score["nmi"] for score in scores),
                100 * fmean(score["test_at_best_val"] for score in scores),
                len(scores),
            )
        )
    rows.sort()
    print(
        "| contrast | EH difference | AH difference | NMI | accuracy | seeds |\n" + "|---" * 6 + "|"
    )
    for row in rows:
        print("| {:g} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |".format(*row))
    if sys.argv[1:]:
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot([row[1] for row in rows], [row[3] for row in rows], "o-", color="#0072B2")
        axes.set(
            xlabel="largest difference in edge homophily between two kinds",
            ylabel="NMI of found and true kinds",
            ylim=(-0.03, 1.03),
        )
        axes.grid(alpha=0.25)
        figure.savefig(sys.argv[1], dpi=150)


def _range(values: list[float]) -> float:
    return max(values) - min(values)


if __name__ == "__main__":
    main()
