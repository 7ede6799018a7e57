"""Modules of the folder `results`, which is no package."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[1] / "results"


@contextmanager
def imported(*names: str) -> Iterator[list[Any]]:
    """The modules, which may import each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(RESULTS)
        yield [importlib.import_module(name) for name in names]
