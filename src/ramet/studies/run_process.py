"""The runs of a sweep, each in a process of its own.

Ctrl-C, and the end of the process that started a run, interrupt it as Ctrl-C interrupts `ramet
run`: whatever it has started ends with it, and its finished rounds are on disk. No semaphores or
other named resources are used, so there are none to clean up, however a process ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from time import sleep
from types import FrameType

from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, RunSettings
from ramet.run_options import DEFAULT_COMPUTING, Computing
from ramet.runs import Result, resume, start
from ramet.tracking import prepare_trackers

_PAUSE = 0.5
_SECONDS_TO_STOP = 30.0
"""Flower's programs take up to 15 s to end; a run that is not interrupted by then is killed."""
_INTERRUPT = frozenset({signal.SIGINT})


@dataclass(frozen=True)
class Work:
    """A run to start, or to continue if its folder holds it already."""

    settings: RunSettings
    path: Path
    computing: Computing = DEFAULT_COMPUTING

    def run(self) -> Result:
        if RunFolder(self.path).started:
            return resume(self.path, **asdict(self.computing))
        return start(Experiment(self.settings), self.path, self.computing)

    def problem(self) -> str | None:
        """Run it, and return why it failed, or which tracker did not receive all of it."""
        try:
            return " ".join(self.run().untracked_sentences()) or None
        except RametError as error:
            return str(error)


@dataclass(frozen=True)
class _RunProcess:
    name: str
    process: SpawnProcess
    answer: Connection

    def problem(self) -> str | None:
        """Why the ended process has failed; None if it has not."""
        self.process.join()
        try:
            problem: str | None = self.answer.recv()
        except EOFError:
            return f"its process ended with exit code {self.process.exitcode}."
        finally:
            self.answer.close()
        return problem


@dataclass(frozen=True)
class RunProcesses:
    """The processes that are running."""

    _active: list[_RunProcess] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._active)

    def start(self, work: Work) -> None:
        spawn = get_context("spawn")
        answer, theirs = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_run, args=(work, theirs), name=work.path.name)
        # Not interrupted before it can handle it; a new process inherits what is blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
        try:
            process.start()
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._active.append(_RunProcess(work.path.name, process, answer))

    def failed_since(self) -> dict[str, str]:
        """Wait a moment for runs to end, and return why those that ended have failed."""
        wait([one.process.sentinel for one in self._active], timeout=_PAUSE)
        ended = [one for one in self._active if not one.process.is_alive()]
        for one in ended:
            self._active.remove(one)
        problems = {one.name: one.problem() for one in ended}
        return {name: problem for name, problem in problems.items() if problem is not None}

    def stop(self) -> None:
        for one in self._active:
            if one.process.pid is not None and one.process.is_alive():
                os.kill(one.process.pid, signal.SIGINT)
        for one in self._active:
            one.process.join(_SECONDS_TO_STOP)
            one.process.kill()
            one.process.join()
            one.answer.close()


@contextmanager
def running(track: Sequence[str] = ()) -> Iterator[RunProcesses]:
    """Processes for runs, which are stopped if the block is left before their end."""
    prepare_trackers(track)
    processes = RunProcesses()
    try:
        yield processes
    except KeyboardInterrupt as stop:
        stop.add_note("stopped. Rerun the same command to continue.")
        raise
    finally:
        processes.stop()


def _run(work: Work, answer: Connection) -> None:
    """Run in a new process."""
    try:
        signal.signal(signal.SIGINT, _interrupted_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
        Thread(target=_end_with_parent, daemon=True).start()
        answer.send(work.problem())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        answer.send(f"{type(error).__name__}: {error}")
        raise  # the traceback goes to stderr


def _interrupted_once(_: int, __: FrameType | None) -> None:
    """Ctrl-C in a terminal reaches this process twice; the second must not stop the cleaning up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Interrupt this process when the sweep's is killed; otherwise it would go on without it."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGINT)
    sleep(_SECONDS_TO_STOP)
    os._exit(1)
