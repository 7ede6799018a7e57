"""The unpacking of apps at a site, which Flower does without asking."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any


def unpack_within(check: Callable[[bytes], AbstractContextManager[None]]) -> None:
    """Make Flower unpack an app inside a context, which may raise an error first."""
    flower: Any = import_module("flwr.supernode.runtime.run_clientapp")
    unpack = flower.install_from_fab

    def unpack_if_accepted(fab_file: bytes, *args: Any, **kwargs: Any) -> Path:
        with check(fab_file):
            unpacked: Path = unpack(fab_file, *args, **kwargs)
        return unpacked

    flower.install_from_fab = unpack_if_accepted
