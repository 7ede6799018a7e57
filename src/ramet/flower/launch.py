"""Start what a Flower run needs on this machine, wait for the run, and stop all of it.

`ray`: a SuperLink in simulation mode, which starts Ray. `superlink`: a real SuperLink and one
SuperNode per client. Either way the run itself is Flower's own `flwr run` of the thin app.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ramet.engine import Observer
from ramet.experiment import RunFolder
from ramet.flower import THIN_APP
from ramet.flower.programs import Flower, free_ports
from ramet.flower.records import to_run_config


def launch(folder: RunFolder, observe: Observer) -> None:
    """Run (or go on with) the run of this folder over Flower, watching its rounds."""
    with ExitStack() as stack:
        stack.enter_context(folder.locked("launch"))
        _end_orphans(folder)
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ramet-")))
        _home_note(folder).write_text(str(home))
        flower = Flower(home, folder.path / "logs")
        stack.callback(flower.sweep)
        experiment = folder.experiment()
        settings, clients = experiment.settings, experiment.clients
        port, *node_ports = free_ports(1 + len(clients))
        simulated = settings.engine == "ray"
        stack.enter_context(flower.superlink(port, simulated))
        if not simulated:
            for client, own_port in zip(clients, node_ports, strict=True):
                data = str(experiment.setting.data_of(client, settings.data) or settings.data)
                node = {"client": client, "data": data, "state": str(folder.path)}
                stack.enter_context(flower.supernode(client, own_port, port, node))
        flower.run(
            app=THIN_APP,
            config=to_run_config(settings, folder.path),
            simulated_clients=len(clients) if simulated else 0,
            meanwhile=reporter(folder, observe),
        )


def _end_orphans(folder: RunFolder) -> None:
    """A launcher that was killed leaves its processes behind; nobody else can end them."""
    note = _home_note(folder)
    if note.exists():
        home = Path(note.read_text())
        Flower(home, folder.path / "logs").sweep()
        shutil.rmtree(home, ignore_errors=True)


def _home_note(folder: RunFolder) -> Path:
    return folder.path / "flower-home.txt"


def reporter(folder: RunFolder, observe: Observer) -> Callable[[], None]:
    """Observes the rounds that have come into the folder since it was last called."""
    last = max((record.round for record in folder.records()), default=0)

    def report() -> None:
        nonlocal last
        for record in folder.records():
            if record.round > last:
                last = record.round
                observe(record)

    return report
