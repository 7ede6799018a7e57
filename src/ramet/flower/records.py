"""Convert payloads to and from Flower's records, and settings to and from its flat run config."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common.constant import SType
from google.protobuf.message import DecodeError
from numpy.lib import format as npy
from numpy.typing import NDArray

from ramet.errors import RametError
from ramet.experiment import Experiment, RunSettings, checked_settings, default_data
from ramet.payload import Payload

ARRAYS, EXTRAS, NUMBERS, NOTES = "arrays", "extras", "numbers", "notes"
DECODING_ERRORS = (ValueError, KeyError, IndexError, TypeError, AttributeError, DecodeError)
"""What Flower raises when it cannot assemble a message from its parts."""


def to_records(payload: Payload) -> RecordDict:
    return RecordDict(
        {
            ARRAYS: ArrayRecord({name: Array(array) for name, array in payload.arrays.items()}),
            EXTRAS: ArrayRecord({name: Array(array) for name, array in payload.extras.items()}),
            NUMBERS: MetricRecord(dict(payload.numbers)),
            NOTES: ConfigRecord(dict(payload.notes)),
        }
    )


def from_records(content: RecordDict) -> Payload:
    """Decode a message; raise a RametError for any that :func:`to_records` cannot have made."""
    try:
        return Payload(
            {name: to_array(array) for name, array in content.array_records[ARRAYS].items()},
            {name: _number(value) for name, value in content.metric_records[NUMBERS].items()},
            {name: str(note) for name, note in content.config_records[NOTES].items()},
            {name: to_array(array) for name, array in content.array_records[EXTRAS].items()},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise RametError(f"not a Ramet message ({error}).") from error


def to_array(array: Array) -> NDArray[Any]:
    """Decode a numeric array; refuse pickles, archives, and shapes that do not match the data."""
    if array.stype != SType.NUMPY:
        raise ValueError(f"'{array.stype}' is not a NumPy array")
    content = BytesIO(array.data)
    try:
        if npy.read_magic(content) != (1, 0):
            raise ValueError("unsupported version of the NPY format")
        shape, _, dtype = npy.read_array_header_1_0(content)
    except (SyntaxError, TokenError, MemoryError, RecursionError) as error:
        raise ValueError(f"unreadable header ({error})") from error
    if dtype.kind not in "fiub":
        raise ValueError(f"{dtype} is not numeric")
    if content.tell() + prod(shape) * dtype.itemsize != len(array.data):
        raise ValueError(f"{len(array.data)} bytes do not match {dtype}{list(shape)}")
    content.seek(0)
    decoded: NDArray[Any] = npy.read_array(content, allow_pickle=False)
    return decoded


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


_OPTIONAL = ("network", "activation", "merge", "release", "code")
"""Settings that are empty in the run config if they are not given."""


def to_run_config(settings: RunSettings, folder: Path) -> dict[str, str | int | float]:
    """Convert settings to the app's run config; values with spaces are quoted as in a shell.

    Over a SuperLink, the paths of sites' files are left out.
    """
    if settings.engine == "superlink":
        settings = Experiment(settings).public_settings()
    optional = {name: getattr(settings, name) or "" for name in _OPTIONAL}
    renamed = {"options", "share", "split_seed", "norm_bound", *_OPTIONAL}
    return {
        **settings.model_dump(mode="json", exclude=renamed),
        **optional,
        "split-seed": settings.split_seed,
        "norm-bound": settings.norm_bound or 0.0,
        "options": shlex.join(f"{key}={value}" for key, value in settings.options.items()),
        "share": shlex.join(settings.share or ()),
        "folder": str(folder),
    }


def from_run_config(config: Mapping[str, Any]) -> RunSettings:
    given = {**config, "split_seed": config["split-seed"]}
    given["norm_bound"] = given.get("norm-bound") or None
    for name in ("split-seed", "norm-bound", "folder", "keys"):
        given.pop(name, None)
    given["rounds"] = given["rounds"] or None
    given["data"] = Path(given["data"] or default_data())
    given["options"] = dict(pair.split("=", 1) for pair in shlex.split(given["options"]))
    given["share"] = tuple(shlex.split(given["share"])) or None
    for name in _OPTIONAL:
        given[name] = given.get(name) or None
    return checked_settings(**given)
