"""Named real graphs for node classification."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.sources.cache import cached
from ramet.errors import RametError

_FORMAT = 1
_SKETCH_SEED = 2021


@lru_cache(maxsize=4)
def read_nodes(root: Path, family: str, name: str, width: int = 0) -> NodeGraph:
    """Read a graph of PyG's `Planetoid` or `Coauthor`.

    ``width`` projects the features to that many dimensions; 0 leaves them as they are.
    """
    tensors = cached(
        root, name.lower(), [_FORMAT, family, name, width], lambda: _make(root, family, name, width)
    )
    classes = int(tensors["labels"].max()) + 1
    return NodeGraph(**tensors, classes=classes, kind_names=("link",))


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
    left, right = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].to(torch.int32)
    features = data.x.float()
    return {
        "features": (sketch(features, width) if width else features).contiguous(),
        "labels": data.y,
        "left": left.contiguous(),
        "right": right.contiguous(),
        "kinds": torch.zeros(left.numel(), dtype=torch.uint8),
        "trained": torch.zeros(data.y.numel(), dtype=torch.bool),
    }


def _load(folder: Path, family: str, name: str) -> Any:
    from torch_geometric.datasets import Coauthor, Planetoid

    try:
        return {"Planetoid": Planetoid, "Coauthor": Coauthor}[family](str(folder), name)[0]
    except OSError as error:
        raise RametError(
            f"{name} is not in {folder} and could not be downloaded ({error}). Connect to "
            "the network, or point --data to a folder that has it."
        ) from error
