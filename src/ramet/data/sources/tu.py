"""TUDataset: downloaded by PyG, but parsed here into one block of tensors.

PyG's own parser makes one `Data` object per graph. Here every file becomes one array, since COLLAB
has 24 million lines. The result is the same as PyG's: node labels count from the smallest one,
classes are sorted, and self loops and duplicate links are dropped.

Features follow the FedStar and FedDense papers. They are one-hot node labels, the two coordinates
for the Letter sets, and the one-hot degree for sets without either (COLLAB, IMDB).
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ramet.data.graphs.graph_block import GraphBlock
from ramet.errors import RametError, unknown

DEGREE_CAPS = {"COLLAB": 491, "IMDB-BINARY": 135, "IMDB-MULTI": 88}
WITH_COORDINATES = ("Letter-low", "Letter-med", "Letter-high")
WITH_NODE_LABELS = (
    *("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1"),
    *("ENZYMES", "DD", "PROTEINS"),
)
NAMES = (*WITH_NODE_LABELS, *DEGREE_CAPS, *WITH_COORDINATES)


def read(root: Path, name: str) -> GraphBlock:
    """Read the graphs of one TU dataset, without structure encodings."""
    if name not in NAMES:
        raise unknown("dataset", name, NAMES)
    raw = root / "TUDataset" / name / "raw"
    if not (raw / f"{name}_A.txt").exists():
        _download(root, name)
    ends = _table(raw / f"{name}_A.txt", np.int32)
    graph_of_node = _table(raw / f"{name}_graph_indicator.txt", np.int32)[:, 0]
    labels = np.unique(
        _table(raw / f"{name}_graph_labels.txt", np.int64)[:, 0], return_inverse=True
    )
    sizes = np.bincount(graph_of_node - graph_of_node.min(), minlength=labels[1].size)
    rows, columns = (torch.from_numpy(ends[:, side] - 1).to(torch.int64) for side in (0, 1))
    block = GraphBlock.from_links(
        rows=rows,
        columns=columns,
        node_starts=torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)])),
        features=torch.empty(0),
        feature_width=0,
        labels=torch.from_numpy(labels[1]),
        name=name,
    )
    features, width = _features(raw, name, block.degrees)
    return replace(block, features=features, feature_width=width)


def _features(raw: Path, name: str, degrees: Tensor) -> tuple[Tensor, int]:
    if name in DEGREE_CAPS:
        return degrees.clamp(max=DEGREE_CAPS[name]), DEGREE_CAPS[name] + 1
    if name in WITH_COORDINATES:
        coordinates = torch.from_numpy(_table(raw / f"{name}_node_attributes.txt", np.float32))
        return coordinates, coordinates.size(1)
    kinds = torch.from_numpy(_table(raw / f"{name}_node_labels.txt", np.int64)[:, 0])
    kinds = kinds - kinds.min()
    return kinds, int(kinds.max()) + 1


def _table(path: Path, dtype: type[np.generic]) -> np.ndarray:
    """Read a file of comma-separated numbers."""
    frame = pd.read_csv(path, header=None, dtype=dtype, skipinitialspace=True)
    return np.array(frame, order="C")  # a copy, because pandas may return a read-only view


def _download(root: Path, name: str) -> None:
    """Let PyG download the raw files without parsing them."""
    from torch_geometric.datasets import TUDataset

    dataset = TUDataset.__new__(TUDataset)
    dataset.root, dataset.name, dataset.cleaned = str(root / "TUDataset"), name, False
    try:
        with redirect_stderr(io.StringIO()):  # PyG prints its progress
            dataset.download()
    except (OSError, ValueError, RuntimeError) as error:
        raise RametError(
            f"dataset {name} is not in {root} and could not be downloaded "
            f"({type(error).__name__}). Connect to the network once, unpack it to "
            f"{root / 'TUDataset' / name / 'raw'}, or point --data (or RAMET_DATA) to a folder "
            "that has it."
        ) from error
