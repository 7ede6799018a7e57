"""The places in Flower's source whose waits are shortened; a new release may have moved them."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

from ramet.flower.patches.waits import (
    REPLY_INTERVAL,
    find_replies_quickly,
    pull_app_objects_quickly,
    pull_node_objects_quickly,
    pull_server_objects_quickly,
)

SUPERNODE = "flwr.supernode.start_client_internal"
PULLS = [
    (pull_node_objects_quickly, SUPERNODE, "pull_objects"),
    (pull_server_objects_quickly, "flwr.superlink.grid.http_grid", "pull_objects"),
    (
        pull_app_objects_quickly,
        "flwr.supernode.runtime.run_clientapp",
        "pull_and_inflate_object_from_tree",
    ),
]


@pytest.mark.parametrize(("patch", "module", "function"), PULLS)
def test_objects_that_are_announced_are_pulled_again_soon(
    patch: Callable[[], None], module: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flower = import_module(module)
    monkeypatch.setattr(flower, function, getattr(flower, function))  # restored after the test
    assert f"{function}(" in inspect.getsource(flower)
    parameters = inspect.signature(getattr(flower, function)).parameters
    patch()
    assert getattr(flower, function).keywords.keys() <= parameters.keys()


def test_the_second_attempt_comes_within_a_fraction_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flower = import_module(SUPERNODE)
    monkeypatch.setattr(flower, "pull_objects", flower.pull_objects)
    pull_node_objects_quickly()
    waits: list[float] = []

    class Recording(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is not None:
                waits.append(timeout)
            return super().wait(timeout)

    monkeypatch.setattr(threading, "Event", Recording)

    def available_at_the_third(object_id: str) -> bytes:
        if len(waits) < 2:
            raise ObjectUnavailableError(object_id)
        return b"content"

    pull: Callable[..., dict[str, bytes]] = flower.pull_objects
    assert pull(["a"], pull_object_fn=available_at_the_third) == {"a": b"content"}
    assert waits == pytest.approx([0.05, 0.1], rel=0.21)  # Flower waits 1 s and 2 s, +-20%


def test_the_supernode_finds_its_apps_reply_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    flower: Any = import_module(SUPERNODE)
    monkeypatch.setattr(flower, "time", time)
    assert "time.sleep(0.5)" in inspect.getsource(flower._push_messages)
    find_replies_quickly()
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for seconds in (0.5, 0.5, 3.0):
        flower.time.sleep(seconds)
    assert slept == [REPLY_INTERVAL, REPLY_INTERVAL, 3.0]
    assert REPLY_INTERVAL < 0.1
    assert "time.monotonic" not in inspect.getsource(flower), "only sleep is replaced"
