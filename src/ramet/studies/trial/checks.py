"""`ramet try`: check that Ramet's promises hold for a method.

The promises: one SHA-256 in every engine, after a resume, for any order of replies and with many
clients; a missing client does not stop a run; nothing undeclared leaves a site. Each check is one
or two short runs. Where two of them differ, the audit logs tell in which round, client and tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from ramet.computing import check_engine, torch_threads
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, checked_settings
from ramet.experiment.named import setting_factory
from ramet.options import arguments, without_folder
from ramet.run_options import Engine
from ramet.runs import start
from ramet.studies.trial.candidate import Candidate
from ramet.studies.trial.findings import declaration, error_in_words, reason_of_failure, undeclared
from ramet.studies.trial.runs import (
    REFERENCE,
    BrokenPromiseError,
    SkippedError,
    Trial,
    executed,
    live_clients,
    sha256,
)
from ramet.studies.trial.wires import (
    ColdWire,
    LossyWire,
    ReversedWire,
    StoppedError,
    StoppingWire,
)
from ramet.tasks import TaskName

Verdict: TypeAlias = Literal["ok", "failed", "skipped"]
ENGINES: tuple[Engine, ...] = ("local", "ray", "superlink")
MANY = 70
"""More clients than a default setting has."""
_SAME = "the same SHA-256"

_STATE = (
    "The method keeps state outside of what is saved: in a Python object, a module or a random "
    "generator. Keep it in a parameter, a buffer (`register_buffer`) or the optimiser's "
    "`param_groups`, or compute it from `session.randomness.round`."
)
_ANY_STATE = f"{_STATE} Server rules keep it in the Payload that `merge` or `settle` returns."
_ORDER = (
    "The merging rule, or the activation, depends on the order of replies. Sort them by client, or "
    "add them up with `OrderlessSum`."
)
_STOPS = (
    "A client without a reply stops the run. `send` is called for every client, also for one that "
    "never replied, and `merge` receives only the replies that arrived."
)
_PROCESS = (
    "The result depends on the process: the time, hash seeds, the global random state or file "
    "paths. Draw random numbers with `session.randomness`."
)


@dataclass(frozen=True)
class Outcome:
    """The result of one check."""

    check: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Report:
    """The results of the checks of a method."""

    method: str
    setting: str
    options: Mapping[str, str]
    rounds: int
    outcomes: tuple[Outcome, ...]
    unsuited: Mapping[TaskName, str]
    """The tasks that the method does not suit, if it could have been tried on them: the reason."""

    def checks(self, verdict: Verdict) -> list[str]:
        """The names of the checks with this result."""
        return [outcome.check for outcome in self.outcomes if outcome.verdict == verdict]


@dataclass(frozen=True)
class Check:
    """A check: runs a method, and returns what it found or raises an error.

    Args:
        name: shown in the table.
        run: makes the check.
        engine: the engine that it is about; None for checks that are always made.
        on_error: what an error means if the reference run had none.
    """

    name: str
    run: Callable[[Trial], str]
    engine: Engine | None = "local"
    on_error: str = ""


def try_method(
    candidate: Candidate,
    engines: Collection[Engine] = ENGINES,
    checks: Collection[str] | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Report:
    """Check a method in short runs in a temporary folder.

    Args:
        candidate: the method, and the other parts of its runs.
        engines: the engines to check; the reference run is local in any case.
        checks: the names of the checks to make; None for all.
        announce: called with the name of each check before it starts.
    """
    given = candidate.arguments()
    chosen = [check for check in CHECKS if checks is None or check.name in checks]
    with TemporaryDirectory(prefix="ramet-try-") as folder, torch_threads(1):
        trial = Trial(given, Path(folder))
        outcomes = [_outcome(check, trial, engines, announce) for check in chosen]
    return Report(
        method=without_folder(candidate.method),
        setting=without_folder(given["setting"]),
        options=given["options"],
        rounds=candidate.rounds,
        outcomes=tuple(outcomes),
        unsuited=candidate.unsuited,
    )


def _outcome(
    check: Check, trial: Trial, engines: Collection[Engine], announce: Callable[[str], None]
) -> Outcome:
    if check.engine is not None and check.engine not in engines:
        return Outcome(check.name, "skipped", f"the engine {check.engine} was not requested")
    announce(check.name)
    try:
        return Outcome(check.name, "ok", check.run(trial))
    except SkippedError as reason:
        return Outcome(check.name, "skipped", str(reason))
    except BrokenPromiseError as broken:
        return Outcome(check.name, "failed", str(broken))
    except Exception as error:  # noqa: BLE001 - whatever user-defined code raises
        words = error_in_words(error, trial.user_files)
        meaning = f" {check.on_error}" if check.on_error and trial.has_reference else ""
        return Outcome(check.name, "failed", words + meaning)


def _reference(trial: Trial) -> str:
    folder = RunFolder.create(trial.folder / REFERENCE, Experiment(trial.settings))
    clients = live_clients(folder)
    return f"SHA-256 {sha256(executed(folder, clients, clients.write))[:12]}…"


def _cold(trial: Trial) -> str:
    reference, folder = trial.reference, trial.created("cold")
    trial.compare(executed(folder, ColdWire(folder)), reference, _STATE)
    return f"new Python objects for every message: {_SAME}"


def _resumed(trial: Trial) -> str:
    reference, folder, last = trial.reference, trial.created("resumed"), trial.settings.rounds
    clients = live_clients(folder)
    with suppress(StoppedError):
        executed(folder, StoppingWire(clients, last), clients.write)
    again = RunFolder.open(folder.path)
    clients = live_clients(again)
    trial.compare(executed(again, clients, clients.write), reference, _ANY_STATE)
    return f"stopped in round {last} and resumed after round {last - 1}: {_SAME}"


def _reversed(trial: Trial) -> str:
    reference, folder = trial.reference, trial.created("reversed")
    clients = live_clients(folder)
    trial.compare(executed(folder, ReversedWire(clients), clients.write), reference, _ORDER)
    return f"replies in reverse order: {_SAME}"


def _missing(trial: Trial) -> str:
    warm, cold = trial.created("missing"), trial.created("missing-cold")
    clients = live_clients(warm)
    executed(warm, LossyWire(clients), clients.write)
    lost = [f"{client} in round {r.round}" for r in warm.records() for client in r.failed]
    if not lost:
        raise SkippedError("no round asks two clients, so none can be left out")
    trial.compare(executed(cold, LossyWire(ColdWire(cold))), warm, _STATE)
    return f"finished without {' and '.join(lost)}: {_SAME} with new objects"


def _many_clients(trial: Trial) -> str:
    setting = trial.given["setting"]
    if "clients" not in arguments(setting_factory(setting)):
        raise SkippedError(f"{without_folder(setting)} has a fixed number of clients")
    options = {**trial.given["options"], "clients": str(MANY)}
    try:
        settings = checked_settings(**{**trial.given, "options": options})
        warm = trial.created("many", settings)
    except RametError as error:
        raise SkippedError(
            f"{without_folder(setting)} cannot have {MANY} clients: {error}"
        ) from error
    clients = live_clients(warm)
    executed(warm, clients, clients.write)
    cold = trial.created("many-cold", settings)
    trial.compare(executed(cold, ColdWire(cold)), warm, _STATE)
    return f"{MANY} clients: {_SAME} with new objects"


def _in_engine(engine: Engine, trial: Trial) -> str:
    reference, path = trial.reference, trial.new_path(engine)
    settings = trial.settings.model_copy(update={"engine": engine})
    try:
        check_engine(engine)
    except RametError as error:
        raise SkippedError(str(error)) from error
    try:
        start(Experiment(settings), path)
    except RametError as error:
        reason = reason_of_failure(path) or str(error).partition(" See ")[0]
        raise RametError(f"{reason} `{settings.command}` repeats this run with logs.") from error
    trial.compare(RunFolder.open(path), reference, _PROCESS)
    return _SAME


def _declared(trial: Trial) -> str:
    reference, (repeated, wire) = trial.reference, trial.repeated
    method = reference.experiment().method
    found = undeclared(method, repeated, wire)
    if found:
        raise BrokenPromiseError(found)
    return declaration(method, repeated, wire)


CHECKS = (
    Check(REFERENCE, _reference, engine=None),
    Check("cold", _cold, on_error=_STATE),
    Check("resumed", _resumed, on_error=_ANY_STATE),
    Check("reversed", _reversed, on_error=_ORDER),
    Check("missing", _missing, on_error=_STOPS),
    Check("many clients", _many_clients, on_error=_STATE),
    Check("ray", partial(_in_engine, "ray"), engine="ray"),
    Check("superlink", partial(_in_engine, "superlink"), engine="superlink"),
    Check("declared", _declared, engine=None),
)
"""All checks, in the order in which they are made."""
