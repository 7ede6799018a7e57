"""Execute a run: its remaining rounds over a wire, and then its summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from logging import INFO, WARNING

from ramet.engine.processes.workers import StatesLostError
from ramet.engine.server.journal import Observer
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.wire import Wire
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.store.timed_snapshots import SECONDS, TimedSnapshots
from ramet.events import NAME as EVENTS
from ramet.events import events_written_to, log_event, outcome_logged
from ramet.experiment.run_folder import RESULT, RunFolder
from ramet.experiment.server_side import rounds_of
from ramet.experiment.summarise import summarise
from ramet.metrics import Record
from ramet.scale import PERCENT


def execute(
    folder: RunFolder,
    wire: Wire,
    observe: Observer,
    write: Callable[[], None] | None = None,
    seconds: float = SECONDS,
    elsewhere: Callable[[], float] | None = None,
    sends_start: bool = False,
) -> None:
    """Run the remaining rounds over a wire, and write the result.

    If the run has regions, the wire is to their coordinators. If clients may stay in memory,
    ``write`` writes their states, every few ``seconds``. ``elsewhere`` gives the CPU-seconds of
    other processes so far; without it, the CPU-seconds of rounds are not known. With
    ``sends_start``, clients have nothing of the run that this one starts from but what is sent to
    them.
    """
    with (
        folder.locked("run"),
        events_written_to(folder.path / EVENTS, run=folder.run_name),
        outcome_logged("run finished", "run failed", "run stopped"),
    ):
        experiment, log = folder.experiment(), folder.round_log
        rounds = rounds_of(experiment, folder.path / "server")
        rounds = replace(rounds, regions=experiment.regions, sends_start=sends_start)

        def begun() -> Rounds:
            if write is None or not experiment.lives:
                return rounds
            exchanges = len(experiment.method.stages) + 1
            timed = TimedSnapshots(rounds.snapshots, write, seconds, exchanges)
            return replace(rounds, snapshots=timed)

        cpu_seconds = None if elsewhere is None else _cpu_seconds_of_rounds(elsewhere)

        def record_round(record: Record) -> None:
            if cpu_seconds is not None:
                record = replace(record, cpu_seconds=next(cpu_seconds))
            log.append(record)
            _log_evaluated(record)
            observe(record)

        sha256 = None
        while sha256 is None:
            done = rounds.resume_point()
            log.drop_after(done - 1)
            facts = {"method": experiment.method.name, "rounds": rounds.rounds}
            log_event(INFO, "run begun", round=done + 1, **facts, clients=[*experiment.clients])
            try:
                sha256 = begun().run(wire, record_round, log.read())
            except StatesLostError as lost:
                log_event(WARNING, "run goes back", reason=str(lost))
        ledgers = (folder.clients / client / LEDGER for client in experiment.clients)
        simulated = any(ledger.exists() for ledger in ledgers)
        summary = summarise(experiment, log.read(), sha256, folder.baselines(), simulated)
        folder.write(RESULT, summary.to_json())


def _cpu_seconds_of_rounds(elsewhere: Callable[[], float]) -> Iterator[float]:
    """The CPU-seconds that each round has taken, in this process and elsewhere."""
    begun = time.process_time() + elsewhere()

    def rounds() -> Iterator[float]:
        last = begun
        while True:
            now = time.process_time() + elsewhere()
            yield round(now - last, 3)
            last = now

    return rounds()


def _log_evaluated(record: Record) -> None:
    log_event(
        INFO,
        "round evaluated",
        round=record.round,
        test=record.mean("test"),
        **({} if record.unit == PERCENT else {"unit": record.unit}),
        val=record.mean("val"),
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
    )
