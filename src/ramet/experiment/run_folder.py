"""The folder of a run.

=======================  ===========================================================
``settings.json``        everything that decides the run's numbers
``versions.json``        the run's name, its start, the versions of packages, the
                         commit, the processor and a hash of all clients' data
``split.json``           which client holds which samples, with hashes of data and split
``baselines.json``       numbers of samples, and scores of the most frequent class
``remarks.json``         what the sites' files have and their graphs do not, for user
                         data
``sites.json``           the schemas of the sites' graphs, for user data
``preparation.json``     how the sites prepare their columns, for user data
``start.json``           the run whose models this one started with, if any
``charter.json``         what the sites have signed, in a run that they verify
``trackers.json``        the trackers of the run, if any
``method.py``            a copy of the file of a user-defined method; ``network.py``,
                         ``activation.py`` and ``merge.py`` are copies of a
                         user-defined network and of user-defined rules
``imports/method/``      copies of the files that the method's file imports from its
                         folder or its package; likewise for the network and rules
``rounds.jsonl``         one line per round
``events.jsonl``         the event log: rounds, refused replies, retries, the outcome
``server/``              the server's latest snapshots and, in ``best/``, that of the best
                         round; ``chain.jsonl`` is the chain of a run that sites verify
``clients/RUN/NAME/``    each client's latest snapshots, final model, audit log and, in
                         ``evaluated/``, its model of the best round; for user data
                         ``parts.json``, which sample is in which part of the split
``logs/``                logs of Flower's programs, if the run uses Flower
``result.json``          the summary, written when the run is finished; if more rounds
                         are asked for later, the old one stays until they are done
=======================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from ramet.data.own.preparation import Preparation
from ramet.data.own.schema import Schema
from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.experiment.checks import check_clients
from ramet.experiment.code import user_files
from ramet.experiment.experiment import Experiment
from ramet.experiment.files import (
    RoundLog,
    damaged,
    filling,
    make_folder,
    read_json,
    write_json,
)
from ramet.experiment.run_facts import (
    BASELINES,
    PREPARATION,
    REMARKS,
    SCHEMAS,
    VERSIONS,
    write_facts,
)
from ramet.experiment.settings import RunSettings
from ramet.metrics import Record, Summary
from ramet.metrics.summary import Baseline

if TYPE_CHECKING:
    from ramet.secure.charter import SignedCharter  # needs an extra

RESULT = "result.json"
BEFORE_VERSIONS = frozenset({".create.lock", "versions.json.new"})
"""Files that a creation leaves when it is killed before it has written the first fact."""


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

    @property
    def is_agreed(self) -> bool:
        """Whether the sites have signed a charter of the run with keys of their own."""
        return len(self.run_name) == 64

    def about(self) -> dict[str, str]:
        """The run's name, its start and the versions that it runs with."""
        facts = read_json(self.path / VERSIONS)
        if not {"run", "started"} <= facts.keys():
            raise damaged(self.path / VERSIONS)
        return facts

    @staticmethod
    def create(
        path: Path,
        experiment: Experiment,
        before_start: Callable[[RunFolder, Experiment], None] | None = None,
        charter: SignedCharter | None = None,
    ) -> RunFolder:
        """Create the folder of a new run with everything that is known before it starts.

        ``before_start`` may write further files, before the folder counts as a run. ``charter`` is
        what its sites have signed; in a simulation, it is made here.
        """
        folder = RunFolder(path)
        folder._check_new()
        check_clients(experiment)
        make_folder(path)
        with folder.locked("create"), filling(path):
            folder._check_new()
            write_facts(experiment, path, charter)
            for copy, source in user_files(experiment.settings).items():
                make_folder((path / copy).parent)
                write_atomically(path / copy, source.read_bytes())
            if before_start is not None:
                before_start(folder, experiment)
            folder.save_settings(experiment.settings)
        vars(folder)["_experiment"] = experiment
        return folder

    def _check_new(self) -> None:
        if self.started:
            raise RametError(
                f"{self.path} already holds a run. Continue it with `ramet resume {self.path}`, or "
                "choose another folder with --out."
            )
        if self.path.exists() and not self._may_be_filled():
            raise RametError(f"{self.path} is not an empty folder. Choose a new one with --out.")

    def _may_be_filled(self) -> bool:
        """Whether this folder is empty, or left by a process that was killed while creating it."""
        if not self.path.is_dir():
            return False
        names = {path.name for path in self.path.iterdir()}
        return VERSIONS in names or names <= BEFORE_VERSIONS

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
        """The components of the run, which keep the data that they have read."""
        return self._experiment

    @cached_property
    def _experiment(self) -> Experiment:
        try:
            settings = RunSettings.model_validate_json(self._settings_file.read_text())
            reported, agreement = self._reported_schemas(), self._preparation()
            return Experiment(settings, reported, agreement, self.clients)
        except ValidationError as error:
            raise damaged(self._settings_file) from error

    def save_settings(self, settings: RunSettings) -> None:
        """Write the settings; the components of the run are then built from these."""
        write_json(self._settings_file, settings.model_dump(mode="json"))
        vars(self).pop("_experiment", None)

    def _reported_schemas(self) -> dict[str, Schema] | None:
        path = self.path / SCHEMAS
        if not path.exists():
            return None
        return {site: Schema.model_validate(facts) for site, facts in read_json(path).items()}

    def _preparation(self) -> Preparation | None:
        path = self.path / PREPARATION
        return Preparation.model_validate(read_json(path)) if path.exists() else None

    def remarks(self) -> list[str]:
        """What users may want to know about the run's data."""
        path = self.path / REMARKS
        return list(read_json(path)["data"]) if path.exists() else []  # older runs

    def baselines(self) -> dict[str, Baseline]:
        """The baselines of the clients whose data were on this machine when the run started."""
        path = self.path / BASELINES
        facts = read_json(path) if path.exists() else {}  # older runs
        return {client: Baseline.model_validate(one) for client, one in facts.items()}

    def trackers(self) -> list[str]:
        """The names of the run's trackers."""
        path = self.path / "trackers.json"
        return list(read_json(path)["names"]) if path.exists() else []

    def save_trackers(self, names: Sequence[str]) -> None:
        self.write("trackers.json", {"names": list(names)})

    @property
    def round_log(self) -> RoundLog:
        return RoundLog(self.path / "rounds.jsonl")

    def records(self) -> list[Record]:
        """The rounds so far."""
        return self.round_log.read()

    def rounds_done(self) -> int:
        return self.round_log.count()

    def summary(self) -> Summary | None:
        """The summary of a finished run; None if it is not finished, or goes on."""
        path = self.path / RESULT
        if not path.exists():
            return None
        try:
            summary = Summary.model_validate(read_json(path))
        except ValidationError as error:
            raise damaged(path) from error
        planned = read_json(self._settings_file).get("rounds", summary.rounds)
        return summary if summary.stopped_early or summary.rounds == planned else None

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

    def write(self, name: str, content: Any) -> None:
        """Write a JSON file in the folder."""
        write_json(self.path / name, content)
