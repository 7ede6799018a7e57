"""Snapshots in memory: a client learns the same from them as from its files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import ramet
from ramet.data import Batch
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.recent_snapshots import RecentSnapshots
from ramet.errors import RametError
from ramet.methods import METHODS, fedavg
from ramet.models import GIN, GraphShape
from ramet.payload import digest
from ramet.rules.method import assembled
from ramet.training.local import LocalTraining, Penalty, Session

ClientMaker = Callable[..., Client]
ROUNDS = (1, 2, 3, 4)
SLOW = ("fedssp", "o-pfgl")


class CountedLoads(Snapshots):
    """Snapshots that count how often one is read."""

    loads = 0

    def load(self, step: int) -> Any:
        type(self).loads += 1
        return super().load(step)


@pytest.fixture
def counted(tmp_path: Path) -> Callable[[Client], Client]:
    """A node whose snapshots count how often one is read."""

    class Counted(CountedLoads):
        pass

    return lambda node: replace(node, snapshots=Counted(tmp_path / "warm"))


def replies(node: Client) -> list[str]:
    arrays: Any = {}
    digests = []
    for number in ROUNDS:
        arrays = node.answer(request(number, True, arrays, last=number - 1)).arrays
        digests.append(digest(arrays))
    return digests


def cold(node: Client, folder: Path) -> list[str]:
    """The replies if every message is answered from the disk."""
    return replies(
        replace(node, snapshots=Snapshots(folder / "cold"), recent=RecentSnapshots(limit=0))
    )


def loads(node: Client) -> int:
    assert isinstance(node.snapshots, CountedLoads)
    return node.snapshots.loads


class Hooked(LocalTraining):
    """Leaves a hook that doubles the output."""

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        session.model.register_forward_hook(lambda _module, _given, output: 2 * output)
        return loss


class Counts(GIN):
    """Scales its output with the number of calls, which is a private attribute."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__(shape)
        self._calls = 0

    def forward(self, batch: Batch) -> Tensor:
        self._calls += 1
        return super().forward(batch) * self._calls


def remember_weight(session: Session) -> None:
    """Add last round's memory to a parameter, then remember the parameter itself, not a copy."""
    parameter = next(iter(session.model.parameters()))
    if "weight" in session.memory:
        with torch.no_grad():
            parameter.add_(session.memory["weight"])
    session.memory["weight"] = parameter.detach()


HIDDEN_STATE = {
    "hook": assembled(fedavg(), training=Hooked(lr=0.01)),
    "private counter": assembled(fedavg(), network=Counts),
    "memory that is a parameter": assembled(replace(fedavg(), after=remember_weight)),
}


@pytest.mark.parametrize("method", HIDDEN_STATE.values(), ids=HIDDEN_STATE)
def test_state_that_is_in_no_file_does_not_survive(
    method: Any, tiny_client: ClientMaker, counted: Callable[[Client], Client], tmp_path: Path
) -> None:
    node = tiny_client("rings", method)
    warm = counted(node)
    assert replies(warm) == cold(node, tmp_path)
    assert loads(warm) == 0


def test_a_client_is_not_read_again_while_it_is_in_memory(
    tiny_client: ClientMaker, counted: Callable[[Client], Client], tmp_path: Path
) -> None:
    node = tiny_client("rings", assembled(fedavg()))
    warm = counted(node)
    assert replies(warm) == cold(node, tmp_path)
    assert loads(warm) == 0


def count_rounds(session: Session) -> None:
    session.memory["rounds"] = session.memory.get("rounds", torch.zeros(1)) + 1


def test_memory_of_its_own_stays(
    tiny_client: ClientMaker, counted: Callable[[Client], Client], tmp_path: Path
) -> None:
    node = tiny_client("rings", assembled(replace(fedavg(), after=count_rounds)))
    warm = counted(node)
    assert replies(warm) == cold(node, tmp_path)
    assert loads(warm) == 0
    assert warm.snapshots.load(4).arrays["memory/method/rounds"] == 4


def test_a_file_that_another_process_has_written_counts(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = tiny_client("rings", assembled(fedavg()))
    sent = node.answer(request(1, True, {})).arrays
    other = replace(node, method=assembled(fedavg(), training=LocalTraining(lr=0.5)))
    replace(other, recent=RecentSnapshots()).answer(request(1, True, {}))
    in_memory = node.answer(request(2, True, sent, last=1)).arrays
    on_disk = replace(node, recent=RecentSnapshots()).answer(request(2, True, sent, last=1)).arrays
    assert digest(in_memory) == digest(on_disk)
    undisturbed = cold(node, tmp_path)[1]
    assert digest(in_memory) != undisturbed  # Adam's moments come from the other file


def test_a_repeated_round_starts_from_the_state_before_it(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = tiny_client("rings", assembled(fedavg()))
    sent = node.answer(request(1, True, {})).arrays
    first = node.answer(request(2, True, sent, last=1)).arrays
    assert digest(node.answer(request(2, True, sent, last=1)).arrays) == digest(first)
    assert digest(first) == cold_second(node, tmp_path, sent)


def cold_second(node: Client, folder: Path, sent: Any) -> str:
    other = replace(node, snapshots=Snapshots(folder / "cold"), recent=RecentSnapshots(limit=0))
    other.answer(request(1, True, {}))
    return digest(other.answer(request(2, True, sent, last=1)).arrays)


def test_the_copies_stay_below_the_limit(tiny_client: ClientMaker) -> None:
    nodes = {name: tiny_client(name, assembled(fedavg())) for name in ("rings", "trees", "blocks")}
    free = RecentSnapshots()
    for node in nodes.values():
        replace(node, recent=free).answer(request(1, True, {}))
    sizes = [copy.nbytes for copy in free._copies.values()]
    limited = RecentSnapshots(limit=sum(sizes[:2]))
    for number in (1, 2):
        for node in nodes.values():
            replace(node, recent=limited).answer(request(number, True, {}, last=number - 1))
        assert [folder.name for folder in limited._copies] == ["rings", "trees"]
        assert limited._nbytes == limited.limit
    replace(nodes["rings"], recent=limited).answer(request(1, True, {}))  # begun anew
    assert limited._nbytes == limited.limit


SETTINGS: tuple[dict[str, Any], ...] = (
    {"setting": "tiny"},
    {"setting": "planted", "clients": 4, "nodes": 60, "links": 60},
    {"setting": "planted-hetero", "clients": 3, "nodes": 20, "links": 40},
)


def fitting(method: str, folder: Path) -> dict[str, Any]:
    """The first setting on which a method runs."""
    for settings in SETTINGS:
        with suppress(RametError):
            ramet.run(method, rounds=1, out=folder / settings["setting"], **settings)
            return settings
    raise AssertionError(f"{method} runs on none of the settings")


@pytest.mark.parametrize(
    "method",
    [pytest.param(one, marks=pytest.mark.thorough) if one in SLOW else one for one in METHODS],
)
def test_every_method_learns_the_same_from_memory_as_from_disk(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = fitting(method, tmp_path)
    given = {"rounds": 3, "workers": 1, **settings}
    warm = ramet.run(method, out=tmp_path / "warm", **given)
    monkeypatch.setattr(RecentSnapshots, "_pop", lambda *_: None)
    cold = ramet.run(method, out=tmp_path / "cold", **given)
    assert warm.summary.sha256 == cold.summary.sha256
