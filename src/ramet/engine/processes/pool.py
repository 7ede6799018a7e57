"""Worker processes on this machine, each of which answers one message at a time.

A worker is a new Python process that is connected by a pair of sockets. It ends when its connection
closes, so none outlives the process that started it, however that ends. It is in a process group of
its own, so Ctrl-C reaches only the process that started it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from ramet.engine.processes.broadcast import StoredMessage
from ramet.engine.processes.devices import WORKER
from ramet.errors import RametError
from ramet.payload import Payload

_BROKEN = (EOFError, OSError)


class WorkerLostError(Exception):
    """A worker process has ended without an answer."""


class Serving(Protocol):
    """What a worker does, for the clients of the run in a folder."""

    def answer(self, run: Path, client: str, message: Payload, lives: bool) -> Payload:
        """Answer a message to a client, which stays in memory if it ``lives``."""
        ...

    def write(self, run: Path) -> None:
        """Write the states of clients that are in memory only."""
        ...


@dataclass(frozen=True)
class Job:
    """A message to a client of a run."""

    run: Path
    """The run's folder."""
    client: str
    message: StoredMessage
    lives: bool = False
    """Whether the client stays in memory."""

    def done_by(self, serving: Serving) -> Payload:
        return serving.answer(self.run, self.client, self.message.payload(), self.lives)


@dataclass(frozen=True)
class Writing:
    """A request to write the states of a run's clients."""

    run: Path

    def done_by(self, serving: Serving) -> Payload:
        serving.write(self.run)
        return Payload()


@dataclass(frozen=True)
class Done:
    """The answer of a client, or the error that it raised, and how long it took."""

    outcome: Payload | Exception
    seconds: float
    cpu_seconds: float


class Worker:
    """One worker process. If it is lost, another one is started in its place."""

    def __init__(self, module: str, number: int = 0) -> None:
        """``module`` has a function `main` that calls `serve`."""
        self._module, self._number = module, number
        self.job: Job | Writing | None = None
        """What it is working on."""
        self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, job: Job | Writing) -> None:
        """Send a job to the idle worker."""
        try:
            self.connection.send(job)
        except _BROKEN as error:  # it was killed while it was idle
            raise WorkerLostError from error
        self.job = job

    def done(self) -> Done:
        """Wait for the job's outcome."""
        try:
            done: Done = self.connection.recv()
        except _BROKEN as error:
            raise WorkerLostError from error
        finally:
            self.job = None
        return done

    def restart(self) -> int:
        """Start another process, and return how the old one ended."""
        self.close()
        self.job = None
        self._start()
        return self._last_code

    def close(self) -> None:
        """End the process at once, with all that it has in memory."""
        self.connection.close()
        self._process.kill()
        self._last_code = self._process.wait()

    def _start(self) -> None:
        self.connection, theirs = Pipe()
        path = [*map(str, sys.path)]
        code = f"import sys; sys.path[:] = {path!r}; from {self._module} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            process_group=0,
            env={**os.environ, WORKER: str(self._number)},
        )
        theirs.close()


class Pool:
    """Worker processes that start at once, and end with the block."""

    def __init__(self, count: int, module: str) -> None:
        self.workers = [Worker(module, number) for number in range(count)]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()


def finished(workers: Iterable[Worker]) -> list[Worker]:
    """Wait until one of the workers has answered or ended, and return all that have."""
    by_connection = {worker.connection: worker for worker in workers}
    return [
        by_connection[ready] for ready in wait([*by_connection]) if isinstance(ready, Connection)
    ]


def serve(serving: Serving, arguments: Sequence[str]) -> None:
    """Do jobs in this process until the connection closes."""
    connection = Connection(int(arguments[0]))
    jobs: SimpleQueue[Job | Writing] = SimpleQueue()
    Thread(target=_receive, args=(connection, jobs), daemon=True).start()
    while True:
        job = jobs.get()
        start, cpu_start = time.monotonic(), time.process_time()
        outcome: Payload | Exception
        try:
            outcome = job.done_by(serving)
        except Exception as error:  # noqa: BLE001 - whatever a client raises
            outcome = _portable(error)
        try:
            seconds, cpu_seconds = time.monotonic() - start, time.process_time() - cpu_start
            connection.send(Done(outcome, seconds, cpu_seconds))
        except BrokenPipeError:  # the process that gives jobs has ended
            return


def _receive(connection: Connection, jobs: SimpleQueue[Job | Writing]) -> None:
    """Pass jobs on; without the process that gives them, this one ends, also during a job."""
    while True:
        try:
            jobs.put(connection.recv())
        except _BROKEN:
            os._exit(0)


def _portable(error: Exception) -> Exception:
    """An error that another process can unpickle, with the traceback if it is not for users."""
    if not isinstance(error, RametError):
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
    if type(error).__module__.partition(".")[0] in ("builtins", "ramet", "torch"):
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - as its constructor needs other arguments
            return _described(error)
        return error
    return _described(error)


def _described(error: Exception) -> Exception:
    """An error of the same kind for users, with the same text."""
    if isinstance(error, RametError):
        return RametError(str(error))
    described = RuntimeError(f"{type(error).__name__}: {error}")
    for note in error.__notes__:
        described.add_note(note)
    return described
