"""The coordinator's side of Flower: the run's folder and rounds, over the grid."""

from __future__ import annotations

from pathlib import Path

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ramet.flower.records import from_run_config
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
    if not folder.started:
        folder = RunFolder.create(path, settings)
    wire = GridWire(grid, folder.run_name, folder.experiment().clients)
    folder.execute(wire, _in_the_run_folder)


def _in_the_run_folder(record: Record) -> None:
    """Who watches reads the run folder: this process has no terminal."""
