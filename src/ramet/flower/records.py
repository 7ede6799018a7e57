"""Convert payloads to and from Flower's records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from math import prod
from tokenize import TokenError
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, ConfigRecordValues, RecordDict
from google.protobuf.message import DecodeError
from numpy.lib import format as npy
from numpy.typing import NDArray

from ramet.errors import RametError
from ramet.payload import Payload

HEADER, BODY = "header", "body"
INLINE_BYTES = 2**20
"""A body of up to this size is part of the header; Flower splits a longer one into 5 MB pieces."""
_STREAM = "NPY arrays"
"""How a body is encoded; Flower stores this word with it."""
_ARRAYS, _EXTRAS = "arrays", "extras"
_NUMBER, _NOTE = "number:", "note:"
COLUMNS, PREPARATION = "columns", "preparation"
"""The notes in which a site sends the sums of its columns, and gets the agreed preparation.

In a message to a site, the first lists columns whose sums are to be added up under masks.
"""
DECODING_ERRORS = (ValueError, KeyError, IndexError, TypeError, AttributeError, DecodeError)
"""What Flower raises when it cannot assemble a message from its parts."""


def to_records(payload: Payload) -> RecordDict:
    """Convert a payload to as few records as possible, because Flower sends each one separately.

    The header has all names, numbers and notes. The body is all arrays in NumPy's format, one after
    the other. A large one is separate from the header, so that the SuperLink stores it once if
    several clients get the same arrays.
    """
    body = _body(payload)
    is_small = len(body) <= INLINE_BYTES
    header: dict[str, ConfigRecordValues] = {
        _ARRAYS: [*payload.arrays],
        _EXTRAS: [*payload.extras],
        BODY: body if is_small else b"",
        **{f"{_NUMBER}{name}": number for name, number in payload.numbers.items()},
        **{f"{_NOTE}{name}": note for name, note in payload.notes.items()},
    }
    records = RecordDict({HEADER: ConfigRecord(header)})
    if not is_small:
        records[BODY] = ArrayRecord({BODY: Array("uint8", (len(body),), _STREAM, body)})
    return records


def _body(payload: Payload) -> bytes:
    stream = BytesIO()
    for array in payload.tensors:
        npy.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def from_records(content: RecordDict) -> Payload:
    """Decode a message; raise a RametError for any that :func:`to_records` cannot have made."""
    try:
        header = content.config_records[HEADER]
        inline: Any = header[BODY]
        separate = content.array_records[BODY][BODY].data if BODY in content else b""
        body = BytesIO(inline + separate)
        payload = Payload(
            {name: _read_array(body) for name in _names(header, _ARRAYS)},
            {name: _number(value) for name, value in _starting_with(_NUMBER, header)},
            {name: str(note) for name, note in _starting_with(_NOTE, header)},
            {name: _read_array(body) for name in _names(header, _EXTRAS)},
        )
        _check_end(body)
        return payload
    except (KeyError, ValueError, TypeError) as error:
        raise RametError(f"not a Ramet message ({error}).") from error


def _names(header: ConfigRecord, kind: str) -> list[str]:
    names: Any = header[kind]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"the names of {kind} are not texts")
    if len(set(names)) < len(names):
        raise ValueError(f"two {kind} have the same name")
    return names


def _starting_with(prefix: str, header: ConfigRecord) -> Iterator[tuple[str, Any]]:
    for name, value in header.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), value


def _read_array(stream: BytesIO) -> NDArray[Any]:
    """Read the next numeric array; memory is allocated only for bytes that are there."""
    try:
        if npy.read_magic(stream) != (1, 0):
            raise ValueError("unsupported version of the NPY format")
        shape, is_fortran, dtype = npy.read_array_header_1_0(stream)
    except (SyntaxError, TokenError, MemoryError, RecursionError) as error:
        raise ValueError(f"unreadable header ({error})") from error
    if dtype.kind not in "fiub":
        raise ValueError(f"{dtype} is not numeric")
    size, available = prod(shape) * dtype.itemsize, _bytes_left(stream)
    if size > available or not all(0 <= width <= sys.maxsize for width in shape):
        raise ValueError(f"{available} bytes do not match {dtype}{list(shape)}")
    data = bytearray(size)
    stream.readinto(data)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _bytes_left(stream: BytesIO) -> int:
    return stream.getbuffer().nbytes - stream.tell()


def _check_end(stream: BytesIO) -> None:
    if _bytes_left(stream):
        raise ValueError(f"{_bytes_left(stream)} bytes too many")


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value
