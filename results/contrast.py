"""How well kinds of links are found, over how much they differ: `python results/contrast.py [PNG]`.

From the kept runs of `planted-contrast`; the homophilies are those of the graphs, drawn again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from ramet.archive import found
from ramet.inspection import inspect_links


def main() -> None:
    rows = []
    for label, runs in found([Path(__file__).parent / "planted-contrast"]).items():
        contrast = next(o for o in label.split(",") if o.startswith("contrast=")).partition("=")[2]
        seen = inspect_links("planted", options={"contrast": contrast})
        assert seen is not None
        kinds = seen.kinds.values()
        scores = [story.result["scores"]["overview"] for story in runs.values()]
        rows.append(
            (
                float(contrast),
                _widest([kind.edge_homophily for kind in kinds]),
                _widest([kind.attribute_homophily for kind in kinds]),
                fmean(score["nmi"] for score in scores),
                100 * fmean(score["test_at_best_val"] for score in scores),
                len(scores),
            )
        )
    rows.sort()
    print("| contrast | EH apart | AH apart | NMI | accuracy | seeds |\n" + "|---" * 6 + "|")
    for row in rows:
        print("| {:g} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |".format(*row))
    if sys.argv[1:]:
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot([row[1] for row in rows], [row[3] for row in rows], "o-", color="#0072B2")
        axes.set(
            xlabel="largest difference of edge homophily between kinds",
            ylabel="NMI of found and true kinds",
            ylim=(-0.03, 1.03),
        )
        axes.grid(alpha=0.25)
        figure.savefig(sys.argv[1], dpi=150)


def _widest(values: list[float]) -> float:
    return max(values) - min(values)


if __name__ == "__main__":
    main()
