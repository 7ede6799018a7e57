"""Sums in fixed point: exact, with limits, and the method's own sum up to rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ramet
from federations import Federation, climbing, planted_run, stopped_and_resumed
from ramet.engine.messages import request
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.payload import Arrays, Payload
from ramet.rules.extras import Extras
from ramet.rules.fixed_point import FixedPoint, RingTotal
from ramet.rules.merging import WeightedMean
from ramet.training.local import Session


def test_terms_are_integers_modulo_the_ring() -> None:
    encoded = FixedPoint(ring=64, bits=2).encode({"a": np.array([0.25, -0.5, 0.3])}, 3)
    assert encoded["a"].tolist() == [1, 2**64 - 2, 1]
    assert encoded["a"].dtype == np.uint64
    small = FixedPoint(ring=32, bits=2).encode({"a": np.array([-0.5])}, 3)
    assert small["a"].tolist() == [2**32 - 2]
    assert small["a"].dtype == np.uint32


@pytest.mark.parametrize("ring", [32, 64])
def test_the_sum_is_exact_and_does_not_depend_on_the_order(ring: int) -> None:
    summation = FixedPoint(ring=ring)
    draws = np.random.default_rng(0)
    scale = summation.scale
    terms = [np.round(draws.normal(0, 100, 50) * scale) / scale for _ in range(7)]
    totals = []
    for order in (terms, terms[::-1]):
        total = RingTotal()
        for term in order:
            total.add(summation.encode({"a": term}, 7))
        totals.append(summation.decode(total.arrays, 7)["a"])
    assert (totals[0] == totals[1]).all()
    assert (totals[0] == np.sum(terms, axis=0)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e12, -1e12])
def test_a_term_that_could_overflow_does_not_leave(value: float) -> None:
    with pytest.raises(RametError, match=r"'a' is not finite or exceeds"):
        FixedPoint().encode({"a": np.array([0.0, value])}, 3)
    limit = FixedPoint().limit(3)
    total = RingTotal()
    for _ in range(3):
        total.add(FixedPoint().encode({"a": np.array([limit, -limit])}, 3))
    sums = FixedPoint().decode(total.arrays, 3)["a"]
    assert sums == pytest.approx([3 * limit, -3 * limit])


def test_masks_that_do_not_cancel_out_are_noticed() -> None:
    noise = np.random.default_rng(0).integers(0, 2**63, 20, np.uint64)
    with pytest.raises(RametError, match=r"the sum of 'a' is out of range"):
        FixedPoint().decode({"a": noise}, 3)


def test_a_round_by_hand(tmp_path: Path) -> None:
    """The mean of 1, 2 and 4 is 7/3, in units of 2^-24."""
    federation = Federation(climbing(summation=FixedPoint()), tmp_path)
    _, records = federation.run(1)
    assert federation.slopes("server", "slope", 1) == [pytest.approx(7 / 3, abs=2**-22)]
    assert records[0].evaluated["a"]["val"] == pytest.approx(7 / 3, abs=2**-22)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedadam", "fedproto"])
def test_methods_that_sum_give_nearly_the_same(method: str, tmp_path: Path) -> None:
    plain = planted_run(method, tmp_path / "plain")
    fixed = planted_run(method, tmp_path / "fixed", merge="fixed-point")
    assert fixed.summary.scores.test == pytest.approx(plain.summary.scores.test, abs=0.02)
    assert stopped_and_resumed(fixed, tmp_path / "resumed") == fixed.summary.sha256


def test_a_ring_of_32_bits_sends_no_more_bytes(tmp_path: Path) -> None:
    plain = planted_run("fedavg", tmp_path / "plain")
    fixed = planted_run("fedavg", tmp_path / "fixed", merge="fixed-point,ring=32")
    up, expected = fixed.summary.traffic.up_per_client_round, plain.summary.traffic
    numbers = 4 * (4 + 2 * 4)  # a weight per array, and the numbers of a reply with their counts
    assert up == expected.up_per_client_round + numbers
    assert fixed.summary.scores.test == pytest.approx(plain.summary.scores.test, abs=0.03)


@pytest.mark.parametrize(
    ("method", "changes", "reason"),
    [
        ("gcfl", {}, "compares single replies"),
        ("fedda", {"setting": "planted-hetero"}, "asks for parts of replies"),
        ("fedbuff", {}, "its pace depends on single replies"),
        ("fedavg", {"release": "8-bit"}, "its releases change single replies"),
        ("fedavg", {"norm_bound": 1.0}, "a norm bound measures single replies"),
        ("fedavg", {"activation": "random-tensors"}, "RandomTensors asks for parts"),
    ],
)
@pytest.mark.parametrize("sums", [{"merge": "fixed-point"}, {"secure": True}])
def test_methods_that_need_single_replies_are_refused_by_name(
    method: str, changes: dict[str, object], reason: str, sums: dict[str, object], tmp_path: Path
) -> None:
    given = {"setting": "tiny", "data": tmp_path, **changes, **sums}
    with pytest.raises(RametError, match=f"does not work with sums .*{reason}"):
        checked_settings(method=method, **given)


def test_fixed_point_and_a_robust_rule_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="compares single replies"):
        ramet.run("fedavg", merge="median", secure=True, out=tmp_path / "run")


class WeightedByExtras(WeightedMean):
    """A mean whose weights are extras, which have no rule of their own."""

    def term(self, reply: Payload) -> Arrays:
        weight = float(reply.extras["nodes"][0])
        return super().term(replace(reply, numbers={**reply.numbers, "weight": weight}))


def no_nodes(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
    return {"nodes": torch.zeros(1)}


def send_nodes(session: Session) -> None:
    samples: Any = session.samples
    nodes = int(samples.block.cut(samples.split.train).nodes)
    session.sending["nodes"] = torch.tensor([float(nodes)])


@pytest.mark.parametrize("summation", [None, FixedPoint()])
def test_a_sum_may_be_weighted_by_extras(summation: FixedPoint | None, tmp_path: Path) -> None:
    """The mean of 1, 2 and 4, with the same weights, is 21/7. In sums, no extras leave."""
    parts: Any = {"merging": WeightedByExtras(), "extras": Extras(no_nodes), "after": send_nodes}
    federation = Federation(climbing(summation=summation, **parts), tmp_path)
    federation.run(1)
    assert federation.slopes("server", "slope", 1) == [pytest.approx(3, abs=2**-22)]
    reply = federation.client("a").answer(request(1, True, {}))
    assert [*reply.extras] == ([] if summation else ["nodes"])
