"""Activation rules, and their effect on messages, merges and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from ramet.engine.messages import request
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.start import start_shared
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.experiment.named import activation_from
from ramet.methods import ACTIVATIONS, METHODS, PAPER_NAMES, fedstar
from ramet.methods.fedda import Explore, Restart
from ramet.metrics import Record
from ramet.payload import Arrays, Payload, digest
from ramet.randomness import Randomness
from ramet.rules.activation import Everyone, RandomClients, RandomTensors
from ramet.rules.method import assembled
from ramet.rules.server import Server

CLIENTS = [f"c{number}" for number in range(50)]
TINY = ("rings", "trees", "blocks")


def choice(clients: Iterable[str] = CLIENTS, names: str = "abcd", number: int = 1) -> Server:
    return Server(list(clients), Randomness(0, "server", number), switchable=list(names))


def test_everyone_asks_all_clients_for_everything() -> None:
    assert Everyone().ask(Payload(), choice()) == dict.fromkeys(CLIENTS, ())


def test_random_clients_are_distinct_reproducible_and_differ_between_rounds() -> None:
    rule = RandomClients(10)
    first = rule.ask(Payload(), choice())
    assert len(first) == 10
    assert set(first) <= set(CLIENTS)
    assert first == rule.ask(Payload(), choice())
    assert first != rule.ask(Payload(), choice(number=2))
    assert len(RandomClients(90).ask(Payload(), choice())) == 50
    assert len(RandomClients(fraction=0.8).ask(Payload(), choice())) == 40


def test_random_tensors_are_drawn_for_each_client() -> None:
    omitted = RandomTensors(fraction=0.75).ask(Payload(), choice())
    assert list(omitted) == CLIENTS
    assert {len(names) for names in omitted.values()} == {1}
    assert {name for names in omitted.values() for name in names} == set("abcd")


def scores(**given: str) -> dict[str, dict[str, float]]:
    """`x="12.."`: client x has score 1 for array a and 2 for b, and was not asked for c and d."""
    return {
        client: {name: float(x) for name, x in zip("abcd", digits, strict=True) if x != "."}
        for client, digits in given.items()
    }


def test_tensors_below_the_mean_are_switched_off_and_clients_with_too_few_leave() -> None:
    rule, now = Restart(alpha=0.5, beta=0.0), choice("xyz")
    # means 2, 2, 1, 4⅓: x is never below, y is below in a and d, z in a, b and d
    after = rule.settle(Payload(), now, scores(x="4318", y="1214", z="1111"))
    assert rule.ask(after, now) == {"x": [], "y": ["a", "d"]}
    # means of b and c: 3 and 2; y is below in b, which leaves it 1 of 4, and x is below in c
    after = rule.settle(after, now, scores(x="1411", y=".22."))
    assert rule.ask(after, now) == {"x": ["c"]}


def test_equal_updates_and_single_clients_stay_active() -> None:
    rule = Restart()
    same = {client: {"a": 0.1, "b": 0.1} for client in "xyz"}  # (0.1 + 0.1 + 0.1) / 3 > 0.1
    assert rule.settle(Payload(), choice("xyz", "ab"), same) == Payload()
    assert rule.settle(Payload(), choice("x", "ab"), {"x": {"a": 0.0, "b": 7.0}}) == Payload()


def test_clients_without_reply_stay_active() -> None:
    now = choice("xyz")
    after = Restart(beta=0.0).settle(Payload(), now, scores(x="2222", y="1111"))
    assert list(Restart().ask(after, now)) == ["x", "z"]


def test_restart_activates_all_clients_with_all_tensors() -> None:
    given, now = scores(w="9911", x="1199", y="5555", z="5515"), choice("wxyz")
    # means 5, 5, 4, 6: w keeps a and b, x keeps c and d, y all but d, z all but c and d
    assert len(Restart(beta=0.4).ask(Restart(beta=0.4).settle(Payload(), now, given), now)) == 4
    few = scores(w="9999", x="1111", y="1111", z="1111")
    assert list(Restart(beta=0.2).ask(Restart(beta=0.2).settle(Payload(), now, few), now)) == ["w"]
    assert Restart(beta=0.4).settle(Payload(), now, few) == Payload()


def test_explore_fills_up_with_clients_that_left_earlier() -> None:
    rule, now = Explore(beta=0.5), choice("wxyz")
    first = rule.settle(Payload(), now, scores(w="9999", x="1111", y="1111", z="1111"))
    assert list(rule.ask(first, now)) == ["w"]  # clients that just left are not drawn
    second = rule.settle(first, now, scores(w="1111"))
    back = [client for client in rule.ask(second, now) if client != "w"]
    assert len(back) == 1
    assert rule.ask(second, now)[back[0]] == []
    again = rule.settle(first, choice("wxyz", number=1), scores(w="1111"))
    assert list(rule.ask(again, now)) == list(rule.ask(second, now))


def test_there_is_always_an_active_client() -> None:
    now = choice("xyz", "abc")
    given = {"x": {"a": 9.0, "b": 1.0, "c": 1.0}, "y": {"a": 1.0, "b": 9.0, "c": 1.0}}
    given["z"] = {"a": 1.0, "b": 1.0, "c": 9.0}
    for rule in (Restart(beta=0.0), Explore(beta=0.0)):
        assert rule.ask(rule.settle(Payload(), now, given), now)


def test_scores_are_mean_absolute_updates() -> None:
    sent = {"a": np.array([1.0, 1.0], np.float32)}
    assert Restart().score(sent, {"a": np.array([2.0, 0.0], np.float32)}, {}) == {"a": 1.0}


def test_restart_with_alpha_and_beta_1_equals_fedavg(tmp_path: Path) -> None:
    plain = ramet.run("fedstar", rounds=3, out=tmp_path / "plain")
    same = ramet.run(
        "fedstar", rounds=3, out=tmp_path / "same", activation="restart,alpha=1,beta=1"
    )
    assert same.summary.sha256 == plain.summary.sha256
    assert same.summary.sent == plain.summary.sent


class RecordingWire(LocalWire):
    """Records the names of the arrays in requests and replies."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, reply in super().exchange(self._recorded(requests)):
            if isinstance(reply, Payload) and reply.arrays:
                self.__dict__.setdefault("received", []).append((client, set(reply.arrays)))
            yield client, reply

    def _recorded(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[tuple[str, Payload]]:
        for client, message in requests:
            self.__dict__.setdefault("sent", []).append((client, set(message.arrays)))
            yield client, message


def tiny_rounds(
    node: Callable[..., Client], activation: Any, folder: Path, rounds: int
) -> tuple[list[Record], RecordingWire, str]:
    method = assembled(replace(fedstar(), activation=activation))
    nodes = {client: node(client, method) for client in TINY}
    start = start_shared(method, method.task.shape(nodes["rings"].samples), 0)
    records: list[Record] = []
    wire = RecordingWire(lambda client: nodes[client])
    run = Rounds(method, TINY, rounds, 0, start, Snapshots(folder))
    return records, wire, run.run(wire, records.append)


def test_clients_send_only_requested_arrays_and_bytes_are_counted(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    records, wire, _ = tiny_rounds(tiny_client, RandomTensors(0.5), tmp_path / "s", 2)
    shared = len(_start())
    for _, names in wire.__dict__["received"]:
        assert len(names) == round(shared / 2)
    reported = [numbers for record in records for numbers in record.trained.values()]
    assert {numbers["tensors"] for numbers in reported} == {round(shared / 2)}
    assert all(numbers["up"] == 4 * numbers["scalars"] for numbers in reported)
    assert all(0 < numbers["scalars"] < 14_592 for numbers in reported)
    assert records[0].tensors_down == 3 * shared  # active clients are sent everything


def test_with_keep_own_omitted_arrays_are_not_sent_to_the_client(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    records, wire, _ = tiny_rounds(tiny_client, Explore(keep_own=True), tmp_path / "s", 4)
    received, sent = wire.__dict__["received"], wire.__dict__["sent"]
    shared, later = received[0][1], slice(len(TINY), len(received))
    assert all(names == set() for _, names in sent[: len(TINY)])  # nothing to send in round 1
    assert sent[later] == received[later]
    assert any(names < shared for _, names in sent[later])
    assert all(names == shared for _, names in sent[len(received) :])  # the closing message
    plain, _, _ = tiny_rounds(tiny_client, Explore(), tmp_path / "t", 4)
    assert sum(r.tensors_down for r in records) < sum(r.tensors_down for r in plain)


def test_with_train_away_inactive_clients_train_and_send_nothing(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    rule = Explore(beta=0.4, keep_own=True, train_away=True)
    records, _, _ = tiny_rounds(tiny_client, rule, tmp_path / "s", 4)
    assert all(record.trained.keys() == record.evaluated.keys() == {*TINY} for record in records)
    silent = [
        (before.down[client], numbers["up"])
        for before, record in pairwise(records)  # a request's bytes are in the round before
        for client, numbers in record.trained.items()
        if numbers["tensors"] == 0
    ]
    assert silent
    assert set(silent) == {(0, 0)}


def test_a_tensor_that_no_client_sends_keeps_its_value(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    tiny_rounds(tiny_client, RandomTensors(0.0), tmp_path / "s", 2)
    after = RunState.restored(Snapshots(tmp_path / "s").load(2))[MERGING].arrays
    assert digest(after) == digest(_start())


def _start() -> Arrays:
    method = assembled(fedstar())
    return start_shared(method, method.task.plain_shape(method.inputs), 0)


def test_a_client_that_returns_loads_all_shared_arrays(
    tiny_client: Callable[..., Client],
) -> None:
    node = tiny_client("rings", fedstar())
    first = node.answer(request(1, True, {}))
    current = {name: array + np.float32(0.5) for name, array in first.arrays.items()}
    omitted = sorted(current)[:5]
    back = node.answer(request(9, True, current, last=1, omitted=omitted))
    assert back.arrays.keys() == current.keys() - set(omitted)
    closing = node.answer(request(10, False, current, last=9))
    assert closing.numbers["test"] == pytest.approx(
        tiny_client("rings", fedstar()).answer(request(10, False, current, last=9)).numbers["test"]
    )
    for name in back.arrays:  # trained from the received arrays, not from the client's own
        assert np.abs(back.arrays[name] - current[name]).max() < 0.05


@pytest.mark.parametrize("rule", ["explore,beta=0.4", "explore,beta=0.4,keep_own=true"])
def test_resuming_restores_the_activation_state(tmp_path: Path, rule: str) -> None:
    whole = ramet.run("fedstar", rounds=6, out=tmp_path / "r", activation=rule)
    trained = [set(record["trained"]) for record in _lines(whole.folder)]
    assert any(len(clients) < 3 for clients in trained[:4])
    (whole.folder / "result.json").unlink()
    for newest in sorted((whole.folder / "server").glob("*.safetensors"))[1:]:
        newest.unlink()
    again = ramet.resume(whole.folder)
    assert again.summary.sha256 == whole.summary.sha256
    assert again.summary.sent == whole.summary.sent
    assert [set(record["trained"]) for record in _lines(whole.folder)] == trained


def _lines(folder: Path) -> list[dict[str, Any]]:
    import json

    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


WHOLE_REPLIES_ONLY = {"gcfl", "gcfl+", "fedproto", "fedtgp", "fedgta", "fedpub", "fedtad", "o-pfgl"}
OWN_PACE = {"fedbuff"}
SHARES_NOTHING = {"local", "local-gcn", "local-hgn", "local-nodes"}
TASK_OF = {
    "sage": "graph-classification",
    "fedlit-gcn": "node-classification",
    "fedsage-sage": "node-classification",
    "simple-hgn": "link-prediction",
}
GENERATED = {
    "graph-classification": "tiny",
    "node-classification": "planted",
    "link-prediction": "planted-hetero",
}


REFUSED = r"shares nothing|merges whole replies only|asks clients again as soon as"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_valid_combinations_with_methods(name: str) -> None:
    """What docs/decisions/11-activation.md says of each method."""
    parts = name in {"random-tensors", "restart", "explore"}
    refused = {
        "everyone": set(),
        "random-clients": SHARES_NOTHING | OWN_PACE,
    }.get(name, SHARES_NOTHING | WHOLE_REPLIES_ONLY | OWN_PACE)
    assert ACTIVATIONS[name].asks_parts == parts  # type: ignore[attr-defined]
    for method, setting in _runs_of_every_method():
        given = {"method": method, "setting": setting, "rounds": 1, "data": Path()}
        if method in refused:
            with pytest.raises(RametError, match=REFUSED):
                checked_settings(**given, activation=name)
        else:
            checked_settings(**given, activation=name)


def _runs_of_every_method() -> Iterator[tuple[str, str]]:
    """Every method, also under its names in papers, with a setting of every task it runs on."""
    for name, factory in METHODS.items():
        task = factory().task
        only = "node-classification" if name in ("fedproto", "fedtgp") else task and task.name
        for setting in [GENERATED[only]] if only else GENERATED.values():
            yield name, setting
    for name, paper in PAPER_NAMES.items():
        yield name, GENERATED[TASK_OF[paper.network]]


def test_rules_are_parsed_from_text() -> None:
    assert activation_from("restart,alpha=0.3") == Restart(alpha=0.3, beta=0.4)
    assert activation_from("random-clients,count=5") == RandomClients(5)
    with pytest.raises(RametError, match=r"unknown activation 'restrat'. Did you mean 'restart'"):
        activation_from("restrat")
    with pytest.raises(RametError, match="unknown option of restart 'gamma'"):
        activation_from("restart,gamma=1")
    with pytest.raises(RametError, match="--activation alpha=7"):
        activation_from("restart,alpha=7")
