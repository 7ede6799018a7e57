"""The table of `photo.sh`: what each choice does to FedAvg on Photo."""

from __future__ import annotations

from itertools import product
from statistics import fmean

from columns import Runs, difference, kept, over_clients

from ramet.report.text import markdown_table
from ramet.studies.choice import Choice, samples_ratio
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import paired_gain

PARTS = "clients=10,partition=metis,partition_seed=1,train=0.2"
EPOCHS, MODELS = (1, 3), ("merged", "trained")
OPTIMISERS = {
    "Adam, 0.01": "algorithm=adam,lr=0.01",
    "SGD, 0.1": "algorithm=sgd,lr=0.1",
    "SGD, 1": "algorithm=sgd,lr=1",
}
SERVERS = {"mean": "fedavg", "Adam, 0.01": "fedadam"}
HEADS = (
    *("epochs", "at the site", "at the server"),
    *("merged, %", "trained, %", "merged over first row"),
)


def table() -> str:
    """A row for each combination of choices, with means over splits and their intervals."""
    found = kept("photo")
    first: Runs = {}
    rows = []
    for epochs, site, server in product(EPOCHS, OPTIMISERS, SERVERS):
        options = f"{SERVERS[server]},{PARTS},epochs={epochs},{OPTIMISERS[site]},site_model="
        merged, trained = (found[f"{options}{model},network=gcn"] for model in MODELS)
        first = first or merged
        gain, _ = difference(merged, first, Choice.LAST, by_server=False)
        shown = gain if merged is not first else "–"
        rows.append((str(epochs), site, server, _mean(merged), _mean(trained), shown))
    constants = [fmean(_constants(run)) for run in first.values()]
    always = (
        f"Always answering a client's most frequent class gives {100 * fmean(constants):.1f} %."
    )
    return f"{always}\n\n{markdown_table(HEADS, rows)}"


def _constants(run: FinishedRun) -> list[float]:
    known = (one.constant for one in run.summary.baselines.values())
    return [score for score in known if score is not None]


def _mean(runs: Runs) -> str:
    scores: dict[Draw, float] = {draw: over_clients(run) for draw, run in runs.items()}
    found = paired_gain(scores, samples_ratio(runs))
    if found.low is None or found.high is None:
        return f"{found.mean:.1f}"
    return f"{found.mean:.1f} [{found.low:.1f}, {found.high:.1f}]"
