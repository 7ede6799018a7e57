"""Thousands of mutated messages through the decoder: a payload or a refusal, nothing else.

A message is taken apart into the bytes that travel, one part is changed, and it is read as the
coordinator reads it. `RAMET_FAULTS=full` (`make faults`) does 10,000.
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
from ramet.flower.records import UNREADABLE, from_records, to_records
from ramet.payload import Payload, digest

COUNT = 10_000 if "RAMET_FAULTS" in os.environ else 600
SLOWEST = 5.0  # seconds; on a busy machine
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


def _claiming(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("unpickled",)


CRAFTED = [
    _saved(np.array([Evil()], dtype=object)),
    pickle.dumps(Evil()),
    _archive(),
    _claiming(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1024), }\n"),
    _claiming(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3, -4), }\n"),
    _claiming(b"{'descr': '|O', 'fortran_order': False, 'shape': (6,), }\n"),
    _claiming(b"{'descr': '|V48', 'fortran_order': False, 'shape': (1,), }\n"),
    _claiming(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (12,), }\n"),
    _claiming(b"(" * 9000),
    _claiming(b"{'descr': '<f4',\n  'shape"),
    b"\x93NUMPY\x03\x00" + b"\xff" * 40,
    b"",
]


def _mutated(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        how = chance.randrange(6)
        if how == 0 and changed:
            changed[place % len(changed)] ^= 1 << chance.randrange(8)
        elif how == 1:
            changed[place:place] = chance.randbytes(chance.randint(1, 8))
        elif how == 2:
            del changed[place : place + chance.randint(1, 40)]
        elif how == 3:
            changed[place:place] = changed[place : place + chance.randint(1, 40)]
        elif how == 4:
            digits = [at for at, byte in enumerate(changed) if 48 <= byte < 58]
            if digits:
                changed[chance.choice(digits)] = chance.choice(b"0123456789-.eE")
        else:
            del changed[place:]
    return bytes(changed)


def _read(contents: dict[str, bytes], top: str) -> Payload | None:
    """What the coordinator makes of these bytes; None if it refuses them."""
    try:
        found = inflate_object_from_contents(top, dict(contents))
        return from_records(cast(RecordDict, found))
    except (*UNREADABLE, RametError):
        return None


def test_mutated_messages_are_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    records = to_records(SENT)
    contents = {key: part.deflate() for key, part in get_all_nested_objects(records).items()}
    whole = _read(contents, records.object_id)
    assert whole is not None
    assert digest(whole.arrays) == digest(SENT.arrays)
    chance, refused, slowest = random.Random(1), 0, 0.0
    for _ in range(COUNT):
        part = chance.choice(sorted(contents))
        began = time.monotonic()
        mutated = {**contents, part: _mutated(contents[part], chance)}
        refused += _read(mutated, records.object_id) is None
        slowest = max(slowest, time.monotonic() - began)
    assert COUNT * 0.3 < refused < COUNT, "mutations that all do nothing, or all the same"
    assert slowest < SLOWEST


@pytest.mark.parametrize("crafted", range(len(CRAFTED)))
def test_crafted_arrays_are_refused(crafted: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Pickles, archives, sizes that are only claimed, headers that hurt."""
    records = to_records(SENT)
    for array in records.array_records["arrays"].values():
        array.data = CRAFTED[crafted]
    with pytest.raises(RametError, match="not Ramet's"):
        from_records(records)
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_mutated_arrays_inside_sound_messages(seed: int) -> None:
    """Below Flower's framing, where a changed byte is not noticed by anybody but us."""
    chance, sound = random.Random(seed), _saved(SENT.arrays["w"])
    read = 0
    for _ in range(COUNT // 3):
        records = to_records(SENT)
        records.array_records["arrays"]["w"].data = _mutated(sound, chance)
        try:
            read += from_records(records).arrays["w"].size > 0
        except RametError:
            continue
    assert 0 < read < COUNT // 3
