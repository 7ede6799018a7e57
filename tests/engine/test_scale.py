"""The server's memory does not grow with the number of clients, nor a round with their number."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ramet.engine import Answer, Rounds, Snapshots
from ramet.methods import fedavg
from ramet.methods.activation import Everyone, RandomClients
from ramet.methods.base import Method
from ramet.payload import Payload

WIDE = 200_000


class Echo:
    """Clients that reply with as many bytes as a real model has; only the server is under test."""

    def __init__(self) -> None:
        self.asked = 0

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, asked in requests:
            self.asked += 1
            arrays = {"layers.w": np.full(WIDE, len(client), np.float32)}
            numbers = {"weight": 10, "loss": 1.0, "up": 4 * WIDE, "val": 0.5, "test": 0.5}
            train = asked.numbers["train"]
            yield client, Payload(arrays if train else {}, numbers, {"private": client})


def peak(method: Method, clients: int, folder: Path) -> tuple[int, Echo]:
    names = [f"client-{number:05d}" for number in range(clients)]
    start = {"layers.w": np.zeros(WIDE, np.float32)}
    rounds = Rounds(method, names, 2, 0, start, Snapshots(folder))
    wire = Echo()
    tracemalloc.start()
    rounds.run(wire, lambda _: None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most, wire


def test_replies_are_merged_as_they_come(tmp_path: Path) -> None:
    method = replace(fedavg(), activation=Everyone())
    few, _ = peak(method, 4, tmp_path / "few")
    many, _ = peak(method, 400, tmp_path / "many")
    assert many < 1.3 * few


def test_ten_thousand_clients_with_a_hundred_a_round(tmp_path: Path) -> None:
    method = replace(fedavg(), activation=RandomClients(100))
    hundred, _ = peak(method, 100, tmp_path / "hundred")
    ten_thousand, wire = peak(method, 10_000, tmp_path / "all")
    assert wire.asked == 2 * 100 + 10_000
    assert ten_thousand < hundred + 12_000 * 10_000  # names and scores, not arrays
