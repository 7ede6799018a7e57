from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ramet.errors import RametError
from ramet.payload import Payload, digest, everything, nothing, only

NAMES = ("embed.weight", "structure.embed.weight", "structure.layers.0.bias", "classify.bias")


def test_patterns_match_whole_names_and_keep_their_order() -> None:
    assert only("structure.*").pick(NAMES) == NAMES[1:3]
    assert only("*.bias", "embed.*").pick(NAMES) == (NAMES[0], NAMES[2], NAMES[3])
    assert everything.pick(NAMES) == NAMES
    assert nothing.pick(NAMES) == ()


def test_a_pattern_is_not_a_substring() -> None:
    assert "my.structure.x" not in only("structure.*")


def test_an_unmatched_pattern_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(RametError, match=r"'structur\*\.' matches no parameter.*classify\.bias"):
        only("structur*.").pick(NAMES)


def test_only_arrays_count_as_bytes() -> None:
    payload = Payload({"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.int64)}, {"x": 1.0})
    assert payload.nbytes == 3 * 4 * 4 + 5 * 8


def test_the_digest_depends_on_values_names_shapes_and_types_but_not_on_order() -> None:
    a, b = np.arange(6, dtype=np.float32), np.ones(2, dtype=np.float32)
    same = digest({"a": a, "b": b})
    assert digest({"b": b.copy(), "a": a.copy()}) == same
    assert digest({"a": a.reshape(2, 3), "b": b}) != same
    assert digest({"a": a.astype(np.float64), "b": b}) != same
    assert digest({"c": a, "b": b}) != same
    changed = a.copy()
    changed[0] = np.nextafter(np.float32(0), np.float32(1))
    assert digest({"a": changed, "b": b}) != same


def test_numpy_scalars_become_arrays() -> None:
    """NumPy's arithmetic turns 0-d arrays into scalars."""
    payload = Payload({"count": np.asarray(3) * 2, "row": np.ones(2)})
    assert isinstance(payload.arrays["count"], np.ndarray)
    assert payload.nbytes == 8 + 16


def test_a_name_with_the_content_of_an_array_has_another_digest() -> None:
    one, two = np.array([65], "u1"), np.array([1.5])
    apart = {"a": one, "b": two}
    together = {"a||u1|(1,)|Ab": two}
    assert digest(apart) != digest(together)
    assert digest({"a\\": one}) != digest({"a": one})
    known = hashlib.sha256(b"a||u1|(1,)|A").hexdigest()
    assert digest({"a": one}) == known  # of a name without bars, as ever
