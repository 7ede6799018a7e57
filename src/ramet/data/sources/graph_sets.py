"""Load a source by name, such as `tu:NCI1` or `tiny:rings`, as a block of graphs.

Reading and encoding a real dataset takes seconds, and over a SuperLink every message starts a new
process. The encoded block is therefore cached on disk, as safetensors, in the data folder.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock
from safetensors import safe_open
from safetensors.torch import save_file

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.structure import StructureEncoding
from ramet.data.sources import tiny
from ramet.errors import RametError

_FORMAT = 1
"""Increase this when the meaning of a stored block changes, so that old ones are rebuilt."""


def read_block(source: str, encoding: StructureEncoding, root: Path) -> GraphBlock:
    """Return the graphs of a source with their structure encodings."""
    kind, _, name = source.partition(":")
    if kind == "tiny":
        block = tiny.make(name)
        return encoding.added_to(block)
    if kind != "tu" or Path(name).name != name:
        raise RametError(f"unknown source '{source}'. Use tu:NAME or tiny:NAME.")
    key = json.dumps([_FORMAT, source, asdict(encoding)], sort_keys=True)
    stored = root / "ramet" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.safetensors"
    if not stored.exists():
        _store(stored, name, encoding, root)
    with safe_open(stored, framework="pt") as file:
        width = int(file.metadata()["feature_width"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    return GraphBlock.from_tensors(tensors, width)


def _store(path: Path, name: str, encoding: StructureEncoding, root: Path) -> None:
    from ramet.data.sources import (
        tu,  # imports pandas, which a client with a cached block does not need
    )

    block = tu.read(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if path.exists():
            return
        block = encoding.added_to(block)
        fresh = path.with_suffix(".new")
        save_file(block.tensors(), fresh, metadata={"feature_width": str(block.feature_width)})
        fresh.replace(path)
