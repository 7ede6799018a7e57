"""The runs of the board: every method is tuned with the same number of trials, then compared.

`experiments/boards/PROTOCOL.toml` has the terms. For each optimiser, trials are on the first split,
by the best validation score of the rounds, with seed 0; the first is at a method's defaults if they
are in the range. With what was best come the runs of all splits and seeds, and where the protocol
says so, also those whose clients are evaluated with the networks that they have just trained. What
was done is not done again, so this may be stopped at any time. Runs that are kept go to
`results/tuned-DATASET`, and the options that were found to `results/tuned.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ramet.papers.printed import experiments

RESULTS = Path(__file__).parent
TUNED = RESULTS / "tuned.jsonl"
BOARDS = experiments() / "boards"
Protocol = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path, help="folder for searches and runs; may be deleted")
    parser.add_argument("datasets", nargs="*", metavar="dataset", help="all by default")
    known = sorted(path.stem for path in BOARDS.glob("*.toml"))
    parser.add_argument("--protocol", choices=known, default="openfgl")
    parser.add_argument("--methods", nargs="+", help="those of the protocol by default")
    parser.add_argument("--search", nargs="+", default=[], help="instead of the learning rate's")
    for count in ("rounds", "splits", "trials"):
        parser.add_argument(f"--{count}", type=int, help="those of the protocol by default")
    given = parser.parse_args()
    protocol = {
        **tomllib.loads((BOARDS / f"{given.protocol}.toml").read_text()),
        **{key: getattr(given, key) for key in ("splits", "trials") if getattr(given, key)},
    }
    if unknown := {*given.datasets} - {*protocol["datasets"]}:
        parser.error(
            f"no dataset {', '.join(unknown)}; there are {', '.join(protocol['datasets'])}"
        )
    rounds = given.rounds or protocol["rounds"]
    longer = "" if rounds == protocol["rounds"] else f"-{rounds}-rounds"
    for dataset in given.datasets or protocol["datasets"]:
        where = _where(protocol, dataset)
        for method in _methods(protocol, dataset, given.methods):
            folder = given.scratch / dataset / method["name"].replace("/", "_")
            found = _tuned(protocol, dataset, method, where, given.search, folder)
            tuned = ",".join([method["name"], *(f"{key}={value}" for key, value in found.items())])
            trained = [f"{tuned},site_model=trained"] if method.get("trained") else []
            _run(
                ["ramet", "compare", tuned, *trained, *where, "--rounds", str(rounds),
                 "--seeds", protocol["seeds"], "--splits", str(protocol["splits"]),
                 "--jobs", "1", "--out", folder / f"runs{longer}",
                 "--keep", RESULTS / f"tuned-{dataset}{longer}"]
            )  # fmt: skip


def not_followed(protocol: str) -> str:
    """Where the protocol differs from its source, as a list."""
    content = tomllib.loads((BOARDS / f"{protocol}.toml").read_text())
    return "\n".join(f"- {text}" for text in content["not_followed"])


def _where(protocol: Protocol, dataset: str) -> list[str]:
    """The setting with its options, and those of all methods."""
    one = protocol["datasets"][dataset]
    return ["--setting", one["setting"], *_repeated("--set", [*protocol["set"], *one["set"]])]


def _methods(
    protocol: Protocol, dataset: str, chosen: Sequence[str] | None
) -> list[Mapping[str, Any]]:
    known = {one["name"]: one for one in protocol["methods"]}
    if chosen:
        return [known.get(name, {"name": name}) for name in chosen]
    few = protocol["datasets"][dataset].get("few", False)
    return [one for one in known.values() if not few or one.get("everywhere")]


def _tuned(
    protocol: Protocol,
    dataset: str,
    method: Mapping[str, Any],
    where: list[str],
    search: list[str],
    folder: Path,
) -> dict[str, str]:
    """The options of the best trial over all optimisers."""
    name = method["name"]
    lines = TUNED.read_text().splitlines() if TUNED.exists() else []
    for one in map(json.loads, lines):
        if (one["dataset"], one["method"]) == (dataset, name):
            return dict(one["best"])
    optimisers = method.get("optimisers", protocol["optimisers"])
    if "algorithm=" in name or len(optimisers) == 1:
        algorithm = name.partition("algorithm=")[2].partition(",")[0] or optimisers[0]
        trials = _trials(protocol, method, name, algorithm, where, search, folder)
    else:
        trials = [
            {**trial, "options": {"algorithm": algorithm, **trial["options"]}}
            for algorithm in optimisers
            for trial in _trials(
                protocol, method, f"{name},algorithm={algorithm}", algorithm, where, search, folder
            )
        ]
    best = max(trials, key=lambda trial: trial["val"] or 0.0)["options"]
    found = {"dataset": dataset, "method": name, "best": best, "trials": trials}
    with TUNED.open("a") as file:
        file.write(json.dumps(found) + "\n")
    return dict(best)


def _trials(
    protocol: Protocol,
    method: Mapping[str, Any],
    label: str,
    algorithm: str,
    where: list[str],
    search: list[str],
    folder: Path,
) -> list[dict[str, Any]]:
    ranges = [*(search or [protocol["lr"][algorithm]]), *protocol["search"]]
    out = folder / f"trials-{algorithm}"
    _run(
        ["ramet", "tune", label, *where, "--rounds", str(protocol["rounds"]),
         *_repeated("--search", [*ranges, *method.get("search", [])]),
         "--seeds", "0", "--trials", str(protocol["trials"]), "--out", out]
    )  # fmt: skip
    (trials,) = json.loads((out / "tune.json").read_text())["trials"].values()
    return [*trials]


def _run(command: list[str | Path]) -> None:
    failed = subprocess.run(command, check=False).returncode
    if failed:
        sys.exit(failed)


def _repeated(flag: str, values: Sequence[str]) -> list[str]:
    return [argument for value in values for argument in (flag, value)]


if __name__ == "__main__":
    main()
