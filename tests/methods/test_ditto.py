"""Ditto against numbers that were derived by hand."""

from __future__ import annotations

from pathlib import Path

from federations import LINES, Federation, LeastSquares, by_hand, planted_run, stopped_and_resumed
from ramet.experiment import RunFolder
from ramet.methods import ditto, fedavg


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    """The gradients are s - 4 for a and 4 s - 2 for b; learning rate 1/4, strength 1/2. The weights
    are 1 and 3. The personal slope starts as a copy of the common one after its first training.

    Round 1, from 0:
      a: common 0 + 4/4 = 1; personal 1 - ((1 - 4) + (1 - 0) / 2) / 4 = 1.625
      b: common 0 + 2/4 = 0.5; personal 0.5 - (0 + (0.5 - 0) / 2) / 4 = 0.4375
      merged: (1 + 3 * 0.5) / 4 = 0.625
    Round 2, from 0.625:
      a: personal 1.625 - ((1.625 - 4) + (1.625 - 0.625) / 2) / 4 = 2.09375
      b: personal 0.4375 - ((1.75 - 2) + (0.4375 - 0.625) / 2) / 4 = 0.5234375
    """
    method = by_hand(ditto(strength=0.5), LeastSquares(), lr=0.25)
    federation = Federation(method, tmp_path, LINES)
    _, records = federation.run(2)
    assert federation.slopes("server", "slope", 1) == [0.625]
    assert federation.slopes("a", "memory/method/slope", 2) == [1.625, 2.09375]
    assert federation.slopes("b", "memory/method/slope", 2) == [0.4375, 0.5234375]
    # the scores are the slope of the network that is evaluated
    assert [record.evaluated["a"]["test"] for record in records] == [1.625, 2.09375]
    final = federation.saved("b/final", 0).arrays
    assert final["slope"].tolist() == [0.5234375]


def test_the_common_model_is_that_of_fedavg(tmp_path: Path) -> None:
    slopes = {}
    for method in (ditto(strength=3.0), fedavg()):
        made = by_hand(method, LeastSquares(), lr=0.25, epochs=2)
        federation = Federation(made, tmp_path / method.name, LINES)
        federation.run(3)
        slopes[method.name] = federation.slopes("server", "slope", 3)
    assert slopes["ditto"] == slopes["fedavg"]


def test_without_strength_the_personal_network_is_trained_alone(tmp_path: Path) -> None:
    """a starts with 1, as above; each round it goes a quarter of the way to 4."""
    method = by_hand(ditto(strength=0.0), LeastSquares(), lr=0.25)
    federation = Federation(method, tmp_path, LINES)
    federation.run(3)
    assert federation.slopes("a", "memory/method/slope", 3) == [1.75, 2.3125, 2.734375]


def test_bytes_by_hand_and_the_same_sha256_when_resumed(tmp_path: Path) -> None:
    """152 parameters of 4 bytes, for three clients: personal networks stay where they are."""
    whole = planted_run("ditto", tmp_path / "whole")
    records = RunFolder(whole.folder).records()
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(3 * 608, 3 * 608)] * 3
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256


def test_the_memory_of_a_release_is_not_part_of_the_personal_network(tmp_path: Path) -> None:
    whole = planted_run("ditto", tmp_path / "whole", release="8-bit")
    assert whole.summary.traffic.up_per_client_round == 152 + 4 * 4  # bytes and scales
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
