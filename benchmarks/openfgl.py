"""The same FedAvg job in Ramet and in OpenFGL: seconds, memory, accuracy and bytes.

Cora with ten clients. Both get the same clients, splits, network, optimiser, epochs and rounds, and
evaluate the merged model on each client's nodes after every round; accuracy is the mean over
clients, weighted by nodes, in the round with the best validation accuracy. Each run is a process of
its own with one thread, and starts with other weights. Bytes are of all clients in a round, up and
down, as each program counts them. Prints the ratio of CPU-seconds per round last.

    RAMET_DATA=DIR python benchmarks/openfgl.py PATH [--network gcn] [--rounds 50] [--seeds 3]

PATH is a checkout of OpenFGL (github.com/xkLi-Allen/OpenFGL), which needs munkres.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from node_rounds import CLIENTS, LAYERS, OpenFGL, executed

from ramet.experiment import Experiment, RunFolder, RunSettings, checked_settings, default_data
from ramet.metrics import Record


def settings_of(given: argparse.Namespace) -> RunSettings:
    return checked_settings(
        method="fedavg",
        setting="cora",
        network=given.network,
        options={"clients": str(CLIENTS)},
        rounds=given.rounds,
        seed=given.seed,
        data=default_data(),
    )


def ramet_run(settings: RunSettings) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", Experiment(settings))
        seconds = executed(run)
        records, experiment = run.records(), run.experiment()
    nodes = {client: experiment.samples(client).graph.nodes for client in experiment.clients}

    def weighted(record: Record, part: str) -> float:
        summed = sum(nodes[c] * own[part] for c, own in record.evaluated.items())
        return float(summed / sum(nodes.values()))

    best = max(records, key=lambda record: weighted(record, "val"))
    late = records[-2]  # neither the first nor the last message is as the others
    return {
        "accuracy": weighted(best, "test"),
        "seconds": seconds,
        "bytes": sum(own["up"] for own in late.trained.values()) + sum(late.down.values()),
    }


def openfgl_run(settings: RunSettings, network: str) -> dict[str, float]:
    random.seed(settings.seed)
    torch.manual_seed(settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        other = OpenFGL(Experiment(settings), network, Path(folder))
        trainer: Any = other.trainer
        trainer.args.evaluation_mode = "global_model_on_local_data"
        trainer.args.debug = trainer.logger.debug = trainer.args.comm_cost = True
        seconds = other.seconds(settings.rounds)
    return {
        "accuracy": trainer.evaluation_result["best_test_accuracy"],
        "seconds": seconds,
        "bytes": trainer.logger.comm_cost[-1],
    }


def one_run(given: argparse.Namespace) -> None:
    """Print the figures of one run as JSON."""
    torch.set_num_threads(1)
    settings = settings_of(given)
    if given.side == "OpenFGL":
        figures = openfgl_run(settings, given.network)
    else:
        figures = ramet_run(settings)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**figures, "memory": memory}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("openfgl", type=Path, help="a checkout of OpenFGL")
    parser.add_argument("--network", choices=LAYERS, default="gcn")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--side", choices=("Ramet", "OpenFGL"), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(given.openfgl))
    if given.side:
        one_run(given)
        return
    runs: dict[str, list[dict[str, float]]] = {"OpenFGL": [], "Ramet": []}
    for seed in range(1, given.seeds + 1):
        for side, own in runs.items():
            command = [sys.executable, *sys.argv, "--side", side, "--seed", str(seed)]
            done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
            own.append(json.loads(done.stdout.splitlines()[-1]))
    for side, own in runs.items():
        of = {name: [run[name] for run in own] for name in own[0]}
        accuracies = [100 * one for one in of["accuracy"]]
        spread = f" ± {stdev(accuracies):.2f}" if len(own) > 1 else ""
        print(
            f"{side}: accuracy {fmean(accuracies):.2f}{spread} %, "
            f"{1000 * fmean(of['seconds']):.1f} ms of CPU time per round, "
            f"peak memory {fmean(of['memory']):.0f} MB, "
            f"{fmean(of['bytes']) / 1024:.1f} KB per round"
        )
    seconds = {side: fmean(run["seconds"] for run in own) for side, own in runs.items()}
    print(f"CPU time per round: ratio {seconds['Ramet'] / seconds['OpenFGL']:.3f}")


if __name__ == "__main__":
    main()
