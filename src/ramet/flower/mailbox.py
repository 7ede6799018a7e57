"""Messages between two programs on one machine, as files in a folder."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ramet.disk import syncing
from ramet.engine.store.checkpoint import DamagedError, Snapshot, Snapshots
from ramet.errors import RametError
from ramet.payload import Payload

_ERROR = "error"
_PAUSE = 0.05


@dataclass(frozen=True)
class Mailbox:
    """A folder with the requests of one program and the replies of another."""

    folder: Path

    def ask(self, request: Payload, seconds: float) -> Payload:
        """Leave a request, and wait for the reply."""
        name = uuid.uuid4().hex
        asked, answered = self._requests / name, self._replies / name
        _write(asked, request)
        end = time.monotonic() + seconds
        try:
            while (reply := _read(answered)) is None:
                if time.monotonic() > end:
                    raise RametError(f"nobody answered in {self.folder} for {seconds:.0f} s.")
                time.sleep(_PAUSE)
        finally:
            shutil.rmtree(asked, ignore_errors=True)
            shutil.rmtree(answered, ignore_errors=True)
        if _ERROR in reply.notes:
            raise RametError(reply.notes[_ERROR])
        return reply

    def requests(self) -> Iterator[tuple[str, Payload]]:
        """The requests that have not been answered, each with its name."""
        for folder in sorted(self._requests.glob("*")):
            request = None if (self._replies / folder.name).exists() else _read(folder)
            if request is not None:
                yield folder.name, request

    def reply(self, name: str, reply: Payload | RametError) -> None:
        """Answer a request, or tell why it cannot be answered."""
        if isinstance(reply, RametError):
            reply = Payload(notes={_ERROR: str(reply)})
        with suppress(FileNotFoundError):  # whoever asked has stopped waiting
            _write(self._replies / name, reply)

    @property
    def _requests(self) -> Path:
        return self.folder / "requests"

    @property
    def _replies(self) -> Path:
        return self.folder / "replies"


def _write(folder: Path, message: Payload) -> None:
    facts = {"numbers": dict(message.numbers), "notes": dict(message.notes)}
    with syncing(False):
        Snapshots(folder).save(Snapshot(0, message.arrays, facts))


def _read(folder: Path) -> Payload | None:
    """The message in a folder; None if it is not there, or was taken away."""
    if not Snapshots(folder).steps():
        return None
    try:
        saved = Snapshots(folder).load(0)
    except DamagedError:
        if not folder.exists():  # taken away in the meantime
            return None
        raise
    return Payload(saved.arrays, saved.facts["numbers"], saved.facts["notes"])
