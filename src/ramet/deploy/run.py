"""Submit a run with all sites at the coordinator, and wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging import INFO
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel

from ramet.deploy.consortium import read, write
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.party import Say
from ramet.deploy.registration import absent_sites
from ramet.engine.server.journal import Observer
from ramet.errors import RametError
from ramet.events import events_written_to, log_event, outcome_logged
from ramet.experiment import RunFolder, RunSettings
from ramet.experiment.capabilities import chosen_by
from ramet.experiment.compatibility import check_together
from ramet.experiment.continuing import continue_with
from ramet.experiment.files import read_json
from ramet.experiment.start_from import Source
from ramet.experiment.superseded import warn_if_superseded
from ramet.flower.launch import reporter
from ramet.flower.new_rows import ANSWERS
from ramet.flower.programs import Flower
from ramet.flower.releases import TOLD
from ramet.flower.run_config import to_run_config
from ramet.flower.submission import Submission
from ramet.flower.thin_app import ACCEPTED_RUN, NEW_ROWS, thin_app
from ramet.flower.wire import CONNECT_TIMEOUT
from ramet.metrics import Record


def run_consortium(
    party: Coordinator,
    path: Path,
    data: Path,
    patience: float,
    observe: Observer,
    say: Say,
    start_from: Path | None = None,
    gate: str = "",
) -> RunFolder:
    """Run the consortium's method, or resume the run in `path`, and wait until it ends.

    A new run starts with the models of the finished one in `start_from`, if it is given. With a
    `gate`, as in the run config, sites are told in the end if it is accepted.

    The server app creates the folder once the sites have described their data. Every reply must be
    signed by the key with which the site was admitted. Gives up if no round ends for `patience`
    seconds. A run that outlived an earlier command is waited for, not submitted again, and no other
    run is started meanwhile.
    """
    begun, consortium = RunFolder(path).started, party.consortium
    party.check_admitted(consortium.needed if begun else consortium.needed_to_begin)
    if absent := absent_sites(party.site_statuses()):
        say(f"{absent}; the run waits up to {CONNECT_TIMEOUT:.0f} s for them")
    settings = party.consortium.settings(data)
    folder, source, label = RunFolder(path.absolute()), None, None
    if folder.started:
        label = folder.experiment().settings.start_from
        continue_with(folder, settings.model_copy(update={"start_from": label}))
    elif start_from is not None:
        source = Source.open(start_from)
        warn_if_superseded(source.folder.path)
        label = source.label_for_sites
    settings = settings.model_copy(update={"start_from": label})
    check_together(chosen_by(settings))
    config = {**to_run_config(settings, folder.path), "keys": str(party.admitted)}
    config["gate"] = gate
    if source is not None:
        config["from-folder"] = str(source.folder.path)
    submission = _submission(party, folder.path)
    ended = outcome_logged("submission ended", "submission failed", "submission stopped")
    with _only_run(party, folder.path), events_written_to(party.events), ended:
        log_event(INFO, "run submitted", folder=str(folder.path))
        say(f"run submitted; folder: {folder.path}")
        try:
            submission.run(
                app=thin_app(),
                config=config,
                simulated_clients=0,
                on_poll=_Watch(folder, observe, patience),
                superlink_restarts=True,
            )
        except BaseException:
            if run_id := submission.run_id():
                # If the run has ended or the SuperLink is down, the reason is raised below.
                with suppress(RametError):
                    submission.flower.flwr("stop", run_id)
            raise
    return folder


def tell_sites(party: Coordinator, folder: RunFolder, sites: Sequence[str]) -> dict[str, str]:
    """Tell sites which run counts."""
    settings = folder.experiment().public_settings()
    return _exchange(party, settings, ACCEPTED_RUN, folder, sites, TOLD)


def ask_for_new_rows(
    party: Coordinator, folder: RunFolder, data: Path, sites: Sequence[str]
) -> dict[str, str]:
    """Ask sites whether they have rows that the run which counts had not: yes, no, or a reason."""
    settings = party.consortium.settings(data)
    return _exchange(party, settings, NEW_ROWS, folder, sites, ANSWERS)


def _exchange(
    party: Coordinator,
    settings: RunSettings,
    key: str,
    folder: RunFolder,
    sites: Sequence[str],
    answers: str,
) -> dict[str, str]:
    """Tell or ask sites something about a run; their answers are in a file in its folder."""
    config = {**to_run_config(settings, folder.path), "keys": str(party.admitted)}
    config[key] = " ".join((folder.run_name, *sites))
    (folder.path / answers).unlink(missing_ok=True)
    path = party.folder / "logs" / "release"
    with _only_run(party, path):
        submission = _submission(party, path)
        submission.run(thin_app(), config, 0, on_poll=lambda: None, superlink_restarts=True)
    return _read_answers(folder.path / answers)


def sites_told(folder: RunFolder) -> dict[str, str]:
    """The sites that were told that this run counts, each with why it does not use it, if so."""
    return _read_answers(folder.path / TOLD)


def _read_answers(path: Path) -> dict[str, str]:
    return read_json(path) if path.exists() else {}


class _Submission(BaseModel):
    """The run that was submitted last; its file is removed when the run has ended."""

    folder: Path
    started: str

    @property
    def sentence(self) -> str:
        return f"a run is in progress in {self.folder}, started {self.started}."


@contextmanager
def _only_run(party: Coordinator, path: Path) -> Iterator[None]:
    """Refuse to go on while another command runs here, or a run whose command was killed.

    The system releases the lock of a command that was killed, but its run goes on, so the
    SuperLink is asked as well.
    """
    note = party.folder / "submission.toml"
    lock = FileLock(party.folder / ".run.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        what = read(note, _Submission).sentence if note.exists() else "a run is being submitted."
        raise RametError(
            f"{what} Follow it with `ramet deploy status {party.folder} --watch`."
        ) from error
    try:
        last = read(note, _Submission) if note.exists() else None
        if last and last.folder != path and _submission(party, last.folder).in_progress():
            raise RametError(
                f"{last.sentence} Its command has ended. Follow it with `ramet deploy run "
                f"{party.folder} --out {last.folder}`, where Ctrl-C stops it."
            )
        if not last or last.folder != path:
            _note(note, path)
        yield
        note.unlink()
    finally:
        lock.release()


def _note(note: Path, path: Path) -> None:
    """Store what was submitted."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    write(note, _Submission(folder=path, started=started))


def _submission(party: Coordinator, path: Path) -> Submission:
    """The run in `path`, which has a folder of logs of its own."""
    logs = party.folder / "logs" / "-".join(path.parts[1:])
    return Submission(Flower(party.flower.home, logs))


class _Watch:
    """Reports the run's rounds, and raises an error if none ends for too long."""

    def __init__(self, folder: RunFolder, observe: Observer, patience: float) -> None:
        self._observe = observe
        self._patience = patience
        self._last_round = time.monotonic()
        self._report = reporter(folder, self._on_round)

    def __call__(self) -> None:
        self._report()
        if time.monotonic() - self._last_round > self._patience:
            raise RametError(
                f"no round ended for {self._patience:.0f} s. Check `ramet deploy status`, then "
                "rerun the same command to continue, or wait longer with --deadline."
            )

    def _on_round(self, record: Record) -> None:
        self._last_round = time.monotonic()
        self._observe(record)
