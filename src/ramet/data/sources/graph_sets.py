"""Load a source by name, such as `tu:NCI1` or `tiny:rings`, as a block of graphs.

Reading and encoding a real dataset takes seconds, and over a SuperLink every message starts a new
process. The encoded block is therefore cached on disk, in the data folder.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.structure import StructureEncoding
from ramet.data.sources import tiny
from ramet.data.sources.cache import cached
from ramet.errors import RametError

_FORMAT = 2
"""Increase this when the meaning of a stored block changes, so that old ones are rebuilt."""
_WIDTH = "feature_width"


def read_block(source: str, encoding: StructureEncoding, root: Path) -> GraphBlock:
    """Return the graphs of a source with their structure encodings."""
    kind, _, name = source.partition(":")
    if kind == "tiny":
        return encoding.added_to(tiny.make(name))
    if kind != "tu" or Path(name).name != name:
        raise RametError(f"unknown source '{source}'. Use tu:NAME or tiny:NAME.")
    made_from = [_FORMAT, source, asdict(encoding)]
    tensors = cached(root, name, made_from, lambda: _encoded(name, encoding, root))
    width = int(tensors.pop(_WIDTH))
    return GraphBlock.from_tensors(tensors, width)


def _encoded(name: str, encoding: StructureEncoding, root: Path) -> dict[str, Tensor]:
    from ramet.data.sources import (
        tu,  # imports pandas, which a client with a cached block does not need
    )

    block = encoding.added_to(tu.read(root, name))
    return {**block.tensors(), _WIDTH: torch.tensor(block.feature_width)}
