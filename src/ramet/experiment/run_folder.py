"""What a run leaves on disk.

=======================  ===========================================================
``settings.json``        everything that decides the run's numbers
``versions.json``        what it ran with
``split.json``           who held which samples, with hashes
``sites.json``           the form of the sites' own graphs, where they bring them
``trackers.json``        who follows its rounds, if anybody does
``method.py``            a copy of the file with a method of one's own; ``activation.py`` and
                         ``merge.py`` are copies of those with rules
``rounds.jsonl``         one line per round
``events.jsonl``         what happened when: rounds, refused replies, retries, the end
``server/``              the server's last snapshots
``clients/RUN/NAME/``    each client's last snapshots, final model, and log of what left it
``result.json``          the final scores; there only when the run is finished
=======================  ===========================================================
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
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

from ramet.data.own import Schema
from ramet.engine import Observer, Wire
from ramet.engine.checkpoint import write_whole
from ramet.errors import RametError
from ramet.events import NAME as EVENTS
from ramet.events import ending, tell, written_to
from ramet.experiment.checks import check_clients
from ramet.experiment.experiment import Experiment
from ramet.experiment.named import check_code, user_files
from ramet.experiment.settings import RunSettings
from ramet.experiment.summarise import summarised
from ramet.metrics import Record, Summary

_PACKAGES = ("ramet", "torch", "torch_geometric", "numpy", "scikit-learn", "flwr", "ray")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder."""

    path: Path

    @property
    def clients(self) -> Path:
        return self.path / "clients" / self.run_name

    @property
    def started(self) -> bool:
        return self._settings.exists()

    @cached_property
    def run_name(self) -> str:
        """A name no other run has: sites keep the states of different runs apart by it."""
        return self.about()["run"]

    def about(self) -> dict[str, str]:
        """The run's own name, when it was started, and with what."""
        facts = _read_json(self.path / "versions.json")
        if not {"run", "started"} <= facts.keys():
            raise _damaged(self.path / "versions.json")
        return facts

    @staticmethod
    def create(
        path: Path, settings: RunSettings, reported: Mapping[str, Schema] | None = None
    ) -> RunFolder:
        """Claim a folder for a new run and write down what is known before it starts."""
        folder = RunFolder(path)
        if folder.started:
            raise RametError(
                f"{path} already holds a run. Go on with `ramet resume {path}`, or give another "
                "folder with --out."
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RametError(f"{path} is there and not empty. Give a new folder with --out.")
        experiment = Experiment(settings, reported)
        check_clients(experiment)
        manifest = experiment.manifest()
        make_folder(path)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        folder._write("versions.json", {"run": uuid.uuid4().hex, "started": started, **versions()})
        folder._write("split.json", manifest)
        if experiment.schemas:
            schemas = {site: schema.model_dump() for site, schema in experiment.schemas.items()}
            folder._write("sites.json", schemas)
        for kind, source in user_files(settings).items():
            write_whole(path / f"{kind}.py", source.read_bytes())
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
            settings = RunSettings.model_validate_json(self._settings.read_text())
            return Experiment(settings, self._reported_schemas())
        except ValidationError as error:
            raise _damaged(self._settings) from error

    def check_sites(self, reported: Mapping[str, Schema]) -> None:
        """Sites that come back must have the schema that they started with."""
        began = self.experiment().schemas
        for site, schema in reported.items():
            if site in began and not schema.fits(began[site]):
                raise RametError(
                    f"{site} has graphs of another form than when the run began. Put back its "
                    "TOML and its data, or start anew in another folder."
                )

    def _reported_schemas(self) -> dict[str, Schema] | None:
        path = self.path / "sites.json"
        if not path.exists():
            return None
        return {site: Schema.model_validate(facts) for site, facts in _read_json(path).items()}

    def check_same(self, settings: RunSettings) -> None:
        """Refuse to go on with this run under other settings."""
        began = self.experiment()
        check_code(began.settings)
        own, given = (
            experiment.public_settings().model_dump(exclude={"code"})
            for experiment in (began, Experiment(settings))
        )
        other = [
            f"{key}={given[key]} instead of {own[key]}" for key in own if own[key] != given[key]
        ]
        if other:
            raise RametError(
                f"{self.path} holds a run with other settings ({'; '.join(other)}). Give another "
                "folder with --out."
            )

    def check_split(self) -> None:
        """A resumed run must see the samples it began with."""
        stored = _read_json(self.path / "split.json")
        if stored != json.loads(json.dumps(self.experiment().manifest())):
            raise RametError(
                f"the data no longer give the split of {self.path / 'split.json'}. Put back the "
                "data that the run began with, or start anew."
            )

    def execute(self, wire: Wire, observe: Observer) -> None:
        """Do what is missing of the run, over any wire, and leave the result."""
        with (
            self.locked("run"),
            written_to(self.path / EVENTS, run=self.run_name),
            ending("run finished", "run failed", "run stopped"),
        ):
            experiment = self.experiment()
            rounds = experiment.rounds(self.path / "server")
            done = rounds.resume_point()
            self._forget_after(done - 1)
            facts = {"method": experiment.method.name, "rounds": rounds.rounds}
            tell(INFO, "run begun", round=done + 1, **facts, clients=[*experiment.clients])

            def note(record: Record) -> None:
                self._append(record)
                _tell_evaluated(record)
                observe(record)

            sha256 = rounds.run(wire, note)
            self._write("result.json", summarised(experiment, self.records(), sha256).to_json())

    def trackers(self) -> list[str]:
        """The names of those who follow the rounds."""
        path = self.path / "trackers.json"
        return list(_read_json(path)["names"]) if path.exists() else []

    def keep_trackers(self, names: Sequence[str]) -> None:
        self._write("trackers.json", {"names": list(names)})

    def records(self) -> list[Record]:
        """The rounds so far; a line that a crash cut short is not one."""
        if not self._lines.exists():
            return []
        whole = self._lines.read_text().rpartition("\n")[0]
        try:
            return [Record.parse(line) for line in whole.splitlines()]
        except (ValueError, TypeError) as error:
            raise _damaged(self._lines) from error

    def rounds_done(self) -> int:
        """How many rounds have their line, without parsing them."""
        return self._lines.read_bytes().count(b"\n") if self._lines.exists() else 0

    def summary(self) -> Summary | None:
        """The figures of a finished run; None if it is not finished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            return Summary.model_validate(_read_json(path))
        except ValidationError as error:
            raise _damaged(path) from error

    @contextmanager
    def locked(self, work: str) -> Iterator[None]:
        """One process at a time does this kind of work on the folder."""
        lock = FileLock(self.path / f".{work}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RametError(
                f"another process is working on {self.path}. Wait until it is done, or use "
                "another folder."
            ) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def _settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def _lines(self) -> Path:
        return self.path / "rounds.jsonl"

    def _append(self, record: Record) -> None:
        with self._lines.open("a") as file:
            file.write(record.line() + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _forget_after(self, last: int) -> None:
        """Drop the lines of rounds that will be done again."""
        kept = [record.line() + "\n" for record in self.records() if record.round <= last]
        write_whole(self._lines, "".join(kept).encode())

    def _write(self, name: str, content: Any) -> None:
        write_whole(self.path / name, (json.dumps(content, indent=1) + "\n").encode())


def _tell_evaluated(record: Record) -> None:
    tell(
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
        raise RametError(f"cannot make {path} ({error.strerror}). Give another folder.") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(path) from error
    return found


def _damaged(path: Path) -> RametError:
    return RametError(f"{path} is damaged. Restore it from a backup, or start the run anew.")


def versions() -> dict[str, str]:
    """What a figure has to carry beside it."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
