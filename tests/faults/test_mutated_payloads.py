"""Mutated messages are either decoded or refused; no other error is raised.

A message is split into the bytes that are sent, one part is changed, and the result is decoded as
the coordinator does it. With `RAMET_FAULTS=full` (`make faults`), 10,000 messages are tested.
"""

from __future__ import annotations

import io
import os
import pickle
import random
import time
from typing import Any, NoReturn, cast

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from ramet.errors import RametError
from ramet.flower.records import (
    BODY,
    DECODING_ERRORS,
    HEADER,
    from_records,
    to_records,
)
from ramet.payload import Payload, digest

COUNT = 10_000 if "RAMET_FAULTS" in os.environ else 600
MAX_SECONDS = 5.0  # on a busy machine
SENT = Payload(
    {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "s": np.array(2.5, np.float32)},
    {"weight": 150, "loss": 0.125},
    {"private": "ab" * 32, "nonce": "cd" * 32},
)


def _saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _archive() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, w=np.zeros(10**6))
    return file.getvalue()


def _with_header(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("unpickled",)


CRAFTED = [
    _saved(np.array([Evil()], dtype=object)),
    pickle.dumps(Evil()),
    _archive(),
    _with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1024), }\n"),
    _with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3, -4), }\n"),
    _with_header(b"{'descr': '|O', 'fortran_order': False, 'shape': (6,), }\n"),
    _with_header(b"{'descr': '|V48', 'fortran_order': False, 'shape': (1,), }\n"),
    _with_header(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (12,), }\n"),
    _with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 10**30), }\n"),
    _with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, %d), }\n" % 10**30),
    _with_header(b"(" * 9000),
    _with_header(b"{'descr': '<f4',\n  'shape"),
    b"\x93NUMPY\x03\x00" + b"\xff" * 40,
    b"",
]


def _mutated(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0 and changed:
            changed[place % len(changed)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place:place] = rng.randbytes(rng.randint(1, 8))
        elif kind == 2:
            del changed[place : place + rng.randint(1, 40)]
        elif kind == 3:
            changed[place:place] = changed[place : place + rng.randint(1, 40)]
        elif kind == 4:
            digits = [index for index, byte in enumerate(changed) if 48 <= byte < 58]
            if digits:
                changed[rng.choice(digits)] = rng.choice(b"0123456789-.eE")
        else:
            del changed[place:]
    return bytes(changed)


def _read(contents: dict[str, bytes], top: str) -> Payload | None:
    """Decode these bytes as the coordinator does; None if it refuses them."""
    try:
        message = inflate_object_from_contents(top, dict(contents))
        return from_records(cast(RecordDict, message))
    except (*DECODING_ERRORS, RametError):
        return None


@pytest.mark.parametrize("inline", [2**20, 0])
def test_mutated_messages_are_read_or_refused(inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all arrays in the header's record, and in records of their own."""

    def never(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    monkeypatch.setattr("ramet.flower.records.INLINE_BYTES", inline)
    records = to_records(SENT)
    contents = {key: part.deflate() for key, part in get_all_nested_objects(records).items()}
    unchanged = _read(contents, records.object_id)
    assert unchanged is not None
    assert digest(unchanged.arrays) == digest(SENT.arrays)
    rng, refused, slowest = random.Random(1), 0, 0.0
    for _ in range(COUNT):
        part = rng.choice(sorted(contents))
        started = time.monotonic()
        mutated = {**contents, part: _mutated(contents[part], rng)}
        refused += _read(mutated, records.object_id) is None
        slowest = max(slowest, time.monotonic() - started)
    assert COUNT * 0.3 < refused < COUNT, "too few or all of the mutations were refused"
    assert slowest < MAX_SECONDS


def _with_body(body: bytes) -> RecordDict:
    records = to_records(SENT)
    records.config_records[HEADER][BODY] = body
    return records


@pytest.mark.parametrize("crafted", range(len(CRAFTED)))
def test_crafted_arrays_are_refused(crafted: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Pickles, archives, false shapes and malicious headers."""
    for body in (CRAFTED[crafted] + _saved(SENT.arrays["s"]), CRAFTED[crafted]):
        with pytest.raises(RametError, match="not a Ramet message"):
            from_records(_with_body(body))
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_mutated_arrays_in_valid_messages(seed: int) -> None:
    """Change bytes inside arrays, which Flower does not check."""
    rng, original = random.Random(seed), _saved(SENT.arrays["w"])
    read = 0
    for _ in range(COUNT // 3):
        body = _mutated(original, rng) + _saved(SENT.arrays["s"])
        try:
            read += from_records(_with_body(body)).arrays["w"].size > 0
        except RametError:
            continue
    assert 0 < read < COUNT // 3
