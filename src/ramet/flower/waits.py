"""Shorter waits in Flower's programs, so that a round is not spent on them.

Flower pulls an object that has been announced but not sent a second later, and its SuperNode looks
for the app's reply every half second. These waits are constants in Flower's source, so they are
replaced in its modules. If a new release of Flower has moved one, the program ends with an error.
"""

from __future__ import annotations

import importlib
import time
from functools import partial
from types import ModuleType
from typing import Any

from ramet.errors import RametError

REPLY_INTERVAL = 0.05
"""Seconds between two looks for the app's reply, in the memory of the SuperNode."""
_PULLING = {"initial_backoff": 0.05, "backoff_cap": 0.5, "max_tries_per_object": 15_000}
"""Seconds until an object is pulled again, which double, and a limit of about two hours in all."""


def pull_objects_quickly(module: str, function: str) -> None:
    """Set the waits of Flower's `function` that pulls objects, as `module` calls it."""
    flower = importlib.import_module(module)
    setattr(flower, function, partial(_part(flower, function), **_PULLING))


def find_replies_quickly(module: str = "flwr.supernode.start_client_internal") -> None:
    """Make the SuperNode look for its app's reply more often."""
    flower = importlib.import_module(module)
    if _part(flower, "time") is not time:
        raise _moved(flower, "time")
    flower.time = _ShortSleep()  # type: ignore[attr-defined]


class _ShortSleep:
    """Stands in for the module `time` where only its `sleep` is used."""

    @staticmethod
    def sleep(seconds: float) -> None:
        """Sleep; waits of up to a second are for what happens in this process."""
        time.sleep(REPLY_INTERVAL if seconds <= 1.0 else seconds)


def _part(flower: ModuleType, name: str) -> Any:
    try:
        return getattr(flower, name)
    except AttributeError as error:
        raise _moved(flower, name) from error


def _moved(flower: ModuleType, name: str) -> RametError:
    return RametError(
        f"{flower.__name__} has no {name} that Ramet knows. Install the version of Flower that "
        "Ramet needs."
    )
