"""Messages as files, for a site where no program may connect, listen or wait.

On the coordinator's grid, such a site is a folder: each request is a file there, and so is each
reply. The files have Flower's messages, signed and checked like all others. The run config, which a
SuperLink hands to sites itself, is a signed note of each request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from logging import ERROR
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import log

from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.flower.patches.message_files import from_bytes, to_bytes
from ramet.flower.records import DECODING_ERRORS, from_records
from ramet.flower.terms import FILES

REQUESTS, REPLIES = "requests", "replies"
RUN_CONFIG = "run config"
"""The note with the run config as JSON."""
_RAISED = 2
"""Flower's code of an app that raised an error."""
_YEAR = 365 * 24 * 3600.0


class Carrier(Protocol):
    """The part of Flower's grid that is used."""

    def get_node_ids(self) -> Iterable[int]: ...

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]: ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]: ...


def folders_of(keys: Path) -> dict[int, Path]:
    """The folders of the sites that exchange files, by Flower's node id."""
    return {
        int(file.with_suffix(".node").read_text()): Path(file.read_text().strip())
        for file in sorted(keys.glob(f"*{FILES}"))
        if file.with_suffix(".node").exists()
    }


@dataclass(frozen=True)
class FileDrop:
    """A grid on which some nodes are folders."""

    grid: Carrier
    folders: Mapping[int, Path]
    _sent: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in self.folders.values():  # what an earlier process has left is asked again
            for kind in (REQUESTS, REPLIES):
                (folder / kind).mkdir(parents=True, exist_ok=True)
                _remove(*(folder / kind).iterdir())

    def get_node_ids(self) -> Iterable[int]:
        return {*self.grid.get_node_ids(), *self.folders}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._pushed(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterator[Message]:
        for sent in message_ids:
            if sent not in self._sent:
                yield from self.grid.pull_messages([sent])
            elif (reply := self._sent[sent] / REPLIES / sent).exists():
                content = reply.read_bytes()
                _remove(reply, self._sent.pop(sent) / REQUESTS / sent)
                yield from_bytes(content)

    def _pushed(self, message: Message) -> str:
        folder = self.folders.get(message.metadata.dst_node_id)
        if folder is None:
            (sent,) = self.grid.push_messages([message])
            return sent
        sent = uuid4().hex
        if message.metadata.message_type == MessageType.QUERY:  # asked again, until it answers
            _remove(*(folder / REQUESTS).iterdir())
        message.metadata.ttl = _YEAR
        self._sent[sent] = folder
        _write(folder / REQUESTS / sent, message)
        return sent


def answer_files(app: ClientApp, folder: Path, node_config: Mapping[str, str]) -> Iterator[str]:
    """Answer each request in the folder that has no reply yet, and yield what was done."""
    requests = [path for path in (folder / REQUESTS).glob("*") if path.suffix == ""]
    for path in sorted(requests, key=lambda path: path.stat().st_mtime_ns):
        reply = folder / REPLIES / path.name
        if reply.exists():
            continue
        try:
            message = from_bytes(path.read_bytes())
            notes = from_records(message.content).notes
            run_config: dict[str, Any] = json.loads(notes[RUN_CONFIG])
        except (RametError, *DECODING_ERRORS) as error:
            yield f"{path.name}: not a message ({error})"
            continue
        context = Context(
            run_id=message.metadata.run_id,
            node_id=message.metadata.dst_node_id,
            node_config={**node_config},
            state=RecordDict(),
            run_config=run_config,
        )
        answer = _answered(app, message, context)
        reply.parent.mkdir(parents=True, exist_ok=True)
        _write(reply, answer)
        yield f"{path.name}: {answer.error.reason if answer.has_error() else 'answered'}"


def _answered(app: ClientApp, message: Message, context: Context) -> Message:
    """The app's reply, or, as over a SuperLink, the error that it raised."""
    try:
        return app(message, context)
    except Exception as error:  # noqa: BLE001 (logged, and told to the coordinator)
        log(ERROR, "This site could not answer a message.", exc_info=error)
        reason = f"{type(error)}:<'{error}'>"
        return Message(Error(code=_RAISED, reason=reason), reply_to=message)


def _write(path: Path, message: Message) -> None:
    write_atomically(path, to_bytes(message))


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
