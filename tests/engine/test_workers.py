"""Worker processes give the numbers of one process, and may be killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from federations import PLANTED, Federation, climbing
from ramet.engine.processes.broadcast import Broadcast
from ramet.engine.processes.cores import available_cores
from ramet.engine.processes.local import LocalWire
from ramet.engine.processes.pool import Job, Pool
from ramet.engine.processes.workers import GrowingWire, WorkersWire
from ramet.engine.server.wire import Answer, Wire
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import LiveClients, local_engine, worker_pool
from ramet.payload import Payload
from ramet.studies.trial.wires import StoppedError, StoppingWire

FAILING = """
import os, signal
from dataclasses import replace
from ramet import fedavg
from ramet.errors import RametError
from ramet.training.local import LocalTraining

class OwnError(Exception):
    pass

class Failing(LocalTraining):
    def fit(self, session, penalty=None):
        raise RametError("the data is not usable") if {known} else OwnError("division by zero")

class Killed(LocalTraining):
    def fit(self, session, penalty=None):
        os.kill(os.getpid(), signal.SIGKILL)

def failing():
    return replace(fedavg(), name="failing", training=Failing())

def killed():
    return replace(fedavg(), name="killed", training=Killed())
"""
HETERO = {"nodes": 60, "links": 200, "clients": 3}
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {"method": "fedavg"},
    "fedstar": {"method": "fedstar"},
    "feddense": {"method": "feddense"},
    "clusters": {"method": "gcfl"},
    "nodes": {"method": "fedavg", "setting": "planted", **PLANTED},
    "stages": {"method": "fedlit", "setting": "planted", **PLANTED},
    "links": {"method": "fedavg", "setting": "planted-hetero", **HETERO},
    "secure": {"method": "fedavg", "secure": True},
    "private": {"method": "fedavg", "dp": "unit=graph,epsilon=8,delta=1e-2"},
    "private links": {
        "method": "fedavg",
        "setting": "planted",
        **PLANTED,
        "network": "hops",
        "dp": "unit=link,epsilon=8,delta=1e-2",
    },
    "8-bit": {"method": "feddense", "release": "8-bit"},
    "few": {"method": "fedavg", "activation": "random-clients,count=2"},
}


@pytest.fixture(scope="module")
def started() -> Iterator[Pool]:
    with worker_pool(2) as pool:
        yield pool


@pytest.fixture
def pool(started: Pool) -> Pool:
    """Two idle workers."""
    settle(started)
    return started


def settle(pool: Pool) -> None:
    """Wait for jobs of a run that was stopped."""
    for worker in pool.workers:
        if worker.job is not None:
            worker.done()


def in_one_process(folder: Path, **case: Any) -> ramet.Result:
    given = {"setting": "tiny", "rounds": 2, "seed": 5, "out": folder, **case}
    return ramet.run(workers=1, **given)


def same_run(whole: ramet.Result, folder: Path) -> RunFolder:
    """A new run with the settings of another one."""
    return RunFolder.create(folder, RunFolder(whole.folder).experiment())


def workers_of(pool: Pool, run: RunFolder) -> WorkersWire:
    return WorkersWire(pool, run.path, run.experiment().lives)


def executed(run: RunFolder, wire: Wire, write: Callable[[], None] | None = None) -> str:
    execute(run, wire, lambda _: None, write, seconds=0)
    summary = run.summary()
    assert summary is not None
    return summary.sha256


def events(run: RunFolder, name: str) -> list[dict[str, Any]]:
    lines = (run.path / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == name]


IN_CI = ("fedstar", "links", "secure", "private", "8-bit")


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=() if name in IN_CI else pytest.mark.thorough) for name in CASES],
)
def test_workers_give_the_numbers_of_one_process(case: str, pool: Pool, tmp_path: Path) -> None:
    whole = in_one_process(tmp_path / "one", **CASES[case])
    run = same_run(whole, tmp_path / "workers")
    wire = workers_of(pool, run)
    executed(run, wire, wire.write)
    summary = run.summary()
    assert summary is not None
    for fact in ("sha256", "scores", "model"):
        assert getattr(summary, fact) == getattr(whole.summary, fact)
    if case != "secure":  # signatures of random batches vary by a few bytes
        assert summary.traffic == whole.summary.traffic
        assert ramet.resume(run.path).frame.equals(whole.frame)


def test_the_cpu_seconds_of_a_run_are_those_of_all_its_processes(
    pool: Pool, tmp_path: Path
) -> None:
    whole = in_one_process(tmp_path / "one", method="fedavg")
    assert (whole.summary.cpu_seconds or 0) > 0
    run = same_run(whole, tmp_path / "workers")
    wire = workers_of(pool, run)
    execute(run, wire, lambda _: None, wire.write, elsewhere=wire.elsewhere)
    summary = run.summary()
    assert summary is not None
    assert 0 < wire.elsewhere() < (summary.cpu_seconds or 0)
    run = same_run(whole, tmp_path / "unknown")
    executed(run, workers_of(pool, run))
    summary = run.summary()
    assert summary is not None
    assert summary.cpu_seconds is None


def test_a_run_may_change_between_workers_and_one_process(pool: Pool, tmp_path: Path) -> None:
    whole = in_one_process(tmp_path / "one", method="fedstar", rounds=4)
    run = same_run(whole, tmp_path / "both")
    here = LiveClients(run.experiment(), run.clients, lives=True).wire()
    for last, wire in ((2, workers_of(pool, run)), (3, here)):
        with suppress(StoppedError):
            executed(run, StoppingWire(wire, last), wire.write)
        settle(pool)
    assert run.summary() is None
    workers = workers_of(pool, run)
    assert executed(run, workers, workers.write) == whole.summary.sha256
    assert [event["round"] for event in events(run, "run begun")] == [1, 2, 3]


@dataclass
class KillingWire:
    """Kills both workers after the first answer of a round.

    One was stopped before, so it is killed before it answers. The other may have answered.
    """

    wire: WorkersWire
    pool: Pool
    unanswered: list[str] = field(default_factory=list)
    killed: int = 0

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        stopped = self.pool.workers[0]
        os.kill(stopped.pid, signal.SIGSTOP)
        for number, answer in enumerate(self.wire.exchange(requests)):
            if not number:
                assert isinstance(stopped.job, Job)
                self.unanswered.append(stopped.job.client)
                for worker in self.pool.workers:
                    os.kill(worker.pid, signal.SIGKILL)
                    self.killed += worker.job is not None
            yield answer


@pytest.mark.thorough
def test_a_client_whose_worker_is_killed_is_asked_again(tmp_path: Path) -> None:
    whole = in_one_process(tmp_path / "one", method="fedstar", rounds=1)
    run = same_run(whole, tmp_path / "killed")
    with worker_pool(2) as pool:
        wire = KillingWire(WorkersWire(pool, run.path), pool)
        assert executed(run, wire) == whole.summary.sha256
    lost = events(run, "worker lost")
    assert {*wire.unanswered} <= {event["client"] for event in lost}
    assert 0 < len(wire.unanswered) <= len(lost) <= wire.killed
    assert {event["code"] for event in lost} == {-signal.SIGKILL}


@dataclass
class KillsOnce:
    """Kills all workers after the first answer of a round, once."""

    wire: WorkersWire
    pool: Pool
    round: int
    killed: bool = False

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        asked = [*requests]
        for answer in self.wire.exchange(asked):
            yield answer
            if not self.killed and asked[0][1].numbers["round"] == self.round:
                self.killed = True
                for worker in self.pool.workers:
                    os.kill(worker.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("seconds", "again"), [(0.0, 3), pytest.param(1000.0, 1, marks=pytest.mark.thorough)]
)
def test_a_run_goes_back_if_states_are_lost_with_a_worker(
    seconds: float, again: int, tmp_path: Path
) -> None:
    """To the last round that was written: the one before, or none."""
    whole = in_one_process(tmp_path / "one", method="fedstar", rounds=4)
    run = same_run(whole, tmp_path / "killed")
    with worker_pool(2) as pool:
        workers = workers_of(pool, run)
        wire = KillsOnce(workers, pool, round=3)
        execute(run, wire, lambda _: None, workers.write, seconds)
    summary = run.summary()
    assert wire.killed
    assert summary is not None
    assert summary.sha256 == whole.summary.sha256
    assert [event["round"] for event in events(run, "run begun")][:2] == [1, again]
    assert [record.round for record in run.records()] == [1, 2, 3, 4]


@pytest.mark.thorough
def test_a_client_that_kills_every_worker_ends_the_run(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(FAILING.format(known=True))
    with pytest.raises(RametError, match=r"ended 3 times without an answer \(exit code -9\)"):
        ramet.run(f"{own}:killed", rounds=1, out=tmp_path / "r", workers=2, clients=3)
    assert not (tmp_path / "r" / ".sent").exists()


def test_errors_of_clients_end_the_run_as_in_one_process(pool: Pool, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    for known, kind, text in (
        (True, RametError, "the data is not usable"),
        (False, RuntimeError, "OwnError: division by zero"),
    ):
        own.write_text(FAILING.format(known=known))
        failed = RunFolder(_failed(own, tmp_path / f"one{known}"))
        run = RunFolder.create(tmp_path / f"workers{known}", failed.experiment())
        with pytest.raises(kind, match=text) as raised:
            executed(run, WorkersWire(pool, run.path))
        notes = getattr(raised.value, "__notes__", [])
        assert any("in fit" in note for note in notes) != known
        settle(pool)


def _failed(own: Path, folder: Path) -> Path:
    """The folder of a run that has failed in one process."""
    with pytest.raises(Exception, match=r"not usable|division"):
        ramet.run(f"{own}:failing", rounds=1, out=folder, workers=1)
    return folder


def test_long_runs_get_workers_on_their_way(pool: Pool, tmp_path: Path) -> None:
    whole = in_one_process(tmp_path / "one", method="fedstar", rounds=3)
    run = same_run(whole, tmp_path / "long")
    workers, here = workers_of(pool, run), LiveClients(run.experiment(), run.clients, lives=True)
    wire = GrowingWire(here.wire(), lambda: workers, 3, 3, spent=0, left=0)
    assert executed(run, wire, wire.write) == whole.summary.sha256
    (started,) = events(run, "workers started")
    assert started["round"] == 1
    run = same_run(whole, tmp_path / "short")
    with local_engine(run, cores=2) as usual:
        assert isinstance(usual, GrowingWire)
        assert executed(run, usual, usual.write) == whole.summary.sha256
    assert not events(run, "workers started")


def test_time_left_is_estimated_from_the_work_so_far() -> None:
    """Four of ten rounds took 8 s, so 12 s are left."""

    def grown(left: float) -> bool:
        started: list[int] = []
        wire = GrowingWire(
            local=LocalWire(Federation(climbing(), Path()).client),
            workers=lambda: started.append(1),  # type: ignore[arg-type,return-value]
            rounds=13,  # rounds 4 to 13 are those of this process
            clients=2,
            left=left,
        )
        wire._first, wire._worked = 4, 8.0
        wire._grow(7, answered=2)
        return bool(started)

    assert grown(12.0)
    assert not grown(12.01)


def test_each_array_is_written_once(tmp_path: Path) -> None:
    shared, own = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(2.5)
    columns = np.arange(6).reshape(2, 3).T
    sent = Broadcast(tmp_path / "sent")
    sent.restart()
    first = sent.stored(Payload({"a": shared, "empty": np.zeros((0, 3))}, {"round": 1}))
    second = sent.stored(Payload({"b": shared}, {"round": 1}, {"note": "text"}, {"c": own}))
    third = sent.stored(Payload({"columns": columns}))
    assert first.arrays["a"] == second.arrays["b"]
    assert (tmp_path / "sent").stat().st_size == 2 * 64 + columns.nbytes
    read = second.payload()
    assert (read.numbers, read.notes) == ({"round": 1}, {"note": "text"})
    assert np.array_equal(read.arrays["b"], shared)
    assert read.extras["c"].shape == ()
    assert read.extras["c"].item() == 2.5
    assert first.payload().arrays["empty"].shape == (0, 3)
    assert np.array_equal(third.payload().arrays["columns"], columns)
    read.arrays["b"][:] = 0  # in this process only
    assert np.array_equal(second.payload().arrays["b"], shared)
    sent.restart()
    assert np.array_equal(read.extras["c"], own)  # still mapped
    sent.close()
    assert not (tmp_path / "sent").exists()


def test_cores_are_those_of_the_container_and_shared_by_jobs(tmp_path: Path) -> None:
    quota, cores = tmp_path / "cpu.max", available_cores(quota=tmp_path / "none")
    assert cores >= 1
    quota.write_text("max 100000\n")
    assert available_cores(quota=quota) == cores
    quota.write_text("50000 100000\n")
    assert available_cores(quota=quota) == 1
    quota.write_text(f"{100000 * cores} 100000\n")
    assert available_cores(cores, quota) == available_cores(cores + 1, quota) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "at least one worker, not 0"),
        ({"workers": 2, "engine": "ray"}, "--engine ray: this engine has its own processes"),
    ],
)
def test_wrong_numbers_of_workers_are_refused(
    given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RametError, match=message):
        ramet.run("fedavg", rounds=1, out=tmp_path / "r", **given)
    assert not (tmp_path / "r").exists()
