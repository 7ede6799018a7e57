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
``trackers.json``        the trackers of the run, if any
``method.py``            a copy of the file of a user-defined method; ``network.py``,
                         ``activation.py`` and ``merge.py`` are copies of a
                         user-defined network and of user-defined rules
``imports/method/``      copies of the files that the method's file imports from its
                         folder or its package; likewise for the network and rules
``rounds.jsonl``         one line per round
``events.jsonl``         the event log: rounds, refused replies, retries, the outcome
``server/``              the server's latest snapshots and, in ``best/``, that of the best
                         round
``clients/RUN/NAME/``    each client's latest snapshots, final model, audit log and, in
                         ``evaluated/``, its model of the best round; for user data
                         ``parts.json``, which sample is in which part of the split
``logs/``                logs of Flower's programs, if the run uses Flower
``result.json``          the summary, written when the run is finished; if more rounds
                         are asked for later, the old one stays until they are done
=======================  ===========================================================
"""

from __future__ import annotations

import hashlib
import json
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from logging import INFO
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError
from torch import nn

from ramet.data.own import Preparation, Schema
from ramet.disk import write_atomically
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.journal import Observer
from ramet.engine.server.wire import Wire
from ramet.engine.site.audit import INTRODUCTIONS, AuditLog
from ramet.engine.site.audit import NAME as AUDIT
from ramet.engine.site.kept_models import has_final_model
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError, RametWarning
from ramet.events import NAME as EVENTS
from ramet.events import events_written_to, log_event, outcome_logged
from ramet.experiment.checks import check_clients
from ramet.experiment.code import check_code, user_files
from ramet.experiment.experiment import DATA_SHA256, Experiment
from ramet.experiment.files import (
    RoundLog,
    damaged,
    filling,
    make_folder,
    read_json,
    write_json,
)
from ramet.experiment.settings import RunSettings
from ramet.experiment.summarise import summarise
from ramet.metrics import Record, Summary
from ramet.metrics.classification import Evaluation
from ramet.metrics.summary import Baseline
from ramet.payload import Payload
from ramet.tasks.base import Predictions
from ramet.version import provenance, versions

PREPARATION = "preparation.json"
BASELINES = "baselines.json"
REMARKS = "remarks.json"
VERSIONS = "versions.json"
DATA = "data"
"""The hash of all clients' data among the versions."""
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
    ) -> RunFolder:
        """Create the folder of a new run with everything that is known before it starts.

        ``before_start`` may write further files, before the folder counts as a run.
        """
        folder = RunFolder(path)
        folder._check_new()
        check_clients(experiment)
        make_folder(path)
        with folder.locked("create"), filling(path):
            folder._check_new()
            folder._write_facts(experiment)
            for copy, source in user_files(experiment.settings).items():
                make_folder((path / copy).parent)
                write_atomically(path / copy, source.read_bytes())
            if before_start is not None:
                before_start(folder, experiment)
            folder.write("settings.json", experiment.settings.model_dump(mode="json"))
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

    def _write_facts(self, experiment: Experiment) -> None:
        manifest = experiment.manifest()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"run": uuid.uuid4().hex, "started": started, **versions(), **provenance()}
        hashes = {client: facts.get(DATA_SHA256) for client, facts in manifest["clients"].items()}
        data = hash_of_all(hashes)
        self.write(VERSIONS, about | ({DATA: data} if data else {}))
        self.write("split.json", manifest)
        baselines = experiment.baselines()
        self.write(BASELINES, {site: one.model_dump() for site, one in baselines.items()})
        if experiment.raw_schemas:
            schemas = {site: schema.model_dump() for site, schema in experiment.raw_schemas.items()}
            self.write("sites.json", schemas)
            self.write(REMARKS, {"data": experiment.remarks()})
            self.write(PREPARATION, experiment.preparation.model_dump(mode="json"))
            if experiment.settings.engine != "superlink":  # there, each site logs it
                self._log_introductions(experiment, str(about["run"]))

    def _log_introductions(self, experiment: Experiment, run: str) -> None:
        """Log what sites told before round 1: the sums of columns, and whether a class is rare."""
        settings = experiment.settings
        for client, told in experiment.introductions().items():
            audit = AuditLog(
                self.path / INTRODUCTIONS / AUDIT,
                run=run,
                client=client,
                method=settings.label,
                sharing=str(experiment.method.shared),
                data=str(experiment.setting.data_of(client, settings.data)),
            )
            audit.add(0, Payload(), "introduction", told)

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
        return {site: Schema.model_validate(facts) for site, facts in read_json(path).items()}

    def _preparation(self) -> Preparation | None:
        path = self.path / PREPARATION
        return Preparation.model_validate(read_json(path)) if path.exists() else None

    def remarks(self) -> list[str]:
        """What users may want to know about the run's data."""
        path = self.path / REMARKS
        return list(read_json(path)["data"]) if path.exists() else []  # older runs

    def _baselines(self) -> dict[str, Baseline]:
        path = self.path / BASELINES
        facts = read_json(path) if path.exists() else {}  # older runs
        return {client: Baseline.model_validate(one) for client, one in facts.items()}

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
        """Check that the data and their split are those that the run started with."""
        experiment, stored = self.experiment(), read_json(self.path / "split.json")
        check_code(experiment.settings, self.path)
        changed = [
            client for client in experiment.final_clients if self.has_changed(client, experiment)
        ]
        if changed:
            raise RametError(
                f"the data of {', '.join(changed)} has changed since the run started. Restore it, "
                f"or start a new run; `--from {self.path}` starts it with this run's models."
            )
        manifest = json.loads(json.dumps(experiment.manifest()))
        for client, facts in manifest["clients"].items():
            if DATA_SHA256 not in stored["clients"].get(client, {}):  # older runs
                facts.pop(DATA_SHA256, None)
        if stored != manifest:
            raise RametError(
                f"the data no longer give the split of {self.path / 'split.json'}. Restore the "
                "data that the run started with, or start a new run."
            )

    def check_data(self, client: str, experiment: Experiment | None = None) -> None:
        """Warn if a client's data on this machine have changed since the run started."""
        try:
            has_changed = self.has_changed(client, experiment or self.experiment())
        except RametError as error:
            text = f"the data of {client} cannot be compared with those of the run: {error}"
            warnings.warn(text, RametWarning, stacklevel=3)
            return
        if has_changed:
            text = (
                f"the data of {client} has changed since the run in {self.path} started, so rows "
                "that it was trained on may be among those that are evaluated."
            )
            warnings.warn(text, RametWarning, stacklevel=3)

    def has_changed(self, client: str, experiment: Experiment) -> bool:
        """Whether a client's data differ from the hash in the run's folder, if there is one."""
        return bool(self.changed_clients({client: experiment.data_sha256(client)}))

    def changed_clients(self, current: Mapping[str, str | None]) -> list[str]:
        """The clients whose data differ from the hash in this folder, if both are known."""
        clients = read_json(self.path / "split.json")["clients"]
        stored = {client: clients.get(client, {}).get(DATA_SHA256) for client in current}
        return [
            client
            for client, sha256 in current.items()
            if None not in (sha256, stored[client]) and sha256 != stored[client]
        ]

    def extend(self, rounds: int) -> None:
        """Set the total number of rounds, which must be at least those that are done."""
        with self.locked("run"):
            experiment, summary = self.experiment(), self.summary()
            planned, done = experiment.settings.rounds, self._committed(experiment)
            budget = experiment.settings.budget
            if budget is not None and budget.unit != "link" and rounds != planned:
                raise RametError(
                    f"the noise of the run in {self.path} was chosen for {planned} rounds, so it "
                    "cannot have another number. Start a new run; what it spends adds up."
                )
            if summary is not None and experiment.settings.secure and rounds != planned:
                raise RametError(
                    f"the run in {self.path} is closed by its last secure sum, so it has no more "
                    "rounds. Start a new run from its models with --from."
                )
            if summary is not None and summary.stopped_early:
                raise RametError(
                    f"the run in {self.path} stopped early after round {done}, so it has no more "
                    "rounds. Start a new run without --patience, or from its models with --from."
                )
            if rounds < done:
                raise RametError(
                    f"the run in {self.path} has done {done} rounds already, so it cannot end "
                    f"after {rounds}. Give a larger number with --rounds."
                )
            if rounds != planned:
                settings = experiment.settings.model_copy(update={"rounds": rounds})
                self.write("settings.json", settings.model_dump(mode="json"))
                del vars(self)["_experiment"]

    def continue_with(self, settings: RunSettings) -> None:
        """Check that the run has these settings, and extend it if they have more rounds."""
        planned = self.experiment().settings.rounds
        self.check_same(settings.model_copy(update={"rounds": min(planned, settings.rounds)}))
        if settings.rounds > planned:
            self.extend(settings.rounds)

    def _committed(self, experiment: Experiment) -> int:
        """The number of rounds of which the server has a snapshot."""
        steps = Snapshots(self.path / "server").steps()
        return steps[-1] // (len(experiment.method.stages) + 1) if steps else 0

    def execute(self, wire: Wire, observe: Observer) -> None:
        """Run the remaining rounds over a wire, and write the result.

        If the run has regions, the wire is to their coordinators.
        """
        with (
            self.locked("run"),
            events_written_to(self.path / EVENTS, run=self.run_name),
            outcome_logged("run finished", "run failed", "run stopped"),
        ):
            experiment = self.experiment()
            rounds = experiment.rounds(self.path / "server")
            rounds = replace(rounds, regions=experiment.regions)
            done = rounds.resume_point()
            self._rounds.drop_after(done - 1)
            facts = {"method": experiment.method.name, "rounds": rounds.rounds}
            log_event(INFO, "run begun", round=done + 1, **facts, clients=[*experiment.clients])

            def record_round(record: Record) -> None:
                self._rounds.append(record)
                _log_evaluated(record)
                observe(record)

            sha256 = rounds.run(wire, record_round, self.records())
            ledgers = (self.clients / client / LEDGER for client in experiment.clients)
            simulated = any(ledger.exists() for ledger in ledgers)
            baselines = self._baselines()
            summary = summarise(experiment, self.records(), sha256, baselines, simulated)
            self.write("result.json", summary.to_json())

    def model(self, client: str, best: bool = False) -> nn.Module:
        """A client's model of the last or the best round of a finished run."""
        experiment = self.experiment()
        self.check_data(client, experiment)
        return self._model(experiment, client, best)

    def predictions(self, client: str, best: bool = False) -> dict[str, Predictions]:
        """What a client's model of the last or the best round predicts for held-out samples."""
        experiment = self.experiment()
        self.check_data(client, experiment)
        return experiment.predictions(client, self._model(experiment, client, best))

    def reading_data_once(self) -> Callable[[str], dict[str, Predictions]]:
        """`predictions` for many clients, which reads data that they have in common once."""
        experiment = self.experiment()

        def predictions(client: str) -> dict[str, Predictions]:
            self.check_data(client, experiment)
            return experiment.predictions(client, self._model(experiment, client, best=False))

        return predictions

    def evaluation(self, client: str, best: bool = False) -> dict[str, Evaluation]:
        """All metrics of a client's model of the last or the best round."""
        experiment = self.experiment()
        self.check_data(client, experiment)
        return experiment.evaluation(client, self._model(experiment, client, best))

    def _model(self, experiment: Experiment, client: str, best: bool) -> nn.Module:
        number = self.best_round() if best else None
        if number is None:
            self._deliver_to(client, experiment)
            return experiment.final_model(client, self.clients)
        return experiment.evaluated_model(client, self.clients, number)

    def _deliver_to(self, client: str, experiment: Experiment) -> None:
        """Send a client the final model, if the closing message did not go to it."""
        known = client in experiment.final_clients or client not in experiment.clients
        if known or self.summary() is None or has_final_model(self.clients / client):
            return
        wire = LocalWire(lambda name: experiment.client(name, self.clients))
        with self.locked("run"):
            experiment.rounds(self.path / "server").deliver(wire, client)

    def best_round(self) -> int | None:
        """The round with the best mean validation score, if it is not the last one."""
        summary = self.summary()
        if summary is None or summary.scores.best_val_round == summary.rounds:
            return None
        return summary.scores.best_val_round

    def trackers(self) -> list[str]:
        """The names of the run's trackers."""
        path = self.path / "trackers.json"
        return list(read_json(path)["names"]) if path.exists() else []

    def save_trackers(self, names: Sequence[str]) -> None:
        self.write("trackers.json", {"names": list(names)})

    def records(self) -> list[Record]:
        """The rounds so far."""
        return self._rounds.read()

    def rounds_done(self) -> int:
        return self._rounds.count()

    def summary(self) -> Summary | None:
        """The summary of a finished run; None if it is not finished, or goes on."""
        path = self.path / "result.json"
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

    @property
    def _rounds(self) -> RoundLog:
        return RoundLog(self.path / "rounds.jsonl")

    def write(self, name: str, content: Any) -> None:
        """Write a JSON file in the folder."""
        write_json(self.path / name, content)


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


def hash_of_all(hashes: Mapping[str, str | None]) -> str | None:
    """A hash of the data of all clients; None if some of it is on other machines."""
    if None in hashes.values():
        return None
    return hashlib.sha256(json.dumps(dict(hashes), sort_keys=True).encode()).hexdigest()
