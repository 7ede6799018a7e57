"""Named real graphs for node classification."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph, node_graph_of
from ramet.data.sources.cache import cached
from ramet.errors import RametError

_FORMAT = 1
_SKETCH_SEED = 2021
_LOADERS = {
    "Planetoid": "Planetoid",
    "Coauthor": "Coauthor",
    "Twitch": "Twitch",
    "Amazon": "Amazon",
    "Actor": "Actor",
    "Heterophilous": "HeterophilousGraphDataset",
}
"""PyG's class for each family. It has no filtered Chameleon and Squirrel."""
_FILES = {
    "Physics": "coauthor_phy",
    "Photo": "amazon_photo",
    "Computers": "amazon_cs",
    "Actor": "actor",
    "Chameleon": "chameleon_filtered",
    "Squirrel": "squirrel_filtered",
    "Minesweeper": "minesweeper",
    "Tolokers": "tolokers",
}
"""Graphs that can also be read from `nodes/NAME.npz`."""


@lru_cache(maxsize=4)
def read_nodes(root: Path, family: str, name: str, width: int = 0) -> NodeGraph:
    """Read a graph with one of PyG's loaders.

    ``width`` projects the features to that many dimensions; 0 leaves them as they are.
    """
    tensors = cached(
        root, name.lower(), [_FORMAT, family, name, width], lambda: _make(root, family, name, width)
    )
    classes = int(tensors["labels"].max()) + 1
    return node_graph_of(tensors, classes, ("link",))


def read_graph(root: Path, family: str, name: str, width: int = 0) -> NodeGraph:
    """Read a graph from `nodes/NAME.npz` if there is one, and through PyG otherwise."""
    file = _FILES.get(name)
    if file and (_path(root, file).exists() or family not in _LOADERS):
        return read_arrays(root, file, width)
    return read_nodes(root, family, name, width)


@lru_cache(maxsize=8)
def read_arrays(root: Path, name: str, width: int) -> NodeGraph:
    """Read a graph from `nodes/NAME.npz`, with its features projected to ``width``.

    The file has ``edge_index`` [2, links], the features as a CSR matrix (``x_indptr``,
    ``x_indices``, ``x_data``, ``x_shape``) and the classes ``y``, or the names of Platonov et al.:
    ``edges`` [links, 2], ``node_features`` and ``node_labels``. A width of 0 keeps the features.
    """
    path = _path(root, name)
    if not path.exists():
        raise RametError(f"{path} does not exist. Point --data to a folder that has it.")
    tensors = cached(root, name, [_FORMAT, "nodes", name, width], lambda: _from_npz(path, width))
    classes = int(tensors["labels"].max()) + 1
    return node_graph_of(tensors, classes, ("link",))


def _path(root: Path, name: str) -> Path:
    return root / "nodes" / f"{name}.npz"


def _from_npz(path: Path, width: int) -> dict[str, Tensor]:
    with np.load(path) as arrays:
        if "node_features" in arrays:
            features = torch.from_numpy(arrays["node_features"]).float()
            labels, ends = (torch.from_numpy(arrays[k]).long() for k in ("node_labels", "edges"))
            both = torch.unique(ends.T.sort(dim=0).values, dim=1)
            return _tensors(sketch(features, width) if width else features, labels, both)
        indptr, indices = (torch.from_numpy(arrays[f"x_{p}"]).long() for p in ("indptr", "indices"))
        values, shape = torch.from_numpy(arrays["x_data"]).float(), arrays["x_shape"].tolist()
        words = torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=True)
        labels, ends = (torch.from_numpy(arrays[key]).long() for key in ("y", "edge_index"))
    features = sketch(words, width) if width else words.to_dense()
    return _tensors(features, labels, ends.sort(dim=0).values)


def sketch(features: Tensor, width: int) -> Tensor:  # [nodes, width]
    """Project onto ``width`` random directions, which approximately preserves distances.

    The directions are the same for all clients and do not depend on data, unlike a selection of
    words or principal components.
    """
    draw = torch.Generator().manual_seed(_SKETCH_SEED)
    directions = torch.randn(features.size(1), width, generator=draw) / width**0.5
    projected: Tensor = features @ directions
    return projected


def _make(root: Path, family: str, name: str, width: int) -> dict[str, Tensor]:
    data = _load(root / family, family, name)
    features = data.x.float()
    return _tensors(sketch(features, width) if width else features, data.y, data.edge_index)


def _tensors(features: Tensor, labels: Tensor, ends: Tensor) -> dict[str, Tensor]:
    """The fields of a graph; of a link's two directions, the one from the smaller node is kept."""
    left, right = ends[:, ends[0] < ends[1]].to(torch.int32)
    return {
        "features": features.contiguous(),
        "labels": labels,
        "left": left.contiguous(),
        "right": right.contiguous(),
        "kinds": torch.zeros(left.numel(), dtype=torch.uint8),
        "trained": torch.zeros(labels.numel(), dtype=torch.bool),
    }


def _load(folder: Path, family: str, name: str) -> Any:
    from torch_geometric import datasets

    loader = getattr(datasets, _LOADERS[family])
    try:
        return loader(str(folder), *(() if family == name else (name,)))[0]
    except OSError as error:
        raise RametError(
            f"{name} is not in {folder} and could not be downloaded ({error}). Connect to "
            "the network, or point --data to a folder that has it."
        ) from error
