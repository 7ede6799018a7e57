"""A hash of a client's data, by which changed data is noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from ramet.data.client_data import ClientData
from ramet.data.graphs.link_values import LinkValues

_NOT_COUNTED = ("structure", "spectrum", "ids")
"""The fields with encodings that a method computes from the links, and with names of nodes."""


def data_sha256(data: ClientData[Any, Any]) -> str:
    """SHA-256 of a client's features, links, labels and split."""
    sha256 = hashlib.sha256()
    _add(sha256, "data", data)
    return sha256.hexdigest()


def _add(sha256: Any, name: str, value: Any) -> None:
    if isinstance(value, Tensor):
        sha256.update(f"{name} {value.dtype} {list(value.shape)};".encode())
        sha256.update(value.contiguous().numpy().data)
    elif is_dataclass(value):
        for field in fields(value):
            given = getattr(value, field.name)
            if field.name not in _NOT_COUNTED and not _is_empty(field.name, given):
                _add(sha256, f"{name}.{field.name}", given)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            _add(sha256, f"{name}.{index}", item)
    elif isinstance(value, Mapping):
        same = len({*map(id, value.values())}) == 1
        for key, one in [*value.items()][: 1 if same else None]:
            _add(sha256, name if same else f"{name}.{key}", one)
    else:
        sha256.update(f"{name} {value!r};".encode())


def _is_empty(name: str, given: object) -> bool:
    """Whether these are values that links or labels do not have."""
    optional = name in ("label_scale", "class_weights")
    return (isinstance(given, LinkValues) and not given) or (optional and given is None)
