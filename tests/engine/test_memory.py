"""The memory of clients, and the personal network that they may keep in it, with real clients."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from federations import CLIMBERS, Federation, climbing
from ramet.engine.messages import request
from ramet.errors import RametError
from ramet.training.local import Session


def count_rounds(session: Session) -> None:
    session.memory["rounds"] = session.memory.get("rounds", torch.zeros(1)) + 1


def count_twice(session: Session) -> None:
    session.memory["rounds"] = session.memory.get("rounds", torch.zeros(1)) + 2


def test_memory_survives_and_is_part_of_the_sha256(tmp_path: Path) -> None:
    federation = Federation(climbing(after=count_rounds), tmp_path / "one")
    sha256, _ = federation.run(3)
    assert federation.slopes("b", "memory/method/rounds", 3) == [1, 2, 3]
    other, _ = Federation(climbing(after=count_twice), tmp_path / "two").run(3)
    assert sha256 != other
    for replies in (4, 8):
        stopped = Federation(climbing(after=count_rounds), tmp_path / f"after {replies}")
        assert stopped.resumed(3, replies) == sha256


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_memory_belongs_to_the_replies_that_the_server_has(lost: int, tmp_path: Path) -> None:
    """The server has no reply of the first rounds, so the client counts from 0 again."""
    node = Federation(climbing(after=count_rounds), tmp_path).client("a")
    for number in range(1, lost + 1):
        node.answer(request(number, True, {}, last=0))
    node.answer(request(lost + 1, True, {}, last=0))
    node.answer(request(lost + 2, True, {}, last=lost + 1))
    counted = [node.snapshots.load(n).arrays["memory/method/rounds"] for n in range(1, lost + 3)]
    assert [count.item() for count in counted] == [1] * (lost + 1) + [2]


def test_memory_never_leaves(tmp_path: Path) -> None:
    node = Federation(climbing(after=count_rounds), tmp_path).client("a")
    reply = node.answer(request(1, True, {}))
    assert ([*reply.arrays], reply.extras) == (["slope"], {})


def test_memory_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    def after(session: Session) -> None:
        session.memory["rounds"] = 1  # type: ignore[assignment]

    node = Federation(climbing(after=after), tmp_path).client("a")
    with pytest.raises(RametError, match=r"'memory/method/rounds' is a int.*Use `torch.tensor`"):
        node.answer(request(1, True, {}))


def negative(model: nn.Module, memory: Mapping[str, Tensor]) -> nn.Module:
    """A copy with minus the slope, times the number of rounds."""
    own = deepcopy(model)
    own.load_state_dict({"slope": -model.get_parameter("slope") * memory["rounds"]})
    return own


def test_the_personal_network_is_evaluated_and_kept(tmp_path: Path) -> None:
    """With a alone the slope grows by 1 per round, and its scores are minus the slope times the
    number of rounds: -1 * 1 and -2 * 2. What is trained and merged is the slope itself.
    """
    method = climbing(after=count_rounds, personal=negative)
    federation = Federation(method, tmp_path, {"a": CLIMBERS["a"]})
    _, records = federation.run(2)
    assert [record.evaluated["a"]["test"] for record in records] == [-1, -4]
    assert federation.slopes("server", "slope", 2) == [1, 2]
    assert federation.saved("a/final", 0).arrays["slope"].tolist() == [-4]
