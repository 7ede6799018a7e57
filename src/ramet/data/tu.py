"""TUDataset through PyG, read once and kept as a block of tensors.

Features follow the FedStar and FedDense papers: one-hot node labels; the Letter sets use their two
coordinates; sets without either (COLLAB, IMDB) use the one-hot degree.
"""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.datasets import TUDataset

from ramet.data.block import GraphBlock
from ramet.errors import RametError, unknown

DEGREE_CAPS = {"COLLAB": 491, "IMDB-BINARY": 135, "IMDB-MULTI": 88}
WITH_COORDINATES = ("Letter-low", "Letter-med", "Letter-high")
WITH_NODE_LABELS = (
    *("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1"),
    *("ENZYMES", "DD", "PROTEINS"),
)
NAMES = (*WITH_NODE_LABELS, *DEGREE_CAPS, *WITH_COORDINATES)


def read(root: Path, name: str) -> GraphBlock:
    """The graphs of one TU dataset, without structure encodings."""
    if name not in NAMES:
        raise unknown("dataset", name, NAMES)
    dataset = _open(root, name)
    stored, slices = dataset._data, dataset.slices
    link_graph = torch.repeat_interleave(slices["edge_index"].diff())
    node_starts = _node_starts(dataset)
    rows, columns = stored.edge_index + node_starts[link_graph]
    if name in DEGREE_CAPS:
        nodes = int(node_starts[-1])
        degrees = torch.bincount(rows[rows != columns], minlength=nodes)
        features, width = degrees.clamp(max=DEGREE_CAPS[name]), DEGREE_CAPS[name] + 1
    elif name in WITH_COORDINATES:
        features, width = stored.x, stored.x.size(1)
    else:
        features, width = stored.x.argmax(dim=1), stored.x.size(1)
    return GraphBlock.from_links(rows, columns, node_starts, features, width, stored.y, name)


def _open(root: Path, name: str) -> TUDataset:
    present = (root / "TUDataset" / name / "raw" / f"{name}_A.txt").exists()
    if not os.access(root if root.exists() else root.parent, os.W_OK) and not present:
        raise RametError(f"cannot write to {root}. Give a folder you own with --data DIR.")
    try:
        with redirect_stderr(io.StringIO()):  # PyG tells of its downloading and processing
            return TUDataset(str(root / "TUDataset"), name, use_node_attr=name in WITH_COORDINATES)
    except (OSError, ValueError, RuntimeError) as error:
        if present:
            raise
        raise RametError(
            f"dataset {name} is not in {root} and could not be downloaded "
            f"({type(error).__name__}). Connect once, or unpack it to "
            f"{root / 'TUDataset' / name / 'raw'}, or point --data (or RAMET_DATA) to a folder "
            "that has it."
        ) from error


def _node_starts(dataset: TUDataset) -> Tensor:
    if "x" in dataset.slices:
        starts: Tensor = dataset.slices["x"]
        return starts
    sizes = torch.tensor([graph.num_nodes for graph in dataset])
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
