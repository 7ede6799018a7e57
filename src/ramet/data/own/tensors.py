"""PyG's `Data` and `HeteroData` as plain tensors, in safetensors or `torch.save` files.

===============  ================================================================================
safetensors      ``x``, ``edge_index``, ``y``, ``train_mask`` …; for several types ``patient.x`` and
                 ``patient.takes.drug.edge_index``
``.pt``          ``torch.save(data.to_dict(), file)``, read with ``weights_only=True``
===============  ================================================================================
"""

from __future__ import annotations

import zipfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ramet.data.own.description import Description
from ramet.data.own.problems import Problems
from ramet.data.own.schema import target_kind
from ramet.data.own.tables import NO_PART
from ramet.data.splits import PARTS

SUFFIXES = (".safetensors", ".pt")
_PYG_GLOBAL = "_global_store"
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError)
"""What `zipfile` raises for damaged archives; the second, for flags and versions unknown to it."""


@dataclass(frozen=True)
class Tensors:
    """Tensors by name; with several types, names start with the type and a dot."""

    file: str
    by_name: Mapping[str, Tensor]
    problems: Problems

    def features(self, store: str, names: Sequence[str]) -> Tensor | None:  # [nodes, features]
        """Return the type's ``x``; without declared features, only its number of rows is used."""
        x = self.by_name.get(f"{store}x")
        if x is None:
            return None
        if not names and self._is_table(f"{store}x", "node"):
            return torch.ones((x.size(0), 1))
        return self._numbers(f"{store}x", names, "node")

    def _is_table(self, name: str, what: str) -> bool:
        x = self.by_name[name]
        fits = x.dim() == 2 and (x.is_floating_point() or _is_integer(x))
        if not fits:
            text = f"has shape {list(x.shape)} and dtype {x.dtype}; expected one row per {what}"
            self._report(name, text)
        return fits

    def _numbers(self, name: str, names: Sequence[str], what: str) -> Tensor | None:
        x = self.by_name[name]
        if not self._is_table(name, what):
            return None
        if x.size(1) != len(names):
            self._report(name, f"has {x.size(1)} columns, but {len(names)} features are declared")
            return None
        values = x.to(torch.float32)
        for row, column in (~torch.isfinite(values)).nonzero().tolist():
            self.problems.add(self.file, "is not a finite number", row + 1, names[column])
        return values.contiguous()

    def attributes(self, store: str, names: Sequence[str], edges: int) -> Tensor | None:
        """[edges, names] the type's ``edge_attr``; None if none is declared."""
        if not names:
            return None
        name = f"{store}edge_attr"
        if name not in self.by_name:
            self._report(name, "is missing. Save it with the graph, or remove 'features' of edges")
            return None
        values = self._numbers(name, names, "edge")
        return None if values is None or not self._fits(name, values, edges) else values

    def weights(self, store: str, given: str | None, edges: int) -> Tensor | None:
        """[edges] the weights in the tensor called ``given``; None if none is."""
        name = f"{store}{given}"
        if given is None:
            return None
        weights = self.by_name.get(name)
        if weights is None or weights.dim() != 1 or weights.is_complex():
            self._report(name, f"must be {edges} numbers, the weights of the edges")
            return None
        weights = weights.to(torch.float32)
        for row in (~(weights.isfinite() & (weights >= 0))).nonzero().flatten().tolist():
            text = f"{float(weights[row]):g} is not a weight: it must be 0 or more, and finite"
            self.problems.add(self.file, text, row + 1, name)
        return weights if self._fits(name, weights, edges) else None

    def times(self, store: str, given: str | None, rows: int) -> Tensor | None:
        """[edges or nodes] days since 1970 in the tensor called ``given``; None if none is."""
        name = f"{store}{given}"
        if given is None:
            return None
        times = self.by_name.get(name)
        if times is None or times.dim() != 1 or not times.double().isfinite().all():
            self._report(name, f"must be {rows} finite numbers, in days since 1970")
            return None
        if times.numel() != rows:
            self._report(name, f"has {times.numel()} rows, and there are {rows}")
            return None
        return times.double()

    def _fits(self, name: str, values: Tensor, edges: int) -> bool:
        if values.size(0) != edges:
            self._report(name, f"has {values.size(0)} rows, but 'edge_index' has {edges} edges")
        return values.size(0) == edges

    def report_undeclared(self, known: Container[str]) -> None:
        """Report tensors of undeclared types, which are more likely mistakes than extras."""
        for name in self.by_name:
            store = name.rpartition(".")[0]
            if store not in known and store != _PYG_GLOBAL:
                text = "belongs to a type that the TOML does not declare"
                self.problems.add(self.file, text, column=name)

    def labels_for(
        self, description: Description, rows: int, parts: Tensor | None
    ) -> Tensor | None:
        """Return ``y``: the class of each row, or its numbers or flags [rows, outputs]."""
        if target_kind(description.task) == "class":
            return self.labels(description.classes, rows, parts)
        y, outputs = self.by_name.get("y"), len(description.outputs)
        if y is None or y.is_complex() or y.numel() != rows * outputs:
            self._report("y", f"must be {rows} x {outputs} numbers, a column for each in 'label'")
            return None
        values = y.to(torch.float32).reshape(rows, outputs)
        wrong = values.isinf()
        if target_kind(description.task) == "flag":
            wrong |= ~(values.isnan() | (values == 0) | (values == 1))
        for row in wrong.any(dim=1).nonzero().flatten().tolist():
            text = f"{values[row].tolist()} are not all numbers, or not all 0 or 1 for labels"
            self.problems.add(self.file, text, row + 1, "y")
        lacking = values.isnan().all(dim=1)
        lacking &= torch.ones_like(lacking) if parts is None else parts != NO_PART
        for row in lacking.nonzero().flatten().tolist():
            self.problems.add(self.file, "is unknown, but the row is in the split", row + 1, "y")
        return values

    def labels(
        self, classes: Sequence[str], rows: int, parts: Tensor | None, name: str = "y"
    ) -> Tensor | None:
        """Return the class index of each node or edge; those in no part may have -1."""
        y = self.by_name.get(name)
        if y is None or y.dim() != 1 or y.numel() != rows or not _is_integer(y):
            self._report(name, f"must be {rows} integers, the indices of the classes")
            return None
        y = y.to(torch.int64)
        wrong = (y < 0) | (y >= len(classes))
        if parts is not None:
            wrong &= (y != -1) | (parts != NO_PART)
        for row in wrong.nonzero().flatten().tolist():
            text = f"{int(y[row])} is not a class index; expected 0 to {len(classes) - 1}"
            self.problems.add(self.file, text, row + 1, name)
        return y

    def parts(self, nodes: int) -> Tensor | None:
        """Merge the masks: 0, 1 or 2 for train, val and test, -1 for none of them."""
        masks = [self.by_name.get(f"{part}_mask") for part in PARTS]
        if all(mask is None for mask in masks):
            return None
        parts = torch.full((nodes,), NO_PART)
        for number, (part, mask) in enumerate(zip(PARTS, masks, strict=True)):
            if mask is None or mask.dtype != torch.bool or mask.shape != (nodes,):
                self._report(f"{part}_mask", f"must be {nodes} booleans")
                continue
            for row in (mask & (parts != NO_PART)).nonzero().flatten().tolist():
                self.problems.add(self.file, "is in two masks", row + 1, f"{part}_mask")
            parts[mask] = number
        return parts

    def ends(self, name: str, heads: int, tails: int) -> Tensor | None:  # [2, edges]
        """Return an ``edge_index`` after checking its node indices; None if it is missing."""
        ends = self.by_name.get(name)
        if ends is None:
            return None
        if ends.dim() != 2 or ends.size(0) != 2 or not _is_integer(ends):
            self._report(name, "must be two rows of integers")
            return None
        ends = ends.to(torch.int64).contiguous()
        for side, nodes in ((0, heads), (1, tails)):
            wrong = (ends[side] < 0) | (ends[side] >= nodes)
            for edge in wrong.nonzero().flatten().tolist():
                text = f"there is no node {int(ends[side, edge])}; expected 0 to {nodes - 1}"
                self.problems.add(self.file, text, side + 1, f"{name}[{edge}]")
        return ends

    def _report(self, name: str, text: str) -> None:
        self.problems.add(self.file, text, column=name)


