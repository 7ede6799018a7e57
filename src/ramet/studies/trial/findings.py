"""What `ramet try` found, in words: where two runs differ, and which line of code failed."""

from __future__ import annotations

import re
import traceback
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ramet.engine.site.audit import audit_entries
from ramet.engine.site.kept_models import FINAL, FINAL_MODEL
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.events import NAME as EVENTS
from ramet.events import read_lines
from ramet.experiment import RunFolder
from ramet.experiment.code import user_files
from ramet.metrics.summary import traffic
from ramet.payload import Arrays, Payload, Sharing, everything
from ramet.rules.method import AssembledMethod
from ramet.studies.trial.wires import WatchedWire

_NUMBERS = ("loss", "weight")
_FRAME = re.compile(r'  File "([^"]+)", line (\d+)')
_TRACEBACK = re.compile(r"(?P<frames>(?:^ .*\n)*^  File .*\n(?:^ .*\n)*)^(?P<error>\S.*)", re.M)
"""The frames of a traceback, which are indented, and the error below them."""
Found: TypeAlias = dict[tuple[int, str, str], Any]
"""Hashes of tensors, and numbers, by round, client and what it is."""


def error_in_words(error: Exception, files: Collection[Path]) -> str:
    """The message of an error; if it is not Ramet's, also its type and the line in these files."""
    if isinstance(error, RametError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    places = [(frame.filename, str(frame.lineno)) for frame in frames]
    words = " ".join(str(error).split())  # some messages have several lines
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return f"{text} ({_innermost(places, files)})."


def reason_of_failure(path: Path) -> str | None:
    """Why a run over Flower failed, from its event log."""
    failed = [line for line in read_lines(path / EVENTS) if line["event"] == "run failed"]
    return _without_traceback(failed[-1]["reason"], RunFolder(path)) if failed else None


def _without_traceback(reason: str, run: RunFolder) -> str:
    """The reason for a missing reply; of a traceback, which Ray quotes, the error and its line."""
    quoted = _TRACEBACK.search(reason)
    if quoted is None:
        return reason
    files = user_files(run.experiment().settings).values()
    return f"{quoted['error']} ({_innermost(_FRAME.findall(quoted['frames']), files)})."


def _innermost(places: Sequence[tuple[str, str]], files: Collection[Path]) -> str:
    """The last of these files and lines that is in the user's files, or the last of all."""
    file, line = ([place for place in places if Path(place[0]) in files] or places)[-1]
    return f"{Path(file).name}, line {line}"


def undeclared(method: AssembledMethod, run: RunFolder, wire: WatchedWire) -> str | None:
    """Arrays that crossed the wire without a declaration, as a sentence; None if there are none."""
    released = _released_names(method, run)
    up = [
        name
        for name in sorted({*_sent(run)})
        if name not in released and not _declared(name, method.shared, method.up)
    ]
    down = [n for n in sorted(wire.received) if not _declared(n, method.shared, method.down)]
    if not up and not down:
        return None
    return (
        f"Not declared in `shared`, `up` or `down`: sent {_listed(up)}; received {_listed(down)}."
    )


def declaration(method: AssembledMethod, run: RunFolder, wire: WatchedWire) -> str:
    """What the method shares, and how many bytes that is, as a phrase."""
    client, counted = run.experiment().clients[0], traffic(run.records())
    names = Snapshots(run.clients / client / FINAL).load(FINAL_MODEL).arrays
    shared, omitted = len(method.shared.pick(names)), len(wire.omitted)
    limits = [f"{way} {rule}" for way, rule in _ways(method).items() if rule != everything]
    start = run.experiment().sizes.start_extras()
    extras = [name for arrays in start.values() for name in arrays]
    further = f"; extras: {len(extras)}" if extras else ""
    return (
        f"shares {', of which '.join([str(method.shared), *limits])}; of {len(names)} arrays "
        f"{shared} are shared and {len(names) - shared} private; clients did not have to send "
        f"{omitted} of {omitted + len(_sent(run))}{further}; "
        f"{counted.up_per_client_round:,.0f} bytes up and "
        f"{counted.down_per_client_round:,.0f} down per client and round"
    )


def _sent(run: RunFolder) -> list[str]:
    """The name of every parameter or buffer that left a client, from the audit logs."""
    return [t.name for e in audit_entries(run.clients)[0] for t in e.tensors if not t.extra]


def _released_names(method: AssembledMethod, run: RunFolder) -> set[str]:
    """The names under which arrays leave a site through the method's releases."""
    start = run.experiment().sizes.shared_start()
    reply = Payload(start)
    for release in method.release:
        reply = release.form(reply, start)
    return {*reply.arrays} if method.release else set()


def _ways(method: AssembledMethod) -> dict[str, Sharing]:
    return {"clients send": method.up, "clients receive": method.down}


def _declared(name: str, *rules: Sharing) -> bool:
    return all(name in rule for rule in rules)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def difference(run: RunFolder, reference: RunFolder) -> str:
    """Where two runs with different results differ first, as a sentence."""
    return (
        _missing_reply(run, reference)
        or _reply_difference(run, reference)
        or f"All replies are equal, but {_state_difference(run, reference)} at the end."
    )


def _missing_reply(run: RunFolder, reference: RunFolder) -> str | None:
    """A client that has replied in the reference but not in the run, and why."""
    for record, expected in zip(run.records(), reference.records(), strict=False):
        for client, reason in record.failed.items():
            if client not in expected.failed:
                why = _without_traceback(reason, run).removesuffix(".")
                return f"{client} gave no valid reply in round {record.round}: {why}."
    return None


def _reply_difference(run: RunFolder, reference: RunFolder) -> str | None:
    ours, theirs = _found(run), _found(reference)
    clients = reference.experiment().clients
    in_order = sorted({**theirs, **ours}, key=lambda key: (key[0], clients.index(key[1])))
    for round_number, client, what in in_order:
        key = (round_number, client, what)
        if ours.get(key) != theirs.get(key):
            return f"The first difference is {what} of {client} in round {round_number}."
    return None


def _found(run: RunFolder) -> Found:
    """Everything that is known of the replies; of a repeated round, what was sent last."""
    tensors = {
        (entry.round, entry.client, f"the tensor '{tensor.label}'"): tensor.sha256
        for entry in audit_entries(run.clients)[0]
        for tensor in entry.tensors
    }
    numbers = {
        (record.round, client, f"the {name}"): trained[name]
        for record in run.records()
        for client, trained in record.trained.items()
        for name in _NUMBERS
    }
    return {**tensors, **numbers}


def _state_difference(run: RunFolder, reference: RunFolder) -> str:
    server = _first_changed(run.path / "server", reference.path / "server")
    if server:
        return f"the server's '{server}' differs"
    for client in reference.experiment().clients:
        private = _first_changed(run.clients / client, reference.clients / client)
        if private:
            return f"the private '{private}' of {client} differs"
    return "the SHA-256 differs"


def _first_changed(folder: Path, other: Path) -> str | None:
    """The first array of the last snapshots in two folders that is not equal."""
    ours, theirs = _last_arrays(folder), _last_arrays(other)
    return next((name for name in _names(theirs, ours) if not _same(name, ours, theirs)), None)


def _names(*several: Arrays) -> Iterable[str]:
    return dict.fromkeys(name for arrays in several for name in arrays)


def _same(name: str, ours: Arrays, theirs: Arrays) -> bool:
    return name in ours and name in theirs and ours[name].tobytes() == theirs[name].tobytes()


def _last_arrays(folder: Path) -> Arrays:
    last = Snapshots(folder).latest_valid()
    return last.arrays if last else {}
