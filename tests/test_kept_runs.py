"""Kept runs can be repeated: two rounds of some of them, run again, give the same scores."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from command_line import ramet
from ramet.experiment import RunFolder
from ramet.studies.archive import kept
from ramet.studies.finished_run import FinishedRun

RESULTS = Path(__file__).parents[1] / "results"
ROUNDS = 2
ABIDE = (
    "fedavg,epochs=2,batch_size=32,algorithm=sgd,lr=0.01,weight_decay=0.01,network=linear"
    "-seed1-split124"
)
A_SAMPLE_OR_TWO = 0.02
"""Another kind of processor adds in another order, which may move a sample across the boundary."""


def repeated(run: FinishedRun, out: Path, *options: str | Path) -> FinishedRun:
    words = shlex.split(run.command)[1:]
    words[words.index("--rounds") + 1] = str(ROUNDS)
    done = ramet(*words, "--out", out, *options)
    assert done.code == 0, done.stderr
    again = FinishedRun.of(RunFolder(out))
    assert again is not None
    return again


def assert_same(run: FinishedRun, again: FinishedRun) -> None:
    same_machine = run.versions.get("processor") == again.versions["processor"]
    slack = 1e-6 if same_machine else A_SAMPLE_OR_TWO
    assert [one.number for one in again.rounds] == [1, ROUNDS]
    for before, now in zip(run.rounds, again.rounds, strict=False):
        assert (now.val, now.test) == pytest.approx((before.val, before.test), abs=slack)
    if "data" in run.versions:
        assert again.versions["data"] == run.versions["data"]


def find(folder: str, name: str) -> FinishedRun:
    (run,) = kept(RESULTS / folder / f"{name}.json")
    return run


@pytest.mark.parametrize(
    "name",
    [
        "fed-gcn,partition=distinct-seed1",
        pytest.param("fedlit,partition=balanced-seed2", marks=pytest.mark.thorough),
    ],
)
def test_generated_data(name: str, tmp_path: Path) -> None:
    run = find("planted", name)
    assert_same(run, repeated(run, tmp_path / "run"))


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("cora", "fedsage-nodes-seed1"),
        pytest.param("single", "fedstar-seed1", marks=pytest.mark.thorough),
        pytest.param("single", "feddense,width=32-seed2", marks=pytest.mark.thorough),
        pytest.param("hospitals", ABIDE, marks=pytest.mark.thorough),
        pytest.param("amazon-8", "fed-hgn,clients=8-seed1", marks=pytest.mark.thorough),
    ],
)
def test_real_data(folder: str, name: str, tmp_path: Path, data_root: Path) -> None:
    run = find(folder, name)
    assert_same(run, repeated(run, tmp_path / "run", "--data", data_root))


def test_another_run_is_noticed(tmp_path: Path) -> None:
    run = find("planted", "fed-gcn,partition=distinct-seed1")
    other = repeated(find("planted", "fed-gcn,partition=distinct-seed2"), tmp_path / "run")
    with pytest.raises(AssertionError):
        assert_same(run, other)


def test_a_run_tells_where_it_comes_from(tmp_path: Path) -> None:
    assert ramet("run", "local", "--rounds", "1", "--out", tmp_path / "a").code == 0
    assert ramet("run", "fedavg", "--rounds", "1", "--out", tmp_path / "b", "--seed", "2").code == 0
    assert (
        ramet("run", "local", "--rounds", "1", "--out", tmp_path / "c", "--split-seed", "5").code
        == 0
    )
    first, second, third = (FinishedRun.of(RunFolder(tmp_path / name)) for name in "abc")
    assert first
    assert second
    assert third
    assert first.versions["processor"]
    assert first.versions["data"] == second.versions["data"] != third.versions["data"]
    checkout = (RESULTS.parent / ".git").exists()
    assert ("commit" in first.versions) == checkout
    assert FinishedRun.parse(first.text()) == first
