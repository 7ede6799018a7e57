"""A round below its quorum is retried, and is not committed if retries fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.start import start_shared
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.events import events_written_to, read_lines
from ramet.experiment import checked_settings, default_data
from ramet.methods import fedstar
from ramet.metrics import Record
from ramet.payload import Payload
from ramet.rules.method import assembled

CLIENTS = ("rings", "trees", "blocks")


@dataclass
class UnreliableWire(LocalWire):
    """Clients do not answer the nth request, as listed in ``away``."""

    away: dict[str, set[int]] = field(default_factory=dict)
    requests_to: dict[str, int] = field(default_factory=dict)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, reply in super().exchange(requests):
            self.requests_to[client] = self.requests_to.get(client, 0) + 1
            is_away = self.requests_to[client] in self.away.get(client, ())
            yield client, ("is away" if is_away else reply)


@pytest.fixture
def run(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> Callable[..., tuple[str, list[Record]]]:
    def execute(
        folder: str, quorum: int, retry_delays: tuple[float, ...], away: dict[str, set[int]]
    ) -> tuple[str, list[Record]]:
        def node(client: str) -> Client:
            original = tiny_client(client, fedstar())
            return replace(original, snapshots=Snapshots(tmp_path / folder / client))

        method = assembled(fedstar())
        rounds = Rounds(
            method=method,
            clients=CLIENTS,
            rounds=2,
            seed=0,
            start=start_shared(method, method.task.shape(node("rings").samples), 0),
            snapshots=Snapshots(tmp_path / folder / "server"),
            quorum=quorum,
            retry_delays=retry_delays,
        )
        records: list[Record] = []
        return rounds.run(UnreliableWire(node, away), records.append), records

    return execute


def test_missing_clients_are_asked_again_and_nothing_is_lost(
    run: Callable[..., tuple[str, list[Record]]],
) -> None:
    expected, _ = run("complete", 3, (), {})
    sha256, records = run("unreliable", 3, (0.0, 0.0), {"trees": {1, 2}, "blocks": {1, 3}})
    assert sha256 == expected
    assert [(record.retries, record.failed) for record in records] == [(2, {}), (1, {})]
    first, again = records[0].trained["rings"], records[1].trained["trees"]
    assert first["weight"] > 0
    assert again["weight"] > 0


def test_missing_replies_and_retries_are_logged(
    run: Callable[..., tuple[str, list[Record]]], tmp_path: Path
) -> None:
    with events_written_to(tmp_path / "events.jsonl"):
        run("r", 3, (0.0, 0.0), {"trees": {1}, "blocks": {1}})
    events = read_lines(tmp_path / "events.jsonl")[1:5]
    assert [(event["event"], event.get("client")) for event in events] == [
        ("no reply", "trees"),
        ("no reply", "blocks"),
        ("asked again", None),
        ("round committed", None),
    ]
    assert events[0]["reason"] == "is away"
    assert events[2]["clients"] == ["trees", "blocks"]
    assert events[3]["answered"] == ["blocks", "rings", "trees"]


def test_with_a_quorum_the_round_continues_at_once_and_records_missing_clients(
    run: Callable[..., tuple[str, list[Record]]],
) -> None:
    _, records = run("r", 2, (0.0, 0.0), {"trees": {1}})
    assert records[0].failed == {"trees": "is away"}
    assert records[0].retries == 0
    assert sorted(records[0].trained) == ["blocks", "rings"]


def test_below_the_quorum_nothing_is_committed(
    run: Callable[..., tuple[str, list[Record]]], tmp_path: Path
) -> None:
    away = {"trees": {2, 3, 4}, "blocks": {2, 3, 4}}
    with pytest.raises(
        RametError, match=r"1 of 3 clients.*exchange 2, below the quorum of 2.*tree"
    ):
        run("r", 2, (0.0, 0.0), away)
    assert Snapshots(tmp_path / "r" / "server").steps() == [1]
    resumed, _ = run("r", 2, (0.0, 0.0), {})
    assert resumed == run("complete", 2, (), {})[0]


def test_a_closing_exchange_below_the_quorum_can_be_repeated(
    run: Callable[..., tuple[str, list[Record]]], tmp_path: Path
) -> None:
    """Each client gets a third message after two rounds, the closing one."""
    with pytest.raises(
        RametError,
        match=r"1 of 3 .*the closing exchange, below.*All 2 rounds are committed, but the final",
    ):
        run("r", 2, (), {"trees": {3}, "blocks": {3}})
    assert Snapshots(tmp_path / "r" / "server").steps() == [1, 2]
    resumed, _ = run("r", 2, (), {})
    assert resumed == run("complete", 2, (), {})[0]


def test_a_quorum_larger_than_the_number_of_clients_is_refused() -> None:
    with pytest.raises(RametError, match="a quorum of 4 is larger than the 3 clients of tiny"):
        checked_settings(method="fedstar", setting="tiny", rounds=1, quorum=4, data=default_data())
