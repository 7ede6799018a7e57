from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.errors import RametError
from ramet.experiment.named import with_merge
from ramet.methods import fedavg
from ramet.payload import Payload
from ramet.rules.merging import OrderlessSum, Reply, Total, WeightedMean
from ramet.rules.robust import Median
from ramet.rules.server import Server
from servers import replied, server


def reply(weight: float, **arrays: list[float]) -> Payload:
    named = {name: np.array(values, np.float32) for name, values in arrays.items()}
    return Payload(named, {"weight": weight})


def test_the_weighted_mean_by_hand() -> None:
    rule = WeightedMean()
    state = rule.start({"w": np.zeros(2, np.float32), "v": np.array([7.0], np.float32)})
    replies = [("a", reply(3, w=[1, 2])), ("b", reply(1, w=[5, -2]))]
    merged = rule.merge(state, replied(replies), server())
    # (3*1 + 1*5) / 4 = 2, (3*2 - 1*2) / 4 = 1; no client sent v
    assert merged.arrays["w"].tolist() == [2, 1]
    assert merged.arrays["v"].tolist() == [7]
    assert merged.arrays["w"].dtype == np.float32
    assert rule.send(merged, "a") is merged.arrays


def test_an_array_is_averaged_over_the_clients_that_sent_it() -> None:
    rule = WeightedMean()
    state = rule.start({"w": np.zeros(1, np.float32), "v": np.zeros(1, np.float32)})
    merged = rule.merge(
        state, replied([("a", reply(3, w=[1], v=[4])), ("b", reply(1, w=[5]))]), server()
    )
    assert (merged.arrays["w"].tolist(), merged.arrays["v"].tolist()) == ([2], [4])


def test_the_mean_of_one_reply_is_that_reply() -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    rule = WeightedMean()
    merged = rule.merge(
        rule.start({"w": values * 0}),
        replied([("a", Payload({"w": values}, {"weight": 3288}))]),
        server(),
    )
    assert np.array_equal(merged.arrays["w"], values)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-1e4, 1e4, width=32), st.integers(1, 10**6)),
        min_size=2,
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_sums_have_the_same_bits_in_any_order(
    terms: list[tuple[float, int]], shuffler: random.Random
) -> None:
    def total(ordered: list[tuple[float, int]]) -> np.ndarray:
        summed = OrderlessSum((1,))
        for value, weight in ordered:
            summed.add(np.array([value], np.float32) * np.float64(weight))
        return summed.total()

    shuffled = list(terms)
    shuffler.shuffle(shuffled)
    assert total(terms).tobytes() == total(shuffled).tobytes()
    exact = sum(float(np.float32(value)) * weight for value, weight in terms)
    assert total(terms)[0] == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_plain_float_sums_do_depend_on_order() -> None:
    """Why ``OrderlessSum`` is needed."""
    draws = np.random.default_rng(1).normal(size=(7, 20_000)).astype(np.float32)
    forward = sum(draws[i] * np.float32(1 / 7) for i in range(7))
    backward = sum(draws[i] * np.float32(1 / 7) for i in reversed(range(7)))
    assert not np.array_equal(forward, backward)


def test_integers_and_arrays_without_dimensions() -> None:
    """A batch norm has such a count."""
    replies = [
        (
            client,
            Payload(
                {"count": np.array(count), "scale": np.array(count, np.float32)}, {"weight": 1.0}
            ),
        )
        for client, count in (("a", 4), ("b", 7))
    ]
    start = WeightedMean().start({"count": np.array(0), "scale": np.zeros((), np.float32)})
    merged = WeightedMean().merge(start, replied(replies), server()).arrays
    assert (merged["count"].shape, merged["count"].dtype.kind) == ((), "i")
    assert merged["count"] == 6
    assert merged["scale"] == np.float32(5.5)


class Halved(WeightedMean):
    """A user's rule: half of the weighted mean."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        mean = super().merge(state, replies, server)
        return Payload({name: array / 2 for name, array in mean.arrays.items()})


def test_only_a_plain_weighted_mean_can_be_replaced() -> None:
    assert with_merge(fedavg(), "median").merging == Median()
    own = replace(fedavg(), name="own", merging=Halved())
    with pytest.raises(RametError, match=r"own needs its own merging rule \(Halved\)"):
        with_merge(own, "median")


def test_a_term_that_is_not_a_dict_is_explained() -> None:
    with pytest.raises(RametError, match="returned list, not a dict of arrays"):
        Total().add([np.zeros(2)])  # type: ignore[arg-type]
