"""The folder of a run.

=======================  ===========================================================
``settings.json``        everything that decides the run's numbers
``versions.json``        the run's name, its start and the versions of packages
``split.json``           which client holds which samples, with hashes
``sites.json``           the schemas of the sites' graphs, for user data
``preparation.json``     how the sites prepare their columns, for user data
``trackers.json``        the trackers of the run, if any
``method.py``            a copy of the file of a user-defined method; ``network.py``,
                         ``activation.py`` and ``merge.py`` are copies of a
                         user-defined network and of user-defined rules
``imports/method/``      copies of the files that the method's file imports from its
                         folder or its package; likewise for the network and rules
``rounds.jsonl``         one line per round
``events.jsonl``         the event log: rounds, refused replies, retries, the outcome
``server/``              the server's latest snapshots
``clients/RUN/NAME/``    each client's latest snapshots, final model and audit log
``logs/``                logs of Flower's programs, if the run uses Flower
``result.json``          the summary, written when the run is finished
=======================  ===========================================================
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from logging import INFO
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from ramet.data.own import Preparation, Schema
from ramet.engine import Observer, Wire
from ramet.engine.checkpoint import write_atomically
from ramet.errors import RametError
from ramet.events import NAME as EVENTS
from ramet.events import events_written_to, log_event, outcome_logged
from ramet.experiment.checks import check_clients
from ramet.experiment.code import check_code, user_files
from ramet.experiment.experiment import Experiment
from ramet.experiment.settings import RunSettings
from ramet.experiment.summarise import summarise
from ramet.metrics import Record, Summary
from ramet.version import versions

PREPARATION = "preparation.json"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def clients(self) -> Path:
        return self.path / "clients" / self.run_name

    @property
    def started(self) -> bool:
        return self._settings_file.exists()

    @cached_property
    def run_name(self) -> str:
        """A unique name, by which sites keep the states of different runs apart."""
        return self.about()["run"]

    def about(self) -> dict[str, str]:
        """The run's name, its start and the versions that it runs with."""
        facts = _read_json(self.path / "versions.json")
        if not {"run", "started"} <= facts.keys():
            raise _damaged(self.path / "versions.json")
        return facts

    @staticmethod
    def create(
        path: Path,
        settings: RunSettings,
        reported: Mapping[str, Schema] | None = None,
        agreement: Preparation | None = None,
    ) -> RunFolder:
        """Create the folder of a new run with everything that is known before it starts."""
        folder = RunFolder(path)
        if folder.started:
            raise RametError(
                f"{path} already holds a run. Continue it with `ramet resume {path}`, or choose "
                "another folder with --out."
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RametError(f"{path} is not an empty folder. Choose a new one with --out.")
        experiment = Experiment(settings, reported, agreement)
        check_clients(experiment)
        manifest = experiment.manifest()
        make_folder(path)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        folder._write("versions.json", {"run": uuid.uuid4().hex, "started": started, **versions()})
        folder._write("split.json", manifest)
        if experiment.raw_schemas:
            schemas = {site: schema.model_dump() for site, schema in experiment.raw_schemas.items()}
            folder._write("sites.json", schemas)
            folder._write(PREPARATION, experiment.preparation.model_dump(mode="json"))
        for copy, source in user_files(settings).items():
            make_folder((path / copy).parent)
            write_atomically(path / copy, source.read_bytes())
        folder._write("settings.json", settings.model_dump(mode="json"))
        return folder

    @staticmethod
    def open(path: Path) -> RunFolder:
        folder = RunFolder(path)
        if not folder.started:
            raise RametError(
                f"{path} holds no run. Give the folder that `ramet run` printed, or start one "
                "with `ramet run METHOD`."
            )
        return folder

    def experiment(self) -> Experiment:
        try:
            settings = RunSettings.model_validate_json(self._settings_file.read_text())
            return Experiment(settings, self._reported_schemas(), self._preparation())
        except ValidationError as error:
            raise _damaged(self._settings_file) from error

    def check_sites(self, reported: Mapping[str, Schema]) -> None:
        """Check that the sites still have the schemas that the run started with."""
        initial = self.experiment().raw_schemas
        for site, schema in reported.items():
            if site in initial and not schema.fits(initial[site]):
                raise RametError(
                    f"the schema of {site} has changed since the run started. Restore its TOML "
                    "and its data, or start a new run in another folder."
                )

    def _reported_schemas(self) -> dict[str, Schema] | None:
        path = self.path / "sites.json"
        if not path.exists():
            return None
        return {site: Schema.model_validate(facts) for site, facts in _read_json(path).items()}

    def _preparation(self) -> Preparation | None:
        path = self.path / PREPARATION
        return Preparation.model_validate(_read_json(path)) if path.exists() else None

    def check_same(self, settings: RunSettings) -> None:
        """Refuse to continue this run with other settings."""
        existing = self.experiment()
        check_code(existing.settings, self.path)
        stored, given = (
            experiment.public_settings().model_dump(exclude={"code"})
            for experiment in (existing, Experiment(settings))
        )
        changes = [
            f"{key}={given[key]} instead of {stored[key]}"
            for key in stored
            if stored[key] != given[key]
        ]
        if changes:
            raise RametError(
                f"{self.path} holds a run with other settings ({'; '.join(changes)}). Choose "
                "another folder with --out."
            )

    def check_split(self) -> None:
        """Check that the data still gives the split that the run started with."""
        experiment, stored = self.experiment(), _read_json(self.path / "split.json")
        check_code(experiment.settings, self.path)
        if stored != json.loads(json.dumps(experiment.manifest())):
            raise RametError(
                f"the data no longer give the split of {self.path / 'split.json'}. Restore the "
                "data that the run started with, or start a new run."
            )

    def execute(self, wire: Wire, observe: Observer) -> None:
        """Run the remaining rounds over a wire, and write the result."""
        with (
            self.locked("run"),
            events_written_to(self.path / EVENTS, run=self.run_name),
            outcome_logged("run finished", "run failed", "run stopped"),
        ):
            experiment = self.experiment()
            rounds = experiment.rounds(self.path / "server")
            done = rounds.resume_point()
            self._drop_records_after(done - 1)
            facts = {"method": experiment.method.name, "rounds": rounds.rounds}
            log_event(INFO, "run begun", round=done + 1, **facts, clients=[*experiment.clients])

            def record_round(record: Record) -> None:
                self._append(record)
                _log_evaluated(record)
                observe(record)

            sha256 = rounds.run(wire, record_round)
            self._write("result.json", summarise(experiment, self.records(), sha256).to_json())

    def trackers(self) -> list[str]:
        """The names of the run's trackers."""
        path = self.path / "trackers.json"
        return list(_read_json(path)["names"]) if path.exists() else []

    def save_trackers(self, names: Sequence[str]) -> None:
        self._write("trackers.json", {"names": list(names)})

    def records(self) -> list[Record]:
        """The rounds so far; a line that a crash cut short is ignored."""
        if not self._rounds_file.exists():
            return []
        complete = self._rounds_file.read_text().rpartition("\n")[0]
        try:
            return [Record.parse(line) for line in complete.splitlines()]
        except (ValueError, TypeError) as error:
            raise _damaged(self._rounds_file) from error

    def rounds_done(self) -> int:
        """The number of recorded rounds, counted without parsing them."""
        return self._rounds_file.read_bytes().count(b"\n") if self._rounds_file.exists() else 0

    def summary(self) -> Summary | None:
        """The summary of a finished run; None if it is not finished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            return Summary.model_validate(_read_json(path))
        except ValidationError as error:
            raise _damaged(path) from error

    @contextmanager
    def locked(self, work: str) -> Iterator[None]:
        """Let only one process at a time do this kind of work in the folder."""
        lock = FileLock(self.path / f".{work}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RametError(
                f"another process is working on {self.path}. Wait until it has finished, or use "
                "another folder."
            ) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def _settings_file(self) -> Path:
        return self.path / "settings.json"

    @property
    def _rounds_file(self) -> Path:
        return self.path / "rounds.jsonl"

    def _append(self, record: Record) -> None:
        with self._rounds_file.open("a") as file:
            file.write(record.line() + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _drop_records_after(self, last: int) -> None:
        """Drop the records of rounds that will be repeated."""
        kept = [record.line() + "\n" for record in self.records() if record.round <= last]
        write_atomically(self._rounds_file, "".join(kept).encode())

    def _write(self, name: str, content: Any) -> None:
        write_atomically(self.path / name, (json.dumps(content, indent=1) + "\n").encode())


def _log_evaluated(record: Record) -> None:
    log_event(
        INFO,
        "round evaluated",
        round=record.round,
        test=record.mean("test"),
        val=record.mean("val"),
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
    )


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RametError(
            f"cannot create {path} ({error.strerror}). Choose another folder."
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(path) from error
    return content


def _damaged(path: Path) -> RametError:
    return RametError(f"{path} is damaged. Restore it from a backup, or start a new run.")
