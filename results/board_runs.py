"""The runs of the board: every method is tuned with the same number of trials, then compared.

Trials are on the first split, by the best validation score of the rounds, with seed 0: of learning
rate, weight decay and dropout, with the first trial at a method's defaults if they are in the
range. Then come three splits with two seeds each. What was done is not done again, so this may be
stopped at any time. Runs that are kept go to `results/tuned-DATASET`, and the options that were
found to `results/tuned.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parent
TUNED = RESULTS / "tuned.jsonl"
WITH_ADAM = (
    "local",
    "fedavg",
    "fedprox",
    "fedper",
    "gcfl+",
    "fedgta",
    "fedpub",
    "fgssl",
    "fedtgp",
    "fedspray",
    "fedtad",
    "fedsage+",
    "o-pfgl,epochs=1",
    "adafgl",
    "local,hidden=128",  # as many parameters as FED-PUB and FedSpray have with 64
    "fedavg,hidden=128",
)
WITH_SGD = (
    "scaffold",
    "fedavg,algorithm=sgd",
    "fedprox,algorithm=sgd",
    "fedper,algorithm=sgd",
    "gcfl+,algorithm=sgd",
    "fedgta,algorithm=sgd",
    "fedpub,algorithm=sgd",
    "fgssl,algorithm=sgd",
    "fedspray,algorithm=sgd",
)
METHODS = (*WITH_ADAM, *WITH_SGD)
FEW = ("local", "fedavg", "fedper", "scaffold", "o-pfgl,epochs=1", "fedspray")
"""On datasets that are not among the first five: the baselines, and the best by mean rank there."""
WITH_ALL = ("cora", "photo", "chameleon", "minesweeper", "twitch")
METIS = ("clients=10", "partition=metis", "train=0.2")
DATASETS = {
    "cora-metis-10": ("cora", METIS),
    "photo-metis-10": ("photo", METIS),
    "chameleon-metis-10": ("chameleon", METIS),
    "minesweeper-metis-10": ("minesweeper", METIS),
    "twitch": ("twitch", ("features=words",)),
    "citeseer-metis-10": ("citeseer", METIS),
    "computers-metis-10": ("computers", METIS),
    "coauthor-cs-metis-10": ("coauthor-cs", METIS),
    "coauthor-physics-metis-10": ("coauthor-physics", METIS),
    "actor-metis-10": ("actor", METIS),
    "squirrel-metis-10": ("squirrel", METIS),
    "tolokers-metis-10": ("tolokers", METIS),
}
LR = "lr=0.001..0.05:log"
LR_OF_SGD = "lr=0.05..2:log"
"""SGD's steps need another size than Adam's."""
SEARCH = ("weight_decay=0.00001..0.005:log", "dropout=0.0..0.7")
TRIALS, ROUNDS, SPLITS, SEEDS = 8, 50, 3, "1,2"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path, help="folder for searches and runs; may be deleted")
    parser.add_argument(
        "datasets", nargs="*", metavar="dataset", help=f"of {', '.join(DATASETS)}; all by default"
    )
    parser.add_argument("--methods", nargs="+", help="those of the board by default")
    parser.add_argument(
        "--search", nargs="+", default=[], help=f"instead of {LR}, or {LR_OF_SGD} with SGD"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        help="of the runs; %(default)s by default and in trials",
    )
    given = parser.parse_args()
    if unknown := set(given.datasets) - {*DATASETS}:
        parser.error(f"no dataset {', '.join(unknown)}; there are {', '.join(DATASETS)}")
    for dataset in given.datasets or DATASETS:
        setting, options = DATASETS[dataset]
        for method in given.methods or (METHODS if setting in WITH_ALL else FEW):
            folder = given.scratch / dataset / method
            where = ["--setting", setting, *_repeated("--set", options)]
            found = _tuned(dataset, method, where, given.search, folder)
            longer = "" if given.rounds == ROUNDS else f"-{given.rounds}-rounds"
            _run(
                ["ramet", "compare", ",".join([method, *found]), *where,
                 "--rounds", str(given.rounds), "--seeds", SEEDS, "--splits", str(SPLITS),
                 "--jobs", "1", "--out", folder / f"runs{longer}",
                 "--keep", RESULTS / f"tuned-{dataset}{longer}"]
            )  # fmt: skip


def _tuned(
    dataset: str, method: str, where: list[str], search: list[str], folder: Path
) -> list[str]:
    """The options of the best trial."""
    known = [json.loads(line) for line in TUNED.read_text().splitlines()] if TUNED.exists() else []
    found = [one for one in known if (one["dataset"], one["method"]) == (dataset, method)]
    if not found:
        with_sgd = method in WITH_SGD or "algorithm=sgd" in method.split(",")
        ranges = [*(search or [LR_OF_SGD if with_sgd else LR]), *SEARCH]
        _run(
            ["ramet", "tune", method, *where, "--rounds", str(ROUNDS),
             *_repeated("--search", ranges), "--seeds", "0", "--trials", str(TRIALS),
             "--out", folder / "trials"]
        )  # fmt: skip
        done = json.loads((folder / "trials" / "tune.json").read_text())
        best, trials = done["best"][method]["options"], done["trials"][method]
        found = [{"dataset": dataset, "method": method, "best": best, "trials": trials}]
        with TUNED.open("a") as file:
            file.write(json.dumps(found[0]) + "\n")
    return [f"{key}={value}" for key, value in found[0]["best"].items()]


def _run(command: list[str | Path]) -> None:
    failed = subprocess.run(command, check=False).returncode
    if failed:
        sys.exit(failed)


def _repeated(flag: str, values: Sequence[str]) -> list[str]:
    return [argument for value in values for argument in (flag, value)]


if __name__ == "__main__":
    main()
