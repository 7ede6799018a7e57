"""SCAFFOLD against numbers that were derived by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from federations import LINES, Federation, LeastSquares, by_hand, planted_run, stopped_and_resumed
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.methods import fedavg, scaffold
from ramet.methods.scaffold import ControlSum
from ramet.payload import Payload, digest
from ramet.rules.method import assembled
from ramet.training.local import LocalTraining
from servers import replied, server

ClientMaker = Callable[..., Client]


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    """The gradients are s - 4 for a and 4 s - 2 for b; learning rate 1/4, two steps, so K eta is
    1/2. The weights are 1 and 3. All controls start at 0, and so does the slope.

    Round 1, without a correction:
      a: 0 + 4/4 = 1, 1 + 3/4 = 1.75; control (0 - 1.75) / (1/2) = -3.5, the mean of -4 and -3
      b: 0 + 2/4 = 0.5, where its gradient is 0; control (0 - 0.5) / (1/2) = -1
      slope (1.75 + 3 * 0.5) / 4 = 0.8125; c = 0 + (-3.5 - 1) / 2 = -2.25
    Round 2, from 0.8125:
      a: correction c - c_a = 1.25; gradient -3.1875 + 1.25 = -1.9375, to 1.296875;
         gradient -2.703125 + 1.25 = -1.453125, to 1.66015625;
         sent (0.8125 - 1.66015625) / (1/2) - c = 0.5546875; c_a = -3.5 + that = -2.9453125
      b: correction c - c_b = -1.25, its gradient is 1.25: it does not move;
         sent 0 - c = 2.25; c_b = -1 + 2.25 = 1.25
      slope (1.66015625 + 3 * 0.8125) / 4 = 1.0244140625
      c = -2.25 + (0.5546875 + 2.25) / 2 = -0.84765625, the mean of c_a and c_b
    """
    method = by_hand(scaffold(), LeastSquares(), lr=0.25, epochs=2)
    federation = Federation(method, tmp_path, LINES)
    federation.run(2)
    assert federation.slopes("server", "slope", 2) == [0.8125, 1.0244140625]
    assert federation.slopes("server", "extras/training/slope", 2) == [-2.25, -0.84765625]
    assert federation.slopes("a", "memory/method/slope", 2) == [-3.5, -2.9453125]
    assert federation.slopes("b", "memory/method/slope", 2) == [-1.0, 1.25]
    assert federation.slopes("a", "model/slope", 2) == [1.75, 1.66015625]


def test_the_control_is_divided_by_the_number_of_all_clients() -> None:
    """Two of four clients reply: 1 + (2 + 4) / 4 = 2.5."""
    rule, start = ControlSum(), {"w": np.ones(1, np.float32)}
    sent = [Payload(extras={"w": np.array([value], np.float32)}) for value in (2, 4)]
    state = rule.merge(rule.start(start), replied(zip("ab", sent, strict=True)), server(1, *"abcd"))
    assert state.arrays["w"].tolist() == [2.5]
    assert state.arrays["w"].dtype == np.float32


def test_the_first_round_of_a_client_is_that_of_fedavg(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    training = LocalTraining(lr=0.1, algorithm="sgd")
    plain = tiny_client("trees", assembled(fedavg(), training=training))
    corrected = replace(
        tiny_client("trees", scaffold(training)), snapshots=Snapshots(tmp_path / "own")
    )
    first, same = (node.answer(request(1, True, {})) for node in (corrected, plain))
    assert digest(first.arrays) == digest(same.arrays)
    assert ({*first.extras}, {*same.extras}) == ({*first.arrays}, set())


def test_controls_cover_shared_parameters_only(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", scaffold())
    reply = node.answer(request(1, True, {}))
    saved = node.snapshots.load(1).arrays
    kept = {name.removeprefix("memory/method/") for name in saved if name.startswith("memory/")}
    assert kept == {*reply.extras}
    assert all(name.startswith("layers.") for name in kept)
    assert {name: array.shape for name, array in reply.extras.items()} == {
        name: array.shape for name, array in reply.arrays.items()
    }


def test_other_optimisers_are_refused() -> None:
    with pytest.raises(RametError, match=r"plain SGD\. Use algorithm=sgd\."):
        scaffold(LocalTraining(algorithm="adam"))


def test_bytes_by_hand_and_the_same_sha256_when_resumed(tmp_path: Path) -> None:
    """152 parameters and as many controls, of 4 bytes, for three clients.

    Controls are not sent in the closing message, after which nobody trains.
    """
    whole = planted_run("scaffold", tmp_path / "whole")
    records = RunFolder(whole.folder).records()
    assert [record.bytes_up for record in records] == [3 * 2 * 152 * 4] * 3
    assert [record.bytes_down for record in records] == [3 * 2 * 608, 3 * 2 * 608, 3 * 608]
    assert [record.tensors_down for record in records] == [3 * 8, 3 * 8, 3 * 4]
    sent = whole.summary.sent
    assert sent is not None
    assert (sent.bytes.up, sent.bytes.down) == (10_944, 9_120)
    assert (sent.tensors.up, sent.scalars.up) == (3 * 3 * 8, 3 * 3 * 2 * 152)
    assert whole.summary.model.shared_scalars == 152
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
