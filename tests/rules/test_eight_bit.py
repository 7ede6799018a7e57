"""8-bit updates against numbers that were derived by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import ramet
from federations import PLANTED, payload, planted_run, stopped_and_resumed, with_all_states
from ramet.engine.site.audit import audit_entries
from ramet.engine.store.checkpoint import Snapshots
from ramet.experiment import RunFolder
from ramet.payload import Payload
from ramet.randomness import Randomness
from ramet.rules.eight_bit import EightBit
from ramet.rules.release import Exit


def leaving(memory: dict[str, Tensor], sent: list[float]) -> Exit:
    return Exit(payload({"w": sent}).arrays, memory, Randomness(0, "a", 1))


def test_two_rounds_by_hand() -> None:
    """Both rounds change w by (254, -100.5, 0.8), and the scale is 254 / 127 = 2.

    Round 1: (254, -100.5, 0.8) / 2 = (127, -50.25, 0.4), rounded (127, -50, 0). What is missing is
    254 - 254 = 0, -100.5 + 100 = -0.5, and 0.8.
    Round 2: with the error (254, -101, 1.6), divided by 2 (127, -50.5, 0.8), rounded to even
    (127, -50, 1). What is missing is 0, -101 + 100 = -1, and 1.6 - 2 = -0.4.
    """
    release, memory = EightBit(), dict[str, Tensor]()
    before = leaving(memory, [1, 1, 1])
    trained = payload({"w": [255, -99.5, 1.8]})
    sent = release.leave(trained, before)
    assert sent.arrays["w"].tolist() == [127, -50, 0]
    assert sent.arrays["w"].dtype == np.int8
    assert sent.arrays["w/scale"].tolist() == 2
    assert memory["error/w"].tolist() == pytest.approx([0, -0.5, 0.8])
    assert release.arrive(sent, before.sent).arrays["w"].tolist() == [255, -99, 1]

    sent = release.leave(trained, before)
    assert sent.arrays["w"].tolist() == [127, -50, 1]
    assert memory["error/w"].tolist() == pytest.approx([0, -1, -0.4])
    assert release.arrive(sent, before.sent).arrays["w"].tolist() == [255, -99, 3]


def test_what_is_not_sent_in_one_round_is_sent_later() -> None:
    """A change of 0.3 is below half of the scale of 1, but ten rounds of it add up to 3."""
    release, memory = EightBit(), dict[str, Tensor]()
    arrived = np.zeros(2, np.float64)
    for _ in range(10):
        before = leaving(memory, [0, 0])
        sent = release.leave(payload({"w": [127, 0.3]}), before)
        arrived += release.arrive(sent, before.sent).arrays["w"]
    assert arrived.tolist() == [1270, 3]
    assert memory["error/w"].abs().max() <= 0.5  # half of the scale


def test_an_unchanged_array_arrives_unchanged() -> None:
    release, memory = EightBit(), dict[str, Tensor]()
    before = leaving(memory, [3, 4])
    sent = release.leave(payload({"w": [3, 4]}), before)
    assert (sent.arrays["w"].tolist(), sent.arrays["w/scale"].tolist()) == ([0, 0], 0)
    assert release.arrive(sent, before.sent).arrays["w"].tolist() == [3, 4]


def test_what_leaves_has_the_declared_form() -> None:
    """Integers, single numbers and arrays that were not sent leave as they are; extras too."""
    arrays = {
        "w": np.ones((2, 3), np.float32),
        "one": np.ones(1, np.float32),
        "count": np.array([5, 6]),
        "only up": np.ones(4, np.float32),
    }
    reply = Payload(arrays, {"weight": 1.0}, extras={"c": np.ones(9, np.float32)})
    release, sent = EightBit(), {name: arrays[name] for name in ("w", "one", "count")}
    left = release.leave(reply, Exit(sent, {}, Randomness(0, "a", 1)))
    assert {name: (array.dtype.name, array.shape) for name, array in left.arrays.items()} == {
        "w": ("int8", (2, 3)),
        "w/scale": ("float32", ()),
        "one": ("float32", (1,)),
        "count": ("int64", (2,)),
        "only up": ("float32", (4,)),
    }
    form = release.form(reply, sent)
    for name, array in form.arrays.items():
        assert (array.dtype, array.shape) == (left.arrays[name].dtype, left.arrays[name].shape)
    assert form.arrays.keys() == left.arrays.keys()
    assert left.extras["c"].dtype == np.float32
    assert left.numbers == reply.numbers
    arrived = release.arrive(left, sent).arrays
    assert {name: array.dtype.name for name, array in arrived.items()} == {
        "w": "float32",
        "one": "float32",
        "count": "int64",
        "only up": "float32",
    }


def test_bytes_by_hand_and_the_same_sha256_when_resumed(tmp_path: Path) -> None:
    """Arrays of 128, 4, 16 and 4 values: 152 bytes, and four scales of 4 bytes. Downwards nothing
    is compressed.
    """
    whole = planted_run("fedavg", tmp_path / "whole", release="8-bit")
    records = RunFolder(whole.folder).records()
    assert [record.bytes_up for record in records] == [3 * (152 + 4 * 4)] * 3
    assert [record.bytes_down for record in records] == [3 * 152 * 4] * 3
    entries, _ = audit_entries(with_all_states(whole.folder, tmp_path / "again").path)
    sent = {(t.name, t.dtype, t.bytes) for entry in entries for t in entry.tensors}
    assert ("layers.0.weight", "int8", 128) in sent
    assert ("layers.0.weight/scale", "float32", 4) in sent
    assert {dtype for name, dtype, _ in sent if not name.endswith("/scale")} == {"int8"}
    saved = Snapshots(RunFolder(whole.folder).clients / "part-00").load(3).arrays
    assert any(saved["memory/release 0/error/layers.0.weight"].ravel())
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256


def test_the_error_of_a_step_is_at_most_half_of_the_scale() -> None:
    release, memory = EightBit(), dict[str, Tensor]()
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0)).tolist()
    before = leaving(memory, [0.0] * 1000)
    sent = release.leave(payload({"w": values}), before)
    scale = sent.arrays["w/scale"].item()
    assert scale == pytest.approx(max(map(abs, values)) / 127)
    arrived = release.arrive(sent, before.sent).arrays["w"]
    assert np.abs(arrived - np.array(values)).max() <= scale / 2 * (1 + 1e-5)


def test_counts_and_centres_of_fedlit_are_not_compressed(tmp_path: Path) -> None:
    """They are buffers: the server reads node counts in them."""
    options = {key: value for key, value in PLANTED.items() if key != "hidden"}
    result = ramet.run(
        "fedlit", "planted", rounds=2, release="8-bit", out=tmp_path / "run", **options
    )
    assert not result.folder.joinpath("rounds.jsonl").read_text().count("node counts")
    again = with_all_states(result.folder, tmp_path / "again")
    sent = {t.name: t.dtype for e in audit_entries(again.path)[0] for t in e.tensors}
    assert sent["kinds.nodes"] == sent["kinds.centres"] == "float32"
    assert sent["project.weight"] == "int8"
