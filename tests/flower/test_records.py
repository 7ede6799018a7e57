from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from numpy.typing import NDArray

from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.flower.records import BODY, HEADER, from_records, to_records
from ramet.flower.run_config import from_run_config, to_run_config
from ramet.options import allow_code
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


ODD: dict[str, NDArray[Any]] = {
    "empty": np.empty((0, 3), np.int8),
    "scalar": np.array(-0.0, np.float64),
    "big-endian": np.arange(6, dtype=">f4").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    "strided": np.arange(20, dtype=np.uint16)[::3],
    "half": np.array([np.nan, np.inf, 6e-8], np.float16),
    "bool": np.array([[True], [False]]),
    "note:a, number: b/\n\u00fc \U0001f331\0": np.array([1, 2], np.uint8),
    "": np.array([3.0], np.float32),
    "__metadata__": np.array([4.0], np.float32),
}


def test_odd_arrays_and_names_survive_flowers_encoding() -> None:
    numbers = {"number:x": 1, "": 2.0, "nan": float("inf"), "least": 5e-324, "flag": 2**63}
    notes = {"body": "", "note:x": "\u00fc\n", "arrays": "w"}
    sent = Payload(ODD, numbers, notes, {name: array[::1] for name, array in _reversed(ODD)})
    received = _through_flower(sent)
    for given, read in ((sent.arrays, received.arrays), (sent.extras, received.extras)):
        assert [*given] == [*read]
        assert digest(given) == digest(read)
        assert all(array.flags.writeable for array in read.values())
        assert read["fortran"].flags.f_contiguous
    assert received.numbers == numbers
    assert [type(number) for number in received.numbers.values()] == [int, float, float, float, int]
    assert received.notes == notes


def _reversed(arrays: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, array) for name, array in reversed(arrays.items()) if array.ndim]


def test_the_content_of_a_small_message_is_two_objects() -> None:
    """RecordDict and ConfigRecord; Flower sends and stores each object on its own."""
    records = to_records(Payload(ODD, {"weight": 1.0}, {"run": "x"}, ODD))
    assert len(get_all_nested_objects(records)) == 2


def test_large_arrays_are_split_into_pieces_that_requests_have_in_common() -> None:
    weights = np.random.default_rng(1).normal(size=(1500, 1000))  # 12 MB
    sent = [Payload({"w": weights}, {}, {"nonce": nonce}) for nonce in "ab"]
    first, second = (get_all_nested_objects(to_records(payload)) for payload in sent)
    assert len(first.keys() & second.keys()) == 3 + len(["Array", "ArrayRecord"])
    assert len(first.keys() - second.keys()) == len(["header", "RecordDict"])
    assert max(len(part.deflate()) for part in first.values()) < 5.3e6
    for payload in sent:
        received = _through_flower(payload)
        assert digest(received.arrays) == digest(payload.arrays)
        assert received.notes == payload.notes


def _through_flower(payload: Payload) -> Payload:
    """Encode a payload to the bytes that Flower sends, and decode them."""
    records = to_records(payload)
    contents = {key: part.deflate() for key, part in get_all_nested_objects(records).items()}
    return from_records(cast(RecordDict, inflate_object_from_contents(records.object_id, contents)))


def _altered(**changes: Any) -> RecordDict:
    records = to_records(Payload({"w": np.zeros(3)}, {"weight": 1.0}))
    records.config_records[HEADER].update(changes)
    return records


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({"arrays": ConfigRecord({"x": 1})}),
        RecordDict({HEADER: ConfigRecord({"arrays": [], "extras": []})}),
        RecordDict({**_altered(), BODY: ArrayRecord()}),
        RecordDict({**_altered(), BODY: ArrayRecord({BODY: Array(np.zeros(3))})}),
        RecordDict({**_altered(), BODY: MetricRecord({BODY: 1})}),
        _altered(arrays="w"),
        _altered(arrays=["w", "w"]),
        _altered(arrays=[1]),
        _altered(arrays=[]),
        _altered(extras=["x"]),
        _altered(body=b""),
        _altered(body="text"),
        _altered(**{"number:weight": "1"}),
    ],
)
def test_other_messages_are_refused(content: RecordDict) -> None:
    with pytest.raises(RametError, match="not a Ramet message"):
        from_records(content)


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


@pytest.mark.parametrize("share", [None, (), ("*",), ("structure.*", "layers.*")])
def test_what_is_shared_survives_and_nothing_is_not_the_methods_choice(
    share: tuple[str, ...] | None,
) -> None:
    settings = checked_settings(method="fedstar", setting="tiny", data=Path("/data"), share=share)
    assert from_run_config(to_run_config(settings, Path("/run"))).share == share


def test_rules_in_files_survive_and_are_labelled_without_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a folder, with a comma"
    folder.mkdir()
    (folder / "mine.py").write_text(
        "from ramet.rules.activation import RandomClients as Mine\n"
        "from ramet.rules.merging import WeightedMean as Mean\n"
    )
    allow_code(f"{folder}/mine.py:Mine")
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
        patience=4,
        start_from="first@abc",
    )
    assert from_run_config({**to_run_config(settings, Path("/r")), "keys": "k"}) == settings
    assert settings.label == "fedavg,merge=trimmed-mean,share=0.3"
    assert settings.command.endswith(
        "--patience 4 --quorum 2 --deadline 30.0 --norm-bound 2.5 --from first "
        "--merge trimmed-mean,share=0.3"
    )
