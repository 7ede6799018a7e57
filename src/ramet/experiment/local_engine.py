"""The local engine: the clients of a run in this process, or in worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ramet.engine.processes.cores import available_cores
from ramet.engine.processes.devices import places
from ramet.engine.processes.local import KeepingWire, LocalWire
from ramet.engine.processes.pool import Pool
from ramet.engine.processes.workers import GrowingWire, WorkersWire
from ramet.engine.server.regions import Region
from ramet.engine.site.client import Client
from ramet.engine.site.states import LiveStates, SavedStates
from ramet.experiment.client_side import audit_log, client_of
from ramet.experiment.experiment import Experiment
from ramet.experiment.objects import is_object
from ramet.experiment.run_folder import RunFolder
from ramet.experiment.server_side import rounds_of

_WORKER = "ramet.experiment.worker"


@dataclass(frozen=True)
class LiveClients:
    """The clients of a run in this process."""

    experiment: Experiment
    folder: Path
    lives: bool
    """Whether their states stay in memory until they are written."""
    audited: bool = False
    """Whether what leaves them is logged even if their data is built in."""
    _clients: dict[str, Client] = field(default_factory=dict)

    @cached_property
    def states(self) -> LiveStates | SavedStates:
        """Objects of built-in code can be used again; those of users may keep more than a file."""
        own_code = bool(self.experiment.settings.code) or is_object(self.experiment.settings.method)
        return LiveStates(renewed=own_code) if self.lives else SavedStates()

    def __call__(self, name: str) -> Client:
        if name not in self._clients:
            client = client_of(self.experiment, name, self.folder)
            protection = client.protection
            if self.audited:
                audit = audit_log(self.experiment, name, self.folder)
                protection = replace(protection, audit=audit)
            self._clients[name] = replace(client, states=self.states, protection=protection)
        return self._clients[name]

    def wire(self) -> LocalWire:
        return LocalWire(self, write=self.states.write)


def local_wire(folder: RunFolder) -> LocalWire:
    """The clients of a run in this process; their states are on disk before they answer."""
    return LiveClients(folder.experiment(), folder.clients, lives=False).wire()


@contextmanager
def local_engine(
    folder: RunFolder, workers: int | None = None, cores: int | None = None
) -> Iterator[KeepingWire]:
    """The clients of a run, in processes as in `client_wire`, or their regional coordinators."""
    with client_wire(folder, workers, cores) as clients:
        yield regional_wire(folder, clients) if folder.experiment().regions else clients


def regional_wire(folder: RunFolder, clients: KeepingWire) -> LocalWire:
    """The regional coordinators of a run in this process."""
    rounds = rounds_of(folder.experiment(), folder.path / "server", regional=True)
    region = Region(rounds.direct(clients))
    return LocalWire(lambda _: region, write=clients.write, elsewhere=clients.elsewhere)


@contextmanager
def client_wire(
    folder: RunFolder, workers: int | None = None, cores: int | None = None
) -> Iterator[KeepingWire]:
    """The clients of a run, in ``workers`` processes.

    Without a number, they are in this process, and a run that proves to be long gets one worker for
    each of the ``cores`` (default: all), or for each GPU.
    """
    experiment = folder.experiment()
    settings, clients, pace = experiment.settings, len(experiment.clients), experiment.method.pace
    here = LiveClients(experiment, folder.clients, experiment.lives).wire()
    with ExitStack() as stack:

        def started(count: int) -> WorkersWire:
            pool = stack.enter_context(worker_pool(count))
            wire = WorkersWire(pool, folder.path, experiment.lives)
            stack.callback(wire.close)
            return wire

        if workers is not None:
            yield started(min(workers, clients)) if workers > 1 else here
            return
        slots = places(settings.device, (cores or available_cores()) // settings.threads)
        fitting = min(slots, clients)
        arrival = pace is not None and not pace.simulated  # its result would depend on the workers
        if fitting < 2 or arrival:
            yield here
            return
        yield GrowingWire(here, lambda: started(fitting), settings.rounds, clients)


def worker_pool(count: int) -> Pool:
    """Worker processes that answer for clients of any run."""
    return Pool(count, _WORKER)
