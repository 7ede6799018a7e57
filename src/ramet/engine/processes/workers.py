"""Wires over worker processes: clients answer at the same time, one in each process.

A worker keeps the data that it has read, so it prefers the clients that it answered for before,
those that take longest first. One that has nothing left to do takes over a client of another
worker, if the client's state is on disk. A client whose worker is killed is asked again, unless
states were lost with it: then the run goes back to when all of them were written.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from logging import INFO, WARNING
from math import inf
from pathlib import Path

from ramet.engine.processes.broadcast import Broadcast
from ramet.engine.processes.local import KeepingWire, LocalWire
from ramet.engine.processes.pool import Job, Pool, Worker, WorkerLostError, Writing, finished
from ramet.engine.server.wire import Answer
from ramet.errors import RametError
from ramet.events import log_event
from ramet.payload import Payload

_AHEAD = 64
"""Maximum number of messages that are prepared; bounds memory for any number of clients."""
_ATTEMPTS = 3
"""How often a client is asked in a round whose workers are lost."""
_SENT = ".sent"
"""The file in the run's folder with the arrays of messages."""


class StatesLostError(RametError):
    """Clients' states were lost with the memory of a process."""


class WorkersWire:
    """Asks clients in worker processes, and yields answers as they arrive.

    With ``lives``, states are in the memory of workers until they are written.
    """

    def __init__(self, pool: Pool, run: Path, lives: bool = False) -> None:
        self._workers, self._run, self._lives = pool.workers, run, lives
        self._sent = Broadcast(run / _SENT)
        self._waiting: dict[str, Job] = {}
        self._owner: dict[str, Worker] = {}
        self._seconds: dict[str, float] = {}
        self._cpu_seconds = 0.0
        self._unwritten: set[str] = set()
        self._lost: Counter[tuple[str, float]] = Counter()

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        """Also yields answers to requests of earlier exchanges that were left before their end."""
        remaining = iter(requests)
        if not self._pending:
            self._sent.restart()
        while True:
            for client, message in islice(remaining, _AHEAD - self._pending):
                self._waiting[client] = Job(
                    self._run, client, self._sent.stored(message), self._lives
                )
            self._give_out()
            if not self._pending:
                return
            for worker in finished(self._busy()):
                answer = self._answer(worker)
                self._give_out()
                if answer is not None:
                    yield answer

    def write(self) -> None:
        """Write the states that are in memory, once all clients have answered."""
        assert not self._pending
        failed: list[Exception] = []
        for worker in self._workers:
            self._give(worker, Writing(self._run))
        for worker in self._workers:
            try:
                done = worker.done()
            except WorkerLostError:
                worker.restart()
                self._check_states(worker)
            else:
                failed += [done.outcome] if isinstance(done.outcome, Exception) else []
        for error in failed:
            raise error
        self._unwritten.clear()

    def elsewhere(self) -> float:
        """CPU-seconds of the workers so far."""
        return self._cpu_seconds

    def close(self) -> None:
        self._sent.close()

    @property
    def _pending(self) -> int:
        return len(self._waiting) + len(self._busy())

    def _busy(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.job is not None]

    def _give_out(self) -> None:
        """Give each idle worker a client that is its own or nobody's, and then any client."""
        for foreign in (False, True):
            for worker in self._workers:
                client = self._next(worker, foreign) if worker.job is None else None
                if client is not None:
                    self._give(worker, self._waiting[client])
                    self._owner[client] = worker
                    del self._waiting[client]

    def _next(self, worker: Worker, foreign: bool) -> str | None:
        """The waiting client that takes longest, first of those that the worker has read."""
        owners = {client: self._owner.get(client) for client in self._waiting}
        candidates = [
            client
            for client, owner in owners.items()
            if owner in (worker, None) or (foreign and client not in self._unwritten)
        ]
        return min(
            candidates,
            key=lambda client: (owners[client] is not worker, -self._seconds.get(client, inf)),
            default=None,
        )

    def _answer(self, worker: Worker) -> Answer | None:
        """The answer of a worker that has finished; None if its client is asked again."""
        job = worker.job
        assert isinstance(job, Job)
        try:
            done = worker.done()
        except WorkerLostError:
            self._count_loss(job, worker.restart())
            self._check_states(worker)
            self._waiting = {job.client: job, **self._waiting}
            return None
        if isinstance(done.outcome, Exception):
            raise done.outcome
        self._seconds[job.client] = done.seconds
        self._cpu_seconds += done.cpu_seconds
        if self._lives:
            self._unwritten.add(job.client)
        return job.client, done.outcome

    def _give(self, worker: Worker, job: Job | Writing) -> None:
        try:
            worker.give(job)
        except WorkerLostError:
            worker.restart()
            self._check_states(worker)
            worker.give(job)

    def _check_states(self, lost: Worker) -> None:
        """Raise StatesLostError if a worker that was lost had states that are not on disk.

        All workers begin anew then, with the states on disk.
        """
        if not any(self._owner[client] is lost for client in self._unwritten):
            return
        for worker in self._workers:
            worker.restart()
        for known in (self._waiting, self._owner, self._unwritten):
            known.clear()
        raise StatesLostError("a worker process has ended, and clients' states with it.")

    def _count_loss(self, job: Job, code: int) -> None:
        which = job.client, job.message.numbers["round"]
        self._lost[which] += 1
        facts = {"client": job.client, "code": code, "times": self._lost[which]}
        log_event(WARNING, "worker lost", **facts)
        if self._lost[which] == _ATTEMPTS:
            raise RametError(
                f"the worker process of {job.client} ended {_ATTEMPTS} times without an answer "
                f"(exit code {code}). If memory was short, continue with `ramet resume` and fewer "
                "--workers."
            )


@dataclass
class GrowingWire:
    """Asks clients in this process, and in workers once the run has proved to be long.

    Args:
        local: asks clients in this process.
        workers: starts the workers.
        rounds: the number of rounds of the run.
        clients: the number of its clients.
        spent: CPU-seconds of work in this process before workers are started.
        left: seconds of work that must be left by then, as estimated from the work so far.
    """

    local: LocalWire
    workers: Callable[[], KeepingWire]
    rounds: int
    clients: int
    spent: float = 5.0
    left: float = 30.0
    _first: int | None = field(default=None, init=False)
    _worked: float = field(default=0.0, init=False)
    _wire: KeepingWire | None = field(default=None, init=False)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        remaining, answered = iter(requests), 0
        self.local.begin()
        while self._wire is None:
            client, message = next(remaining, (None, None))
            if client is None or message is None:
                return
            start = time.process_time()  # other programs may keep the cores busy
            answer = self.local.ask(client, message)
            self._worked += time.process_time() - start
            answered += 1
            self._grow(int(message.numbers["round"]), answered)
            yield client, answer
        yield from self._wire.exchange(remaining)

    def write(self) -> None:
        """Write the states that are in memory."""
        (self._wire or self.local).write()

    def elsewhere(self) -> float:
        """CPU-seconds of the workers so far."""
        return (self._wire or self.local).elsewhere()

    def _grow(self, number: int, answered: int) -> None:
        """Start the workers if that saves more time than it takes."""
        self._first = number if self._first is None else self._first
        done = number - self._first + min(1.0, answered / self.clients)
        left = self._worked / done * (self.rounds - self._first + 1 - done)
        if self._worked >= self.spent and left >= self.left:
            log_event(INFO, "workers started", round=number, seconds_left=round(left))
            self.local.write()
            self._wire = self.workers()
