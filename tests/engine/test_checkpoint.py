from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from ramet.engine import DamagedError, Snapshot, Snapshots
from ramet.payload import digest


def snapshot(step: int) -> Snapshot:
    rng = np.random.default_rng(step)
    arrays = {"w": rng.normal(size=(5, 3)).astype(np.float32), "step": np.array(step, np.float32)}
    return Snapshot(step, arrays, {"round": step, "note": "ü"})


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    Snapshots(tmp_path).save(snapshot(4))
    loaded = Snapshots(tmp_path).load(4)
    assert digest(loaded.arrays) == digest(snapshot(4).arrays)
    assert loaded.facts == {"round": 4, "note": "ü"}
    assert loaded.arrays["step"].shape == ()


def test_the_last_three_are_kept_and_a_repeated_step_drops_what_came_after(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path)
    for step in range(1, 7):
        kept.save(snapshot(step))
    assert kept.steps() == [4, 5, 6]
    kept.save(snapshot(5))
    assert kept.steps() == [4, 5]
    assert kept.last_step(before=5) == 4
    assert kept.last_step(before=4) is None


@pytest.mark.parametrize("where", [0.0, 0.3, 0.99])
def test_a_changed_byte_is_found(tmp_path: Path, where: float) -> None:
    kept = Snapshots(tmp_path)
    kept.save(snapshot(1))
    kept.save(snapshot(2))
    path = tmp_path / "000002.safetensors"
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"000002.safetensors is damaged.*Restore it"):
        kept.load(2)
    whole = kept.last_whole()
    assert whole is not None
    assert whole.step == 1


def test_only_damaged_ones_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "000001.safetensors").write_bytes(b"")
    with pytest.raises(DamagedError):
        Snapshots(tmp_path).last_whole()
    assert Snapshots(tmp_path / "nowhere").last_whole() is None


class _PowerCutError(Exception):
    pass


def test_two_hundred_crashes_while_writing_leave_the_new_or_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls that reach the disk are real; a crash is an exception before one of them."""
    kept, chance, real = Snapshots(tmp_path), random.Random(7), os.fsync
    replaced, step, fell_back = Path.replace, 1, 0
    kept.save(snapshot(1))

    def cut(call: str) -> None:
        if call == fails_at:
            raise _PowerCutError

    def fsync(handle: int) -> None:
        cut("sync file" if not os.path.isdir(f"/proc/self/fd/{handle}") else "sync folder")  # noqa: PTH112
        real(handle)

    def replace(path: Path, target: Path) -> Path:
        if fails_at == "half":
            path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
            raise _PowerCutError
        cut("rename")
        return replaced(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    for _ in range(200):
        fails_at = chance.choice(["sync file", "rename", "half", "sync folder"])
        with pytest.raises(_PowerCutError):
            kept.save(snapshot(step + 1))
        whole = Snapshots(tmp_path).last_whole()
        assert whole is not None
        assert whole.step in (step, step + 1)
        assert digest(whole.arrays) == digest(snapshot(whole.step).arrays)
        fell_back += whole.step == step
        step = whole.step
    assert 0 < fell_back < 200
