"""The server's memory does not grow with the number of replies, and only active clients train."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ramet.engine.server.rounds import Rounds
from ramet.engine.server.wire import Answer
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import fedavg
from ramet.payload import Payload
from ramet.rules.activation import Everyone, RandomClients
from ramet.rules.method import AssembledMethod, assembled

SCALARS = 200_000


class FakeClients:
    """Clients that reply with arrays of the size of a real model; only the server is tested."""

    def __init__(self) -> None:
        self.requests = 0

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            self.requests += 1
            arrays = {"layers.w": np.full(SCALARS, len(client), np.float32)}
            numbers = {"weight": 10, "loss": 1.0, "up": 4 * SCALARS, "val": 0.5, "test": 0.5}
            train = message.numbers["train"]
            yield client, Payload(arrays if train else {}, numbers, {"private": client})


def peak_memory(method: AssembledMethod, clients: int, folder: Path) -> tuple[int, FakeClients]:
    names = [f"client-{number:05d}" for number in range(clients)]
    start = {"layers.w": np.zeros(SCALARS, np.float32)}
    rounds = Rounds(method, names, 2, 0, start, Snapshots(folder))
    wire = FakeClients()
    tracemalloc.start()
    rounds.run(wire, lambda _: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, wire


def test_replies_are_merged_as_they_arrive(tmp_path: Path) -> None:
    method = assembled(replace(fedavg(), activation=Everyone()))
    few, _ = peak_memory(method, 4, tmp_path / "few")
    many, _ = peak_memory(method, 400, tmp_path / "many")
    assert many < 1.3 * few


@pytest.mark.thorough
def test_ten_thousand_clients_of_which_a_hundred_are_active_per_round(tmp_path: Path) -> None:
    method = assembled(replace(fedavg(), activation=RandomClients(100)))
    hundred, _ = peak_memory(method, 100, tmp_path / "hundred")
    ten_thousand, wire = peak_memory(method, 10_000, tmp_path / "all")
    assert wire.requests == 2 * 100 + 10_000
    assert ten_thousand < hundred + 12_000 * 10_000  # names and scores, not arrays
