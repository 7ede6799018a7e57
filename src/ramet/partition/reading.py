"""How data are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ramet.data import StructureEncoding


@dataclass(frozen=True)
class Reading:
    """From where, split by which seed, with which encodings."""

    data: Path
    split_seed: int
    inputs: StructureEncoding
