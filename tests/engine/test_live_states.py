"""States in memory: a client learns the same from them as from its files."""

from __future__ import annotations

from collections import Counter
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
from ramet.engine.site.states import LiveStates, SavedStates
from ramet.engine.start import new_model, start_model
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_wire
from ramet.methods import METHODS, fedavg
from ramet.models.shape import GraphShape
from ramet.models.single_channel import GIN
from ramet.partition.by_dataset import GraphSetting
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
    """A client in memory whose snapshots count how often one is read."""

    class Counted(CountedLoads):
        pass

    return lambda node: replace(
        node, snapshots=Counted(tmp_path / "warm"), states=LiveStates(renewed=True)
    )


def replies(node: Client) -> list[str]:
    arrays: Any = {}
    digests = []
    for number in ROUNDS:
        arrays = node.answer(request(number, True, arrays, last=number - 1)).arrays
        digests.append(digest(arrays))
    return digests


def cold(node: Client, folder: Path) -> list[str]:
    """The replies if every message is answered from the disk."""
    return replies(replace(node, snapshots=Snapshots(folder / "cold")))


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
    assert not warm.snapshots.steps()
    warm.states.write()
    assert warm.snapshots.load(4).arrays["memory/method/rounds"] == 4


def test_a_file_that_another_process_has_written_counts(tiny_client: ClientMaker) -> None:
    """As if another worker had answered round 2, and this one then gets round 3."""
    node = replace(tiny_client("rings", assembled(fedavg())), states=LiveStates())
    node.answer(request(1, True, {}))
    node.states.write()
    elsewhere = replace(node, states=SavedStates())
    sent = elsewhere.answer(request(2, True, {}, last=1)).arrays
    here = node.answer(request(3, True, sent, last=2)).arrays
    assert digest(here) == digest(elsewhere.answer(request(3, True, sent, last=2)).arrays)


def test_a_repeated_round_starts_from_what_was_written_before_it(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = replace(tiny_client("rings", assembled(fedavg())), states=LiveStates())
    expected = cold(node, tmp_path)
    arrays: Any = {}
    for number in (1, 2, 3):
        arrays = node.answer(request(number, True, arrays, last=number - 1)).arrays
        if number == 1:
            node.states.write()
            sent = arrays
    again = node.answer(request(2, True, sent, last=1)).arrays
    assert digest(again) == expected[1]
    assert digest(node.answer(request(3, True, again, last=2)).arrays) == expected[2]


def test_an_error_leaves_no_half_trained_state(tiny_client: ClientMaker) -> None:
    def fail(session: Session) -> None:
        if session.randomness.round == 2:
            raise RametError("on purpose")

    method = assembled(replace(fedavg(), after=fail))
    node = replace(tiny_client("rings", method), states=LiveStates())
    node.answer(request(1, True, {}))
    with pytest.raises(RametError, match="on purpose"):
        node.answer(request(2, True, {}, last=1))
    with pytest.raises(RametError, match="lost its private state of round 1"):
        node.answer(request(3, True, {}, last=1))


def test_states_in_memory_stay_below_the_limit(tiny_client: ClientMaker) -> None:
    """A state that does not fit is on disk, and none of it is too old before all are written."""
    nodes = {name: tiny_client(name, assembled(fedavg())) for name in ("rings", "trees", "blocks")}
    free = LiveStates()
    for number in (1, 2):  # from round 2 on, a client also has the network that it evaluated
        for node in nodes.values():
            replace(node, states=free).answer(request(number, True, {}, last=number - 1))
    sizes = [own.nbytes for own in free._live.values()]
    limited = LiveStates(limit=sum(sizes[:2]))
    for number in (1, 2, 3, 4, 5):
        for node in nodes.values():
            replace(node, states=limited).answer(request(number, True, {}, last=number - 1))
        assert [folder.name for folder in limited._live] == ["rings", "trees"]
    assert nodes["blocks"].snapshots.steps() == [1, 2, 3, 4, 5]
    limited.write()
    assert nodes["blocks"].snapshots.steps() == [3, 4, 5]
    assert nodes["rings"].snapshots.steps() == [5]


SETTINGS: tuple[dict[str, Any], ...] = (
    {"setting": "tiny"},
    {"setting": "planted", "clients": 4, "nodes": 60, "links": 60},
    {"setting": "planted-hetero", "clients": 3, "nodes": 20, "links": 40},
)


def fitting(method: str, out: Path) -> ramet.Result:
    """A run in memory on the first setting on which a method runs."""
    for settings in SETTINGS:
        with suppress(RametError):
            return ramet.run(method, rounds=3, workers=1, out=out, **settings)
    raise AssertionError(f"{method} runs on none of the settings")


@pytest.mark.parametrize(
    "method",
    [pytest.param(one, marks=pytest.mark.thorough) if one in SLOW else one for one in METHODS],
)
def test_every_method_learns_the_same_from_memory_as_from_disk(method: str, tmp_path: Path) -> None:
    warm = fitting(method, tmp_path / "warm")
    cold = RunFolder.create(tmp_path / "cold", RunFolder(warm.folder).experiment())
    execute(cold, local_wire(cold), lambda _: None)
    summary = cold.summary()
    assert summary is not None
    assert warm.summary.sha256 == summary.sha256


def test_a_client_has_one_network_and_reads_its_data_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, read = Counter[str](), Counter[str]()

    def counting(counter: Counter[str], function: Any, index: int) -> Any:
        def counted(*given: Any) -> Any:
            counter[given[index]] += 1
            return function(*given)

        return counted

    for name, function in (("start_model", start_model), ("new_model", new_model)):
        place = f"ramet.engine.site.client.{name}"
        monkeypatch.setattr(place, counting(built, function, 3))
    monkeypatch.setattr(GraphSetting, "client_data", counting(read, GraphSetting.client_data, 1))
    ramet.run("fedstar", "tiny", rounds=5, workers=1, out=tmp_path / "run")
    names = {"rings", "trees", "blocks"}
    assert built == dict.fromkeys(names, 1)
    assert read == dict.fromkeys(names, 1)
