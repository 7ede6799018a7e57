"""TUDataset: downloaded by PyG, read by us, kept as a block of tensors.

PyG's own parser makes one `Data` object per graph and takes minutes and gigabytes for COLLAB's 24
million lines; here every file becomes one array. What is read is what PyG reads: node labels from
their smallest one up, classes in sorted order, no self loops, no link twice.

Features follow the FedStar and FedDense papers: one-hot node labels; the Letter sets use their two
coordinates; sets without either (COLLAB, IMDB) use the one-hot degree.
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
    """The graphs of one TU dataset, without structure encodings."""
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


def _table(path: Path, kind: type[np.generic]) -> np.ndarray:
    """A file of numbers with commas between them."""
    frame = pd.read_csv(path, header=None, dtype=kind, skipinitialspace=True)
    return np.ascontiguousarray(frame.to_numpy())


def _download(root: Path, name: str) -> None:
    """Let PyG fetch the raw files, without its parser."""
    from torch_geometric.datasets import TUDataset

    dataset = TUDataset.__new__(TUDataset)
    dataset.root, dataset.name, dataset.cleaned = str(root / "TUDataset"), name, False
    try:
        with redirect_stderr(io.StringIO()):  # PyG tells of its downloading
            dataset.download()
    except (OSError, ValueError, RuntimeError) as error:
        raise RametError(
            f"dataset {name} is not in {root} and could not be downloaded "
            f"({type(error).__name__}). Connect once, or unpack it to "
            f"{root / 'TUDataset' / name / 'raw'}, or point --data (or RAMET_DATA) to a folder "
            "that has it."
        ) from error
