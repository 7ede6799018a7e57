"""Verified runs in one process, whose server may lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ramet.engine.chain import FILE
from ramet.engine.chain_audit import COORDINATOR, Copy, read_copy
from ramet.engine.server.wire import Answer, Wire
from ramet.engine.site.site_chain import FOLDER
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.chain_parts import read_charter
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_wire
from ramet.payload import Payload
from ramet.runs import given_experiment

Lie: TypeAlias = Callable[[str, Payload], Payload]
"""Changes a message to a client."""


def created(folder: Path, method: str = "fedavg", **options: Any) -> RunFolder:
    given = {"rounds": 3, "verified": True, **options}
    of_setting = {"clients": str(given.pop("clients"))} if "clients" in given else {}
    setting = given.pop("setting", "tiny")
    return RunFolder.create(folder, given_experiment(method, setting, of_setting, given))


@dataclass
class LyingWire:
    """Carries messages as a lying coordinator sends them, and keeps what was sent."""

    inner: Wire
    lie: Lie = field(default=lambda _, message: message)
    away: Callable[[str, Payload], bool] = field(default=lambda _, message: False)
    sent: list[tuple[str, Payload]] = field(default_factory=list)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            told = self.lie(client, message)
            self.sent.append((client, told))
            if self.away(client, message):
                yield client, "is away"
                continue
            try:
                yield from self.inner.exchange([(client, told)])
            except RametError as error:
                yield client, str(error)


def executed(folder: RunFolder, **how: Any) -> LyingWire:
    wire = LyingWire(local_wire(folder), **how)
    execute(folder, wire, lambda _: None)
    return wire


def copies(folder: RunFolder) -> list[Copy]:
    """The chain at the coordinator and at all sites."""
    signed = read_charter(folder.path)
    own = read_copy(COORDINATOR, folder.path / "server" / FILE, signed)
    sites = folder.experiment().clients
    return [own, *(read_copy(s, folder.clients / s / FOLDER / FILE, signed) for s in sites)]
