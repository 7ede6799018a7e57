"""From a source's name to a ready block: `tu:NCI1` or `tiny:rings`.

Reading and encoding a real dataset takes seconds, and over a SuperLink every message starts a
fresh process: so the ready block is kept beside the data, as safetensors, and read back in
milliseconds.
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
"""Raise it when the meaning of a stored block changes; old ones are then made anew."""


def read_block(source: str, encoding: StructureEncoding, root: Path) -> GraphBlock:
    """The graphs of a source with their structure encodings."""
    kind, _, name = source.partition(":")
    if kind == "tiny":
        block = tiny.make(name)
        return block.with_structure(encoding(block))
    if kind != "tu":
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
        tu,  # brings PyG, which a client with a stored block does not need
    )

    block = tu.read(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if path.exists():
            return
        block = block.with_structure(encoding(block))
        fresh = path.with_suffix(".new")
        save_file(block.tensors(), fresh, metadata={"feature_width": str(block.feature_width)})
        fresh.replace(path)
