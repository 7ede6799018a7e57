"""Who is asked for what, and that it reaches the wire, the merge and the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from ramet.engine import Answer, LocalWire, Node, Rounds, Snapshots, start_shared
from ramet.engine.node import request
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.experiment.named import activation_from
from ramet.methods import ACTIVATIONS, METHODS, fedstar
from ramet.methods.activation import Choice, Everyone, RandomClients, RandomTensors
from ramet.methods.fedda import Explore, Restart
from ramet.metrics import Record
from ramet.payload import Payload, digest
from ramet.randomness import Randomness

CLIENTS = [f"c{number}" for number in range(50)]
TINY = ("rings", "trees", "blocks")


def choice(clients: Iterable[str] = CLIENTS, names: str = "abcd", number: int = 1) -> Choice:
    return Choice(list(clients), list(names), Randomness(0, "server", number))


def test_everyone_is_everyone() -> None:
    assert Everyone().ask(Payload(), choice()) == dict.fromkeys(CLIENTS, ())


def test_random_clients_are_distinct_repeatable_and_change_by_round() -> None:
    rule = RandomClients(10)
    first = rule.ask(Payload(), choice())
    assert len(first) == 10
    assert set(first) <= set(CLIENTS)
    assert first == rule.ask(Payload(), choice())
    assert first != rule.ask(Payload(), choice(number=2))
    assert len(RandomClients(90).ask(Payload(), choice())) == 50
    assert len(RandomClients(fraction=0.8).ask(Payload(), choice())) == 40


def test_random_tensors_spare_each_client_its_own_draw() -> None:
    spared = RandomTensors(fraction=0.75).ask(Payload(), choice())
    assert list(spared) == CLIENTS
    assert {len(names) for names in spared.values()} == {1}
    assert {name for names in spared.values() for name in names} == set("abcd")


def scores(**given: str) -> dict[str, dict[str, float]]:
    """`a="12.."`: client a gave 1 to the first array and 2 to the second, and had no others."""
    return {
        client: {name: float(x) for name, x in zip("abcd", told, strict=True) if x != "."}
        for client, told in given.items()
    }


def test_what_is_below_the_mean_is_switched_off_and_who_gives_little_leaves() -> None:
    rule, now = Restart(alpha=0.5, beta=0.0), choice("xyz")
    # means 2, 2, 1, 4⅓: x is below in none, y in a and d, z in a, b and d
    after = rule.settle(Payload(), now, scores(x="4318", y="1214", z="1111"))
    assert rule.ask(after, now) == {"x": [], "y": ["a", "d"]}
    # x and y are asked for b and c: means 3 and 2; y gave less to b, and now has 1 of 4 left
    after = rule.settle(after, now, scores(x="1411", y=".22."))
    assert rule.ask(after, now) == {"x": ["c"]}


def test_equal_updates_and_a_lone_client_stay() -> None:
    rule = Restart()
    same = {client: {"a": 0.1, "b": 0.1} for client in "xyz"}  # (0.1 + 0.1 + 0.1) / 3 > 0.1
    assert rule.settle(Payload(), choice("xyz", "ab"), same) == Payload()
    assert rule.settle(Payload(), choice("x", "ab"), {"x": {"a": 0.0, "b": 7.0}}) == Payload()


def test_who_did_not_reply_is_not_judged() -> None:
    now = choice("xyz")
    after = Restart(beta=0.0).settle(Payload(), now, scores(x="2222", y="1111"))
    assert list(Restart().ask(after, now)) == ["x", "z"]


def test_restart_brings_all_back_with_everything() -> None:
    given, now = scores(w="9911", x="1199", y="5555", z="5515"), choice("wxyz")
    # means 5, 5, 4, 6: w keeps a and b, x keeps c and d, y all but d, z all but c and d
    assert len(Restart(beta=0.4).ask(Restart(beta=0.4).settle(Payload(), now, given), now)) == 4
    few = scores(w="9999", x="1111", y="1111", z="1111")
    assert list(Restart(beta=0.2).ask(Restart(beta=0.2).settle(Payload(), now, few), now)) == ["w"]
    assert Restart(beta=0.4).settle(Payload(), now, few) == Payload()


def test_explore_fills_places_with_those_that_left_earlier() -> None:
    rule, now = Explore(beta=0.5), choice("wxyz")
    first = rule.settle(Payload(), now, scores(w="9999", x="1111", y="1111", z="1111"))
    assert list(rule.ask(first, now)) == ["w"]  # those who just left are not drawn
    second = rule.settle(first, now, scores(w="1111"))
    back = [client for client in rule.ask(second, now) if client != "w"]
    assert len(back) == 1
    assert rule.ask(second, now)[back[0]] == []
    again = rule.settle(first, choice("wxyz", number=1), scores(w="1111"))
    assert list(rule.ask(again, now)) == list(rule.ask(second, now))


def test_somebody_is_always_there() -> None:
    now = choice("xyz", "abc")
    given = {"x": {"a": 9.0, "b": 1.0, "c": 1.0}, "y": {"a": 1.0, "b": 9.0, "c": 1.0}}
    given["z"] = {"a": 1.0, "b": 1.0, "c": 9.0}
    for rule in (Restart(beta=0.0), Explore(beta=0.0)):
        assert rule.ask(rule.settle(Payload(), now, given), now)


def test_a_score_is_the_mean_size_of_the_update() -> None:
    sent = {"a": np.array([1.0, 1.0], np.float32)}
    assert Restart().score(sent, {"a": np.array([2.0, 0.0], np.float32)}, {}) == {"a": 1.0}


def test_with_alpha_and_beta_one_restart_is_fedavg(tmp_path: Path) -> None:
    plain = ramet.run("fedstar", rounds=3, out=tmp_path / "plain")
    same = ramet.run(
        "fedstar", rounds=3, out=tmp_path / "same", activation="restart,alpha=1,beta=1"
    )
    assert same.summary.sha256 == plain.summary.sha256
    assert same.summary.sent == plain.summary.sent


class Watched(LocalWire):
    """Notes which arrays went to whom and came back from whom."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, reply in super().exchange(self._noted(requests)):
            if isinstance(reply, Payload) and reply.arrays:
                self.__dict__.setdefault("came", []).append((client, set(reply.arrays)))
            yield client, reply

    def _noted(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[tuple[str, Payload]]:
        for client, asked in requests:
            self.__dict__.setdefault("went", []).append((client, set(asked.arrays)))
            yield client, asked


def tiny_rounds(
    node: Callable[..., Node], activation: Any, folder: Path, rounds: int
) -> tuple[list[Record], Watched, str]:
    method = replace(fedstar(), activation=activation)
    nodes = {client: node(client, method) for client in TINY}
    start = start_shared(method, method.task.shape(nodes["rings"].samples), 0)
    records: list[Record] = []
    wire = Watched(lambda client: nodes[client])
    run = Rounds(method, TINY, rounds, 0, start, Snapshots(folder))
    return records, wire, run.run(wire, records.append)


def test_a_client_sends_only_what_is_asked_and_bytes_say_so(
    tiny_node: Callable[..., Node], tmp_path: Path
) -> None:
    records, wire, _ = tiny_rounds(tiny_node, RandomTensors(0.5), tmp_path / "s", 2)
    shared = len(start_shared(fedstar(), fedstar().task.plain_shape(fedstar().inputs), 0))
    for _, names in wire.__dict__["came"]:
        assert len(names) == round(shared / 2)
    told = [numbers for record in records for numbers in record.trained.values()]
    assert {numbers["tensors"] for numbers in told} == {round(shared / 2)}
    assert all(numbers["up"] == 4 * numbers["scalars"] for numbers in told)
    assert all(0 < numbers["scalars"] < 14_592 for numbers in told)
    assert records[0].tensors_down == 3 * shared  # who takes part is sent everything


def test_who_keeps_its_own_is_not_sent_what_it_is_spared(
    tiny_node: Callable[..., Node], tmp_path: Path
) -> None:
    records, wire, _ = tiny_rounds(tiny_node, Explore(keep_own=True), tmp_path / "s", 4)
    came, went = wire.__dict__["came"], wire.__dict__["went"]
    shared, later = came[0][1], slice(len(TINY), len(came))
    assert all(names == set() for _, names in went[: len(TINY)])  # nothing to send in round 1
    assert went[later] == came[later]
    assert any(names < shared for _, names in went[later])
    assert all(names == shared for _, names in went[len(came) :])  # the closing message
    plain, _, _ = tiny_rounds(tiny_node, Explore(), tmp_path / "t", 4)
    assert sum(r.tensors_down for r in records) < sum(r.tensors_down for r in plain)


def test_who_has_left_may_train_on_and_sends_nothing(
    tiny_node: Callable[..., Node], tmp_path: Path
) -> None:
    rule = Explore(beta=0.4, keep_own=True, train_away=True)
    records, _, _ = tiny_rounds(tiny_node, rule, tmp_path / "s", 4)
    assert all(record.trained.keys() == record.evaluated.keys() == {*TINY} for record in records)
    silent = [
        (before.down[client], numbers["up"])
        for before, record in pairwise(records)  # down is told with the judging, a round later
        for client, numbers in record.trained.items()
        if numbers["tensors"] == 0
    ]
    assert silent
    assert set(silent) == {(0, 0)}


def test_a_tensor_that_nobody_is_asked_for_keeps_its_value(
    tiny_node: Callable[..., Node], tmp_path: Path
) -> None:
    tiny_rounds(tiny_node, RandomTensors(0.0), tmp_path / "s", 2)
    after = Snapshots(tmp_path / "s").load(2).arrays
    method = fedstar()
    start = start_shared(method, method.task.plain_shape(method.inputs), 0)
    assert digest(after) == digest(start)


def test_a_client_that_left_and_returns_lays_over_all_that_is_shared(
    tiny_node: Callable[..., Node],
) -> None:
    node = tiny_node("rings", fedstar())
    first = node.answer(request(1, True, {}))
    current = {name: array + np.float32(0.5) for name, array in first.arrays.items()}
    spared = sorted(current)[:5]
    back = node.answer(request(9, True, current, last=1, spared=spared))
    assert back.arrays.keys() == current.keys() - set(spared)
    closing = node.answer(request(10, False, current, last=9))
    assert closing.numbers["test"] == pytest.approx(
        tiny_node("rings", fedstar()).answer(request(10, False, current, last=9)).numbers["test"]
    )
    for name in back.arrays:  # trained from what was sent, not from what it had kept
        assert np.abs(back.arrays[name] - current[name]).max() < 0.05


@pytest.mark.parametrize("rule", ["explore,beta=0.4", "explore,beta=0.4,keep_own=true"])
def test_going_on_in_the_middle_of_a_pattern_changes_nothing(tmp_path: Path, rule: str) -> None:
    whole = ramet.run("fedstar", rounds=6, out=tmp_path / "r", activation=rule)
    seen = [set(record["trained"]) for record in _lines(whole.folder)]
    assert any(len(clients) < 3 for clients in seen[:4])
    (whole.folder / "result.json").unlink()
    for newest in sorted((whole.folder / "server").glob("*.safetensors"))[1:]:
        newest.unlink()
    again = ramet.resume(whole.folder)
    assert again.summary.sha256 == whole.summary.sha256
    assert again.summary.sent == whole.summary.sent
    assert [set(record["trained"]) for record in _lines(whole.folder)] == seen


def _lines(folder: Path) -> list[dict[str, Any]]:
    import json

    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


WHOLE_REPLIES_ONLY = {"gcfl", "gcfl+"}
SHARES_NOTHING = {"local", "local-gcn", "local-hgn", "local-nodes"}
MADE_UP = {
    "graph-classification": "tiny",
    "node-classification": "planted",
    "link-prediction": "planted-hetero",
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_which_pairs_make_sense(name: str) -> None:
    """The table of docs/decisions/11-activation.md."""
    parts = name in {"random-tensors", "restart", "explore"}
    refused = {
        "everyone": set(),
        "random-clients": SHARES_NOTHING,
    }.get(name, SHARES_NOTHING | WHOLE_REPLIES_ONLY)
    assert ACTIVATIONS[name].asks_parts == parts  # type: ignore[attr-defined]
    for method, factory in METHODS.items():
        setting = MADE_UP[factory().task.name]
        given = {"method": method, "setting": setting, "rounds": 1, "data": Path()}
        if method in refused:
            with pytest.raises(RametError, match=r"shares nothing|merges whole replies only"):
                checked_settings(**given, activation=name)
        else:
            checked_settings(**given, activation=name)


def test_rules_are_read_from_text() -> None:
    assert activation_from("restart,alpha=0.3") == Restart(alpha=0.3, beta=0.4)
    assert activation_from("random-clients,count=5") == RandomClients(5)
    with pytest.raises(RametError, match=r"unknown activation 'restrat'. Did you mean 'restart'"):
        activation_from("restrat")
    with pytest.raises(RametError, match="unknown option of restart 'gamma'"):
        activation_from("restart,gamma=1")
    with pytest.raises(RametError, match="--activation alpha=7"):
        activation_from("restart,alpha=7")
