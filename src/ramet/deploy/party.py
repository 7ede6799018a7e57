"""What the coordinator's and the sites' folders have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ramet.deploy.compose import compose_text
from ramet.deploy.logrotate import logrotate_text
from ramet.deploy.services import Service
from ramet.deploy.systemd import timer_text, unit_text
from ramet.disk import remove_file, write_atomically
from ramet.errors import RametError
from ramet.events import NAME
from ramet.flower.programs import Flower

Say = Callable[[str], None]
"""Prints a line of progress."""


@dataclass(frozen=True)
class Party(ABC):
    """The coordinator or a site: a folder with keys, settings, scripts, logs and state."""

    folder: Path

    @property
    def flower(self) -> Flower:
        return Flower(self.folder / "flower", self.folder / "logs")

    @property
    def events(self) -> Path:
        """The event log of this party, with one JSON object per line."""
        return self.folder / "logs" / NAME

    @property
    @abstractmethod
    def member(self) -> str:
        """The name of the consortium and, for a site, of the site."""

    @abstractmethod
    def services(self) -> Sequence[Service]:
        """The services, in the order in which they start."""

    def timed(self) -> Sequence[Service]:
        """Programs that a timer starts every day."""
        return ()

    @property
    def rotates_events(self) -> bool:
        """Whether the event log grows with every message."""
        return False

    @property
    def was_started(self) -> bool:
        """Whether `ramet deploy start` has started the programs, and nothing has stopped them."""
        return any(service.should_run for service in self.services())

    def volumes(self) -> Sequence[Path]:
        """Paths to mount read-only in containers, in addition to the folder."""
        return ()

    def stop(self, say: Say) -> None:
        for service in reversed(self.services()):
            say(f"{service.name}: {'stopped' if service.stop() else 'was not running'}")
        self.flower.kill_leftovers()

    def write_scripts(self) -> None:
        """Write the start scripts, systemd units, compose file and logrotate's configuration."""
        services, timed = self.services(), self.timed()
        units: dict[Path, str] = {}
        for service in (*services, *timed):
            write_atomically(service.script, service.script_text(), mode=0o700)
            unit = self.folder / f"ramet-{self.member}-{service.name}.service"
            description = f"{service.description} ({self.member})"
            units[unit] = unit_text(service, description, timed=service in timed)
            if service in timed:
                units[unit.with_suffix(".timer")] = timer_text(description)
        for unit, text in units.items():
            write_atomically(unit, text)
        present = (*self.folder.glob("ramet-*.service"), *self.folder.glob("ramet-*.timer"))
        for outdated in {*present} - units.keys():
            remove_file(outdated)
        write_atomically(self.folder / "compose.yaml", compose_text(services, self.volumes()))
        rotation = logrotate_text(self.folder, services, self.rotates_events)
        write_atomically(self.folder / "logrotate.conf", rotation)


@contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders that only their owner can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can read."""
    check_path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise RametError(
            f"cannot create {folder} ({error.strerror}). Choose another folder."
        ) from error


def check_path(path: Path) -> None:
    """Refuse a path that cannot be part of PATH or stand on one line of a file."""
    if ":" in str(path) or not str(path).isprintable():
        raise RametError(
            f"the path {str(path)!r} contains a colon or a character such as a newline. "
            "Choose another folder."
        )
