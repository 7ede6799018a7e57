from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ramet
from ramet.errors import RametError
from ramet.experiment import MethodSpec, RunFolder
from ramet.experiment.continuing import check_same
from ramet.metrics import Record
from ramet.metrics.summary import scores
from ramet.studies.sweep import Sweep
from ramet.tasks import GraphClassification
from ramet.user_code import allow


def test_the_frame_has_a_row_per_round_and_client(tmp_path: Path) -> None:
    seen: list[Record] = []
    result = ramet.run("fedstar", rounds=3, out=tmp_path / "r", observe=seen.append, lr=0.01)
    frame = result.frame
    assert len(frame) == 9
    assert set(frame.columns) == {
        *("round", "client", "loss", "weight", "up", "val", "test", "down"),
    }
    last = frame[frame["round"] == 3]
    assert last["test"].mean() == pytest.approx(result.summary.scores.test)
    assert (frame["up"] == 58_368).all()
    assert [record.round for record in seen] == [1, 2, 3]


def test_everything_can_be_shared_if_clients_have_the_same_domain(
    tmp_path: Path, data_root: Path
) -> None:
    result = ramet.run(
        *("fedavg", "by-label"),
        rounds=2,
        share=["*"],
        data=data_root,
        out=tmp_path / "r",
        dataset="MUTAG",
        clients=4,
        alpha=5.0,
    )
    assert result.summary.model.shared_scalars == 29_762
    assert set(result.summary.model.scalars.values()) == {29_762}


def test_model_sizes_on_bzr(tmp_path: Path, data_root: Path) -> None:
    sizes = {"fedstar": 67_842, "fedavg": 32_706}
    for method, size in sizes.items():
        result = ramet.run(method, "single", rounds=1, data=data_root, out=tmp_path / method)
        assert result.summary.model.scalars["BZR"] == size


def test_a_resumed_run_must_have_the_same_split(tmp_path: Path) -> None:
    result = ramet.run("local", rounds=1, out=tmp_path / "r")
    (result.folder / "result.json").unlink()
    split = json.loads((result.folder / "split.json").read_text())
    split["clients"]["rings"]["train"][0] += 1
    (result.folder / "split.json").write_text(json.dumps(split))
    with pytest.raises(RametError, match=r"no longer give the split.*Restore the data"):
        ramet.resume(result.folder)


def test_only_one_process_at_a_time_can_use_a_folder(tmp_path: Path) -> None:
    result = ramet.run("local", rounds=1, out=tmp_path / "r")
    (result.folder / "result.json").unlink()
    with (
        RunFolder(result.folder).locked("run"),
        pytest.raises(RametError, match=r"another process is working on .*another folder"),
    ):
        ramet.resume(result.folder)


def test_a_lost_private_state_is_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    result = ramet.run("fedstar", rounds=3, out=tmp_path / "r")
    (result.folder / "result.json").unlink()
    (states,) = (result.folder / "clients").iterdir()
    shutil.rmtree(states / "trees")
    with pytest.raises(RametError, match=r"trees has lost its private state of round 3.*backup"):
        ramet.resume(result.folder)


def test_a_folder_is_not_reused_for_other_settings(tmp_path: Path) -> None:
    result = ramet.run("local", rounds=1, out=tmp_path / "r")
    folder = RunFolder(result.folder)
    same = folder.experiment().settings
    check_same(folder, same)
    with pytest.raises(RametError, match=r"other settings \(seed=5 instead of 0\)"):
        check_same(folder, same.model_copy(update={"seed": 5}))


def test_rounds_that_evaluated_fewer_clients_are_not_compared() -> None:
    def record(number: int, **val: float) -> Record:
        evaluated = {client: {"val": score, "test": score} for client, score in val.items()}
        return Record(number, 3, {}, evaluated, dict.fromkeys(evaluated, 0), {}, 0.1)

    result = scores([record(1, a=0.9), record(2, a=0.8, b=0.6), record(3, a=0.7, b=0.5)])
    assert result.best_val_round == 2
    assert result.test_at_best_val == pytest.approx(0.7)
    assert result.test == pytest.approx(0.6)


def test_unknown_names_in_the_package_raise_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fedmagic'"):
        _ = ramet.fedmagic  # type: ignore[attr-defined]


SOURCE = """
from dataclasses import replace
from ramet import Method, fedstar

def mine(lr: float = 0.001) -> Method:
    return replace(fedstar(), name="mine")
"""


def test_a_run_is_not_resumed_if_its_method_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    name = f"{file}:mine".replace("/", "_")
    result = ramet.run(f"{file}:mine", rounds=1, out=tmp_path / f"{name}-seed1", seed=1)
    assert (result.folder / "method.py").read_text() == SOURCE
    spec = MethodSpec.parse(f"{file}:mine")
    sweep = Sweep((spec,), "tiny", (1,), tmp_path, given={"rounds": 1})
    sweep.check()
    (run,) = sweep.finished()[str(spec)].values()
    file.write_text(SOURCE + "# another rule\n")
    allow(f"{file}:mine", remember=False)  # as a command does that names it
    with pytest.raises(RametError, match=r"mine\.py has changed since this run started"):
        sweep.check()
    elsewhere = replace(sweep, folder=tmp_path / "other", kept=(run,))
    with pytest.raises(RametError, match="or its method has changed since"):
        elsewhere.check()
    (result.folder / "result.json").unlink()
    with pytest.raises(RametError, match="Restore the file"):
        ramet.resume(result.folder)
    file.write_text(SOURCE)
    assert ramet.resume(result.folder).summary.sha256 == result.summary.sha256


def test_a_final_model_has_the_reported_test_score(tmp_path: Path) -> None:
    result = ramet.run("fedstar", rounds=2, out=tmp_path / "r")
    for client in ("rings", "trees"):
        model, samples = result.model(client), result.samples(client)
        evaluated = GraphClassification().evaluate(model, samples, torch.device("cpu"))
        assert evaluated["test"] == result.summary.scores.clients[client]
    (result.folder / "result.json").unlink()
    shutil.rmtree(next(result.folder.glob("clients/*/rings/final")))
    with pytest.raises(RametError, match="no final model"):
        result.model("rings")


def test_the_split_has_a_separate_seed(tmp_path: Path) -> None:
    splits = {}
    for name, seed, split_seed in (("a", 1, 7), ("b", 2, 7), ("c", 2, 8)):
        out = tmp_path / name
        ramet.run("local", rounds=1, seed=seed, split_seed=split_seed, out=out)
        splits[name] = json.loads((out / "split.json").read_text())
    assert splits["a"] == splits["b"]
    assert splits["b"]["clients"] != splits["c"]["clients"]
    assert "--split-seed 7" in RunFolder(tmp_path / "a").experiment().settings.command
