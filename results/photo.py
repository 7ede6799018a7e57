"""The table of `photo.sh`: what each choice does to FedAvg on Photo."""

from __future__ import annotations

from itertools import product

from columns import Runs, difference, kept, over_clients

from ramet.report.text import markdown_table
from ramet.studies.choice import Choice, samples_ratio
from ramet.studies.finished_run import Draw
from ramet.studies.gains import paired_gain

EPOCHS = (1, 3)
OPTIMISERS = {
    "Adam, 0.01": "algorithm=adam,lr=0.01",
    "SGD, 0.1": "algorithm=sgd,lr=0.1",
    "SGD, 1": "algorithm=sgd,lr=1",
}
SERVERS = {"mean": "fedavg", "Adam, 0.01": "fedadam"}
HEADS = ("epochs", "at the site", "at the server", "merged, %", "trained, %", "trained - merged")


def table() -> str:
    """A row for each combination of choices, with means over splits and their intervals."""
    found = kept("photo")
    rows = []
    for epochs, site, server in product(EPOCHS, OPTIMISERS, SERVERS):
        label = f"{SERVERS[server]},epochs={epochs},{OPTIMISERS[site]},site_model="
        merged, trained = found.get(f"{label}merged", {}), found.get(f"{label}trained", {})
        if merged and trained:
            gain, _ = difference(trained, merged, Choice.LAST, by_server=False)
            rows.append((str(epochs), site, server, _mean(merged), _mean(trained), gain))
    return markdown_table(HEADS, rows)


def _mean(runs: Runs) -> str:
    scores: dict[Draw, float] = {draw: over_clients(run) for draw, run in runs.items()}
    found = paired_gain(scores, samples_ratio(runs))
    if found.low is None or found.high is None:
        return f"{found.mean:.1f}"
    return f"{found.mean:.1f} [{found.low:.1f}, {found.high:.1f}]"
