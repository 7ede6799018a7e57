"""The coordinator's side of Flower: the run's folder and rounds, over the grid."""

from __future__ import annotations

from logging import INFO, WARNING
from pathlib import Path

import torch
from flwr.app import Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from ramet.flower.records import from_run_config
from ramet.flower.signing import Keyring
from ramet.flower.wire import GridWire
from ramet.metrics import Record
from ramet.run_folder import RunFolder

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Start the run named in the run config, or go on with it if its folder holds it already."""
    settings = from_run_config(context.run_config)
    torch.set_num_threads(settings.threads)
    path = Path(str(context.run_config["folder"]) or f"runs/{context.run_id}").absolute()
    folder = RunFolder(path)
    if folder.started:
        folder.check_same(settings)
    else:
        folder = RunFolder.create(path, settings)
    if folder.result() is None:
        clients = folder.experiment().clients
        keys = str(context.run_config.get("keys") or "")
        keyring = Keyring(Path(keys)) if keys else None
        wire = GridWire(grid, folder.run_name, clients, settings.deadline, keyring=keyring)
        folder.execute(wire, _tell)
    log(INFO, "The run is done: %s", path)


def _tell(record: Record) -> None:
    """A line in the stream of `flwr run`."""
    means = 100 * record.mean("test"), 100 * record.mean("val")
    log(INFO, "Round %s of %s: test %.2f %%, val %.2f %%", record.round, record.rounds, *means)
    for client, reason in record.failed.items():
        log(WARNING, "Round %s went on without %s: %s", record.round, client, reason)
