"""Run over Flower on this machine: start its programs, wait for the run, and stop them.

The engine `ray` uses a SuperLink in simulation mode, which starts Ray. The engine `superlink` uses
a real SuperLink and one SuperNode per client. Both start the run with `flwr run` on the thin app.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from ramet.engine.server.journal import Observer
from ramet.experiment import RunFolder
from ramet.flower.keeping import Check, kept_supernode
from ramet.flower.programs import Flower, free_ports
from ramet.flower.run_config import to_run_config
from ramet.flower.submission import Submission
from ramet.flower.thin_app import thin_app


def launch(folder: RunFolder, observe: Observer, ray: str | None = None) -> None:
    """Start or resume the run of this folder over Flower, and report its rounds to `observe`.

    With the address of a Ray cluster, all that its machines need is in the run's folder.
    """
    with ExitStack() as stack:
        stack.enter_context(folder.locked("launch"))
        _kill_orphans(folder)
        shared = folder.path if ray else None
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ramet-", dir=shared)))
        _home_file(folder).write_text(str(home))
        flower = Flower(home, folder.path / "logs", ray)
        stack.callback(flower.kill_leftovers)
        experiment = folder.experiment()
        settings, clients = experiment.settings, experiment.clients
        (port,) = free_ports(1)
        simulated = settings.engine == "ray"
        stack.enter_context(flower.superlink(port, simulated))
        checks = [reporter(folder, observe)]
        if not simulated:
            checks += _start_sites(stack, flower, folder, clients, port)

        def on_poll() -> None:
            for check in checks:
                check()

        Submission(flower).run(
            app=thin_app(),
            config=to_run_config(settings, folder.path),
            simulated_clients=len(clients) if simulated else 0,
            on_poll=on_poll,
        )


def _start_sites(
    stack: ExitStack, flower: Flower, folder: RunFolder, clients: Sequence[str], port: int
) -> list[Check]:
    """Start a SuperNode for each client, which connects to the SuperLink on this port."""
    experiment, checks = folder.experiment(), []
    data = experiment.settings.data
    for client in clients:
        own_data = str(experiment.setting.data_of(client, data) or data)
        node = {"client": client, "data": own_data, "state": str(folder.path)}
        checks.append(stack.enter_context(kept_supernode(flower, client, port, node)))
    return checks


def _kill_orphans(folder: RunFolder) -> None:
    """Kill the processes that a killed launcher left behind."""
    home_file = _home_file(folder)
    if home_file.exists():
        home = Path(home_file.read_text())
        Flower(home, folder.path / "logs").kill_leftovers()
        shutil.rmtree(home, ignore_errors=True)


def _home_file(folder: RunFolder) -> Path:
    return folder.path / "flower-home.txt"


def reporter(folder: RunFolder, observe: Observer) -> Callable[[], None]:
    """A function that passes the rounds recorded since its last call to `observe`."""
    last = max((record.round for record in folder.records()), default=0)

    def report() -> None:
        nonlocal last
        for record in folder.records():
            if record.round > last:
                last = record.round
                observe(record)

    return report
