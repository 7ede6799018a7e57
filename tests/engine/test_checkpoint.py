from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from ramet.engine.store.checkpoint import DamagedError, Snapshot, Snapshots
from ramet.payload import digest


def snapshot(step: int) -> Snapshot:
    rng = np.random.default_rng(step)
    arrays = {"w": rng.normal(size=(5, 3)).astype(np.float32), "step": np.array(step, np.float32)}
    return Snapshot(step, arrays, {"round": step, "note": "ü"})


def test_a_saved_snapshot_is_loaded(tmp_path: Path) -> None:
    Snapshots(tmp_path).save(snapshot(4))
    loaded = Snapshots(tmp_path).load(4)
    assert digest(loaded.arrays) == digest(snapshot(4).arrays)
    assert loaded.facts == {"round": 4, "note": "ü"}
    assert loaded.arrays["step"].shape == ()


def test_three_snapshots_are_kept_and_a_repeated_step_drops_later_ones(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    for step in range(1, 7):
        snapshots.save(snapshot(step))
    assert snapshots.steps() == [4, 5, 6]
    snapshots.save(snapshot(5))
    assert snapshots.steps() == [4, 5]
    assert snapshots.latest_step(before=5) == 4
    assert snapshots.latest_step(before=4) is None


@pytest.mark.parametrize("links", [True, False])
def test_a_snapshot_is_shared_and_stays_when_the_first_folder_drops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def no_links(*_: object) -> None:
        raise OSError("this file system has no links")

    if not links:
        monkeypatch.setattr("os.link", no_links)
    latest, best = Snapshots(tmp_path, keep=1), Snapshots(tmp_path / "best", keep=1)
    for step in (1, 2, 3):
        latest.save(snapshot(step))
        (tmp_path / "best").mkdir(exist_ok=True)
        (tmp_path / "best" / f"{10 * step:06d}.safetensors.new").write_bytes(b"left by a crash")
        latest.share(step, best, as_step=10 * step, pinned=[10])
    assert latest.steps() == [3]
    assert best.steps() == [10, 30]
    assert digest(best.load(10).arrays) == digest(snapshot(1).arrays)


@pytest.mark.parametrize("where", [0.0, 0.3, 0.99])
def test_a_changed_byte_is_detected(tmp_path: Path, where: float) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save(snapshot(1))
    snapshots.save(snapshot(2))
    path = tmp_path / "000002.safetensors"
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"000002.safetensors is damaged.*Restore it"):
        snapshots.load(2)
    valid = snapshots.latest_valid()
    assert valid is not None
    assert valid.step == 1


def test_only_damaged_snapshots_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "000001.safetensors").write_bytes(b"")
    with pytest.raises(DamagedError):
        Snapshots(tmp_path).latest_valid()
    assert Snapshots(tmp_path / "nowhere").latest_valid() is None


class _PowerCutError(Exception):
    pass


def test_two_hundred_crashes_while_writing_leave_the_old_or_the_new_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is real; a crash is an exception in place of one of the calls that write to it."""
    snapshots, rng, real = Snapshots(tmp_path), random.Random(7), os.fsync
    rename, step, fell_back = Path.replace, 1, 0
    snapshots.save(snapshot(1))

    def fail_at(call: str) -> None:
        if call == crash_point:
            raise _PowerCutError

    def fsync(descriptor: int) -> None:
        fail_at("sync file" if not os.path.isdir(f"/proc/self/fd/{descriptor}") else "sync folder")  # noqa: PTH112
        real(descriptor)

    def replace(path: Path, target: Path) -> Path:
        if crash_point == "half":
            path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])
            raise _PowerCutError
        fail_at("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    for _ in range(200):
        crash_point = rng.choice(["sync file", "rename", "half", "sync folder"])
        with pytest.raises(_PowerCutError):
            snapshots.save(snapshot(step + 1))
        valid = Snapshots(tmp_path).latest_valid()
        assert valid is not None
        assert valid.step in (step, step + 1)
        assert digest(valid.arrays) == digest(snapshot(valid.step).arrays)
        fell_back += valid.step == step
        step = valid.step
    assert 0 < fell_back < 200
