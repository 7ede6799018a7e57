"""The places in Flower's source whose waits are shortened; a new release may have moved them."""

from __future__ import annotations

import inspect
import threading
import time
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

from ramet.errors import RametError
from ramet.flower.waits import REPLY_INTERVAL, find_replies_quickly, pull_objects_quickly

SUPERNODE = "flwr.supernode.start_client_internal"
PULLS = [
    (SUPERNODE, "pull_objects"),
    ("flwr.superlink.grid.http_grid", "pull_objects"),
    ("flwr.supernode.runtime.run_clientapp", "pull_and_inflate_object_from_tree"),
]


@pytest.mark.parametrize(("module", "function"), PULLS)
def test_objects_that_are_announced_are_pulled_again_soon(
    module: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flower = import_module(module)
    monkeypatch.setattr(flower, function, getattr(flower, function))  # restored after the test
    assert f"{function}(" in inspect.getsource(flower)
    parameters = inspect.signature(getattr(flower, function)).parameters
    pull_objects_quickly(module, function)
    assert getattr(flower, function).keywords.keys() <= parameters.keys()


def test_the_second_attempt_comes_within_a_fraction_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flower = import_module(SUPERNODE)
    monkeypatch.setattr(flower, "pull_objects", flower.pull_objects)
    pull_objects_quickly(SUPERNODE, "pull_objects")
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


def test_a_release_of_flower_that_moved_them_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RametError, match="has no pull_all"):
        pull_objects_quickly(SUPERNODE, "pull_all")
    monkeypatch.setattr(import_module(SUPERNODE), "time", types.SimpleNamespace())
    with pytest.raises(RametError, match="has no time"):
        find_replies_quickly()