def read_tensors(path: Path, name: str, problems: Problems) -> Tensors | None:
    """Read all tensors of a file, or report why not and return None."""
    if path.suffix.lower() not in SUFFIXES:
        problems.add(name, f"is neither {' nor '.join(SUFFIXES)}")
        return None
    try:
        by_name = load_file(path) if path.suffix.lower() == ".safetensors" else _load_pt(path)
    except (SafetensorError, OSError, ValueError, *_ZIP_ERRORS) as error:
        problems.add(name, f"cannot be read ({str(error).partition(chr(10))[0]})")
        return None
    return Tensors(name, by_name, problems)


def _load_pt(path: Path) -> dict[str, Tensor]:
    """Load plain dicts and tensors written by `torch.save`, without running any code."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it was not written by torch.save")
    with zipfile.ZipFile(path) as parts:
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts.infolist()):
            raise ValueError("it is a compressed archive, which torch.save does not write")
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise ValueError(
            "it contains more than plain tensors. Save it with torch.save(data.to_dict(), file)"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not the output of data.to_dict()")
    return _flat(content)


def _flat(content: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Flatten `to_dict()` of `Data` or `HeteroData`, with a dot between type and tensor."""
    flat: dict[str, Tensor] = {}
    for key, value in content.items():
        name = ".".join(map(str, key)) if isinstance(key, tuple) else str(key)
        if isinstance(value, Mapping):
            flat |= {f"{name}.{part}": t for part, t in value.items() if isinstance(t, Tensor)}
        elif isinstance(value, Tensor):
            flat[name] = value
    return {name: tensor.detach() for name, tensor in flat.items() if _is_plain(tensor)}


def _is_plain(tensor: Tensor) -> bool:
    dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
    return dense and not tensor.is_quantized


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
