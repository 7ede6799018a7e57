"""A worker process of the local engine, which answers for clients of any run on this machine."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import torch

from ramet.engine.processes.pool import serve
from ramet.experiment.code import allow_run
from ramet.experiment.local_engine import LiveClients
from ramet.experiment.run_folder import RunFolder
from ramet.payload import Payload


def main() -> None:
    """Serve the process that started this one."""
    serve(_Clients(), sys.argv[1:])


class _Clients:
    def answer(self, run: Path, client: str, message: Payload, lives: bool) -> Payload:
        clients = _opened(run, lives)
        torch.set_num_threads(clients.experiment.settings.threads)
        return clients(client).answer(message)

    def write(self, run: Path) -> None:
        _opened(run, True).states.write()


@lru_cache(maxsize=1)
def _opened(run: Path, lives: bool) -> LiveClients:
    """The clients of a run, which keep the data that they have read."""
    folder = RunFolder.open(run)
    experiment = folder.experiment()
    allow_run(experiment.settings)
    return LiveClients(experiment, folder.clients, lives)
