"""A worker process of the local engine, which answers for clients of any run on this machine."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import torch

from ramet.engine.processes.pool import serve
from ramet.experiment.code import allow_run
from ramet.experiment.experiment import Experiment
from ramet.experiment.run_folder import RunFolder
from ramet.payload import Payload


def main() -> None:
    """Serve the process that started this one."""
    serve(_answer, sys.argv[1:])


def _answer(run: Path, client: str, message: Payload) -> Payload:
    folder, experiment = _opened(run)
    torch.set_num_threads(experiment.settings.threads)
    return experiment.client(client, folder.clients).answer(message)


@lru_cache(maxsize=1)
def _opened(run: Path) -> tuple[RunFolder, Experiment]:
    """The run and its experiment, which keeps the data that it has read."""
    folder = RunFolder.open(run)
    experiment = folder.experiment()
    allow_run(experiment.settings)
    return folder, experiment
