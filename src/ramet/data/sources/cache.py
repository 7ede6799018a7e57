"""Tensors that are expensive to compute, cached on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock
from safetensors.torch import load_file, save_file
from torch import Tensor


def cached(
    root: Path, name: str, made_from: list[Any], make: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Return ``make()``, or its cached result from an earlier call.

    ``made_from`` lists everything that the result depends on. Its hash is part of the file name.
    """
    key = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:12]
    stored = root / "ramet" / f"{name}-{key}.safetensors"
    if not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(stored.with_suffix(".lock")):
            if not stored.exists():
                fresh = stored.with_suffix(".new")
                save_file(make(), fresh)
                fresh.replace(stored)
    return load_file(stored)
