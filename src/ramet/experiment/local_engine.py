"""The local engine: the clients of a run in this process, or in worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ramet.engine.processes.cores import available_cores
from ramet.engine.processes.devices import places
from ramet.engine.processes.local import LocalWire
from ramet.engine.processes.pool import Pool
from ramet.engine.processes.workers import GrowingWire, WorkersWire
from ramet.engine.server.regions import Region
from ramet.engine.server.wire import Wire
from ramet.experiment.run_folder import RunFolder

_WORKER = "ramet.experiment.worker"


def local_wire(folder: RunFolder) -> LocalWire:
    """The clients of a run in this process."""
    experiment = folder.experiment()
    return LocalWire(lambda client: experiment.client(client, folder.clients))


@contextmanager
def local_engine(
    folder: RunFolder, workers: int | None = None, cores: int | None = None
) -> Iterator[Wire]:
    """The clients of a run, in processes as in `client_wire`, or their regional coordinators."""
    with client_wire(folder, workers, cores) as clients:
        yield regional_wire(folder, clients) if folder.experiment().regions else clients


def regional_wire(folder: RunFolder, clients: Wire) -> LocalWire:
    """The regional coordinators of a run in this process."""
    rounds = folder.experiment().rounds(folder.path / "server", regional=True)
    region = Region(rounds.direct(clients))
    return LocalWire(lambda _: region)


@contextmanager
def client_wire(
    folder: RunFolder, workers: int | None = None, cores: int | None = None
) -> Iterator[Wire]:
    """The clients of a run, in ``workers`` processes.

    Without a number, they are in this process, and a run that proves to be long gets one worker for
    each of the ``cores`` (default: all), or for each GPU.
    """
    experiment = folder.experiment()
    settings, clients, pace = experiment.settings, len(experiment.clients), experiment.method.pace
    with ExitStack() as stack:

        def started(count: int) -> WorkersWire:
            wire = WorkersWire(stack.enter_context(worker_pool(count)), folder.path)
            stack.callback(wire.close)
            return wire

        if workers is not None:
            yield started(min(workers, clients)) if workers > 1 else local_wire(folder)
            return
        slots = places(settings.device, (cores or available_cores()) // settings.threads)
        fitting = min(slots, clients)
        arrival = pace is not None and not pace.simulated  # its result would depend on the workers
        if fitting < 2 or arrival:
            yield local_wire(folder)
            return
        yield GrowingWire(local_wire(folder), lambda: started(fitting), settings.rounds, clients)


def worker_pool(count: int) -> Pool:
    """Worker processes that answer for clients of any run."""
    return Pool(count, _WORKER)
