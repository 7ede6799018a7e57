"""PyG's `Data` and `HeteroData` as tensors in safetensors or `torch.save` files, never pickled.

===============  ================================================================================
safetensors      ``x``, ``edge_index``, ``y``, ``train_mask`` …; for several types ``patient.x`` and
                 ``patient.takes.drug.edge_index``
``.pt``          ``torch.save(data.to_dict(), file)``, read with ``weights_only=True``
===============  ================================================================================
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ramet.data.own.problems import Problems
from ramet.data.own.tables import NO_PART
from ramet.data.splits import PARTS

SUFFIXES = (".safetensors", ".pt")


@dataclass(frozen=True)
class Tensors:
    """Tensors by name; a type's own have the type's name and a dot before theirs."""

    file: str
    by_name: Mapping[str, Tensor]
    problems: Problems

    def features(self, store: str, names: Sequence[str]) -> Tensor | None:  # [nodes, features]
        """The type's ``x``; without features only its number of rows counts."""
        x = self.by_name.get(f"{store}x")
        if x is None:
            return None
        if x.dim() != 2 or not (x.is_floating_point() or _whole(x)):
            self._tell(
                f"{store}x", f"has the shape {list(x.shape)} and type {x.dtype}, not a row per node"
            )
            return None
        if not names:
            return torch.ones((x.size(0), 1))
        if x.size(1) != len(names):
            self._tell(
                f"{store}x", f"has {x.size(1)} columns, but {len(names)} features are declared"
            )
            return None
        wide = x.to(torch.float32)
        for row, column in (~torch.isfinite(wide)).nonzero().tolist():
            self.problems.add(self.file, "is not a finite number", row + 1, names[column])
        return wide.contiguous()

    def labels(self, classes: Sequence[str], nodes: int, parts: Tensor | None) -> Tensor | None:
        """``y``: each node's class by its place in the list; -1 for nodes in no part."""
        y = self.by_name.get("y")
        if y is None or y.dim() != 1 or y.numel() != nodes or not _whole(y):
            self._tell("y", f"must be {nodes} whole numbers, the places of the classes from 0 on")
            return None
        y = y.to(torch.int64)
        wrong = (y < 0) | (y >= len(classes))
        if parts is not None:
            wrong &= (y != -1) | (parts != NO_PART)
        for row in wrong.nonzero().flatten().tolist():
            text = f"{int(y[row])} is no class; they are 0 to {len(classes) - 1}"
            self.problems.add(self.file, text, row + 1, "y")
        return y

    def parts(self, nodes: int) -> Tensor | None:
        """The masks as one: 0, 1 or 2 for train, val and test, -1 for none of them."""
        masks = [self.by_name.get(f"{part}_mask") for part in PARTS]
        if all(mask is None for mask in masks):
            return None
        found = torch.full((nodes,), NO_PART)
        for number, (part, mask) in enumerate(zip(PARTS, masks, strict=True)):
            if mask is None or mask.dtype != torch.bool or mask.shape != (nodes,):
                self._tell(f"{part}_mask", f"must be {nodes} booleans")
                continue
            for row in (mask & (found != NO_PART)).nonzero().flatten().tolist():
                self.problems.add(self.file, "is in two masks", row + 1, f"{part}_mask")
            found[mask] = number
        return found

    def ends(self, name: str, heads: int, tails: int) -> Tensor | None:  # [2, edges]
        """An ``edge_index`` within the nodes that there are; None if there is none."""
        ends = self.by_name.get(name)
        if ends is None:
            return None
        if ends.dim() != 2 or ends.size(0) != 2 or not _whole(ends):
            self._tell(name, "must be two rows of whole numbers")
            return None
        ends = ends.to(torch.int64).contiguous()
        for side, nodes in ((0, heads), (1, tails)):
            wrong = (ends[side] < 0) | (ends[side] >= nodes)
            for place in wrong.nonzero().flatten().tolist():
                text = f"there is no node {int(ends[side, place])}; they are 0 to {nodes - 1}"
                self.problems.add(self.file, text, side + 1, f"{name}[{place}]")
        return ends

    def _tell(self, name: str, text: str) -> None:
        self.problems.add(self.file, text, column=name)


def read_tensors(path: Path, name: str, problems: Problems) -> Tensors | None:
    """All tensors of a file, or None with what is wrong with it."""
    if path.suffix.lower() not in SUFFIXES:
        problems.add(name, f"is neither {' nor '.join(SUFFIXES)}")
        return None
    try:
        found = load_file(path) if path.suffix.lower() == ".safetensors" else _load_pt(path)
    except (SafetensorError, OSError, ValueError, zipfile.BadZipFile) as error:
        problems.add(name, f"cannot be read ({str(error).partition(chr(10))[0]})")
        return None
    return Tensors(name, found, problems)


def _load_pt(path: Path) -> dict[str, Tensor]:
    """What `torch.save` wrote of plain dicts and tensors; nothing in it is run or unpacked."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a file of torch.save")
    with zipfile.ZipFile(path) as parts:
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts.infolist()):
            raise ValueError("it is a compressed archive, which torch.save does not write")
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise ValueError(
            "it has more than plain tensors. Save it with torch.save(data.to_dict(), file)"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not what data.to_dict() gives")
    return _flat(content)


def _flat(content: Mapping[Any, Any]) -> dict[str, Tensor]:
    """`to_dict()` of `Data` or `HeteroData` with a dot between a type and its tensor."""
    found: dict[str, Tensor] = {}
    for key, value in content.items():
        name = ".".join(map(str, key)) if isinstance(key, tuple) else str(key)
        if isinstance(value, Mapping):
            found |= {f"{name}.{own}": t for own, t in value.items() if isinstance(t, Tensor)}
        elif isinstance(value, Tensor):
            found[name] = value
    return {name: tensor.detach() for name, tensor in found.items() if _plain(tensor)}


def _plain(tensor: Tensor) -> bool:
    dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
    return dense and not tensor.is_quantized


def _whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
