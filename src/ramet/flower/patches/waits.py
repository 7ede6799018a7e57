"""Shorter waits in Flower's programs, so that a round is not spent on them.

Flower pulls an object that has been announced but not sent a second later, and its SuperNode looks
for the app's reply every half second. These waits are constants in Flower's source.
"""

from __future__ import annotations

import time
from functools import partial
from importlib import import_module
from typing import Any

REPLY_INTERVAL = 0.05
"""The interval in seconds at which the memory of the SuperNode is polled for the app's reply."""
_PULLING = {"initial_backoff": 0.05, "backoff_cap": 0.5, "max_tries_per_object": 15_000}
"""Seconds until an object is pulled again, which double, and a limit of about two hours in all."""


def pull_node_objects_quickly() -> None:
    _pull_quickly("flwr.supernode.start_client_internal", "pull_objects")


def pull_app_objects_quickly() -> None:
    _pull_quickly("flwr.supernode.runtime.run_clientapp", "pull_and_inflate_object_from_tree")


def pull_server_objects_quickly() -> None:
    _pull_quickly("flwr.superlink.grid.http_grid", "pull_objects")


def _pull_quickly(module: str, function: str) -> None:
    """Set the waits of Flower's `function` that pulls objects, as `module` calls it."""
    flower = import_module(module)
    setattr(flower, function, partial(getattr(flower, function), **_PULLING))


def find_replies_quickly() -> None:
    """Make the SuperNode look for its app's reply more often."""
    flower: Any = import_module("flwr.supernode.start_client_internal")
    flower.time = _ShortSleep()


class _ShortSleep:
    """Stands in for the module `time` where only its `sleep` is used."""

    @staticmethod
    def sleep(seconds: float) -> None:
        """Sleep; waits of up to a second are for what happens in this process."""
        time.sleep(REPLY_INTERVAL if seconds <= 1.0 else seconds)
