from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.flower.records import from_records, from_run_config, to_records, to_run_config
from ramet.payload import Payload, digest


def test_payloads_survive_the_round_trip() -> None:
    rng = np.random.default_rng(0)
    sent = Payload(
        {"z": rng.normal(size=(3, 4)).astype(np.float32), "a": np.array(2.5, np.float32)},
        {"weight": 150, "loss": 0.125},
        {"client": "MUTAG"},
    )
    received = from_records(to_records(sent))
    assert list(received.arrays) == ["z", "a"]
    assert digest(received.arrays) == digest(sent.arrays)
    assert (received.numbers, received.notes) == (sent.numbers, sent.notes)
    assert received.nbytes == sent.nbytes == 13 * 4


def test_other_messages_are_refused() -> None:
    with pytest.raises(RametError, match="not a Ramet message"):
        from_records(RecordDict({"arrays": ConfigRecord({"x": 1})}))


def test_settings_survive_flowers_flat_config() -> None:
    settings = checked_settings(
        method="fedstar",
        setting="tiny",
        rounds=None,
        seed=4,
        engine="ray",
        data=Path("/a folder/with=signs"),
        options={"lr": "0.01", "hidden": "32"},
        share=("structure.*", "layers.0.*"),
        activation="restart,alpha=0.3",
    )
    config = to_run_config(settings, Path("/runs/one"))
    assert config["folder"] == "/runs/one"
    assert config["rounds"] == 30
    assert from_run_config(config) == settings


def test_rules_in_files_survive_and_are_labelled_without_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a folder, with a comma"
    folder.mkdir()
    (folder / "mine.py").write_text(
        "from ramet.methods.activation import RandomClients as Mine\n"
        "from ramet.methods.merging import WeightedMean as Mean\n"
    )
    settings = checked_settings(
        method="fedstar",
        setting="tiny",
        data=Path("/data"),
        activation=f"{folder}/mine.py:Mine,count=2",
        merge=f"{folder}/mine.py:Mean",
    )
    assert from_run_config(to_run_config(settings, Path("/r"))) == settings
    assert settings.label == "fedstar,merge=mine.py:Mean,activation=mine.py:Mine,count=2"
    assert str(tmp_path) not in settings.command


def test_options_for_fault_tolerance_survive_too() -> None:
    settings = checked_settings(
        method="fedavg",
        setting="tiny",
        rounds=3,
        data=Path("/data"),
        merge="trimmed-mean,share=0.3",
        quorum=2,
        deadline=30.0,
        norm_bound=2.5,
    )
    assert from_run_config({**to_run_config(settings, Path("/r")), "keys": "k"}) == settings
    assert settings.label == "fedavg,merge=trimmed-mean,share=0.3"
    assert settings.command.endswith(
        "--quorum 2 --deadline 30.0 --norm-bound 2.5 --merge trimmed-mean,share=0.3"
    )
