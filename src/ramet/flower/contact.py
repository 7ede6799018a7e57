"""A SuperNode's contact with the coordinator, and the end of a process that has lost it."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

_MAX_SILENCE = 90.0
"""Seconds without a call, after which the process ends. Calls are at most 70 s apart."""
_MAX_ABSENCE = 900.0
"""Seconds without an accepted call, after which the process ends in case a restart helps.

Longer than a round waits for replies by default: a restart loses the reply to the last message.
"""


class Contact:
    """When the coordinator was last called, and when it last accepted a call."""

    def __init__(self, heartbeat: Path | None) -> None:
        self._heartbeat = heartbeat
        self._called = self._accepted = time.monotonic()

    def begin(self) -> None:
        """Create the file with time 0: no heartbeat was accepted yet."""
        if self._heartbeat:
            self._heartbeat.touch()
            os.utime(self._heartbeat, (0, 0))

    def call(self) -> None:
        self._called = time.monotonic()

    def accept(self) -> None:
        self._accepted = time.monotonic()
        if self._heartbeat:
            self._heartbeat.touch()

    def end(self) -> None:
        """Remove the file."""
        if self._heartbeat:
            self._heartbeat.unlink(missing_ok=True)

    def problem(self) -> str:
        """Why the process must restart, if it must."""
        now = time.monotonic()
        if now - self._called > _MAX_SILENCE:
            return f"this SuperNode has not called the coordinator for {_MAX_SILENCE:.0f} s"
        if now - self._accepted > _MAX_ABSENCE:
            return f"the coordinator has not accepted a call for {_MAX_ABSENCE:.0f} s"
        return ""


def end_on_problem(contact: Contact, interval: float = 1.0) -> None:
    """End the process when the contact has a problem."""
    while not (problem := contact.problem()):
        time.sleep(interval)
    logging.getLogger("flwr").error("%s; this process ends", problem)
    os._exit(1)
