"""The same jobs in Ramet and in OpenFGL: scores, seconds and memory.

Cora's METIS parts for ten clients, 100 rounds of three epochs. Both get the same parts, splits,
network, options and optimiser, which is Adam, and SGD for SCAFFOLD, where OpenFGL's program would
take Adam. Each run is a process of its own with one thread, and starts with other weights. After
the last round, the merged model and those that clients have just trained are tested on each
client's nodes; scores are means over clients. What was done is not done again.

    RAMET_DATA=DIR python benchmarks/openfgl.py PATH [--splits 5] [--methods fedavg ...]

PATH is a checkout of OpenFGL (github.com/xkLi-Allen/OpenFGL), which needs munkres.
`results/beside_openfgl.py` makes a table of it.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from node_rounds import OpenFGL, executed

from ramet.experiment import (
    SPLIT_SEED,
    Experiment,
    RunFolder,
    RunSettings,
    checked_settings,
    default_data,
)
from ramet.version import provenance

KEPT = Path(__file__).parents[1] / "results" / "beside-openfgl.jsonl"
ROUNDS, SEED = 100, 1
SIDES = ("OpenFGL", "Ramet")
PARTS = {"clients": "10", "partition": "metis", "partition_seed": "1", "train": "0.2"}
ADAM = {"epochs": "3", "lr": "0.01", "weight_decay": "0.0005"}
SGD = {**ADAM, "algorithm": "sgd", "lr": "0.1"}
METHODS: Mapping[str, Mapping[str, str]] = {
    "fedavg": ADAM,
    "fedprox": {**ADAM, "mu": "0.001"},
    "scaffold": SGD,
    "moon": ADAM,
    "fedgta": {**ADAM, "moments": "10"},
}
"""With the options that OpenFGL's program has."""
PERSONAL = ("fedgta",)
"""Methods whose server merges a model for each client."""


def settings_of(method: str, split: int, **more: str) -> RunSettings:
    return checked_settings(
        method=method,
        setting="cora",
        network=None if method in PERSONAL else "gcn",
        options={**PARTS, **METHODS[method], **more},
        rounds=ROUNDS,
        seed=SEED,
        split_seed=split,
        data=default_data(),
    )


def ramet_scores(method: str, split: int) -> dict[str, float]:
    """The second run has the same rounds, and is for the models that clients have trained."""
    found: dict[str, float] = {}
    models: dict[str, dict[str, str]] = {"merged": {}}
    if method not in PERSONAL:
        models["trained"] = {"site_model": "trained"}
    for model, more in models.items():
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder.create(
                Path(folder) / "run", Experiment(settings_of(method, split, **more))
            )
            seconds = executed(run)
            tests = [own["test"] for own in run.records()[-1].evaluated.values()]
        found = {"seconds": seconds, **found, model: fmean(tests)}
    return found


def openfgl_scores(method: str, split: int) -> dict[str, float]:
    random.seed(SEED)
    torch.manual_seed(SEED)
    settings = settings_of(method, split)
    with tempfile.TemporaryDirectory() as folder:
        other = OpenFGL(Experiment(settings), "gcn", Path(folder), method)
        seconds = other.seconds(settings.rounds)
        server, clients = other.trainer.server, other.trainer.clients
        trained = [one.task.evaluate(mute=True) for one in clients]
        if method in PERSONAL:
            for client, model in zip(clients, server.aggregated_models, strict=True):
                client.task.model.load_state_dict(model.state_dict())
            merged = [one.task.evaluate(mute=True) for one in clients]
        else:
            merged = [server.task.evaluate(one.task.splitted_data, mute=True) for one in clients]
    return {
        "seconds": seconds,
        "merged": fmean(float(own["accuracy_test"]) for own in merged),
        "trained": fmean(float(own["accuracy_test"]) for own in trained),
    }


def one_run(side: str, method: str, split: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    scores = (ramet_scores if side == "Ramet" else openfgl_scores)(method, split)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "method": method,
        "options": dict(METHODS[method]),
        "split": split,
        "side": side,
        **scores,
        "memory": memory,
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("openfgl", type=Path, help="a checkout of OpenFGL")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--split", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(given.openfgl))
    if given.side:
        print(json.dumps(one_run(given.side, given.methods[0], given.split)))
        return
    lines = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    done = {(one["split"], one["method"], one["side"]) for one in lines}
    for split in range(SPLIT_SEED, SPLIT_SEED + given.splits):
        for method in given.methods:
            for side in SIDES:
                if (split, method, side) not in done:
                    _kept_run(given.openfgl, side, method, split)


def _kept_run(openfgl: Path, side: str, method: str, split: int) -> None:
    command: list[str | Path] = [
        *(sys.executable, __file__, openfgl),
        *("--methods", method, "--side", side, "--split", str(split)),
    ]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
    with KEPT.open("a") as file:
        file.write(done.stdout.splitlines()[-1] + "\n")


if __name__ == "__main__":
    main()
