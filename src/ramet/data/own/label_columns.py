"""Columns with the numbers or labels that are predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ramet.data.own.columns import ColumnPart, parsed
from ramet.data.own.parts import EdgePart, GraphPart, NodePart, columns_of
from ramet.data.own.schema import Kind, TaskName, level_of
from ramet.data.own.tables import NO_PART, Table


def targets_in(table: Table, columns: Sequence[str], kind: Kind, parts: Tensor | None) -> Tensor:
    """[rows, columns] numbers, or flags as 0 and 1; rows in no part may lack all of them."""
    part = ColumnPart(kind=kind, missing="mark")
    wrong: set[int] = set()

    def read(column: str) -> np.ndarray:
        def report(row: int, text: str) -> None:
            wrong.add(row)
            table.report(row, column, text)

        return parsed(part, table.columns[column], report)

    values = np.stack([read(column) for column in columns], axis=1).astype(np.float64)
    for row in np.flatnonzero(np.isnan(values).all(axis=1)).tolist():
        may_lack = row in table.stub_rows or (parts is not None and int(parts[row]) == NO_PART)
        if row not in wrong and not may_lack:
            hint = "; write none in a column that `split` names to leave a row without it"
            table.report(row, columns[0], f"the {kind} is missing{hint}")
    return torch.from_numpy(values.astype(np.float32))


def target_errors(task: str, classes: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """What is wrong in the description of numbers or labels."""
    if classes:
        yield f"{task} has no classes. Remove them; 'label' names the columns"
    for name in sorted({*columns}):
        if columns.count(name) > 1:
            yield f"'label' lists the column '{name}' twice"


def place_errors(
    task: TaskName, nodes: Mapping[str, NodePart], edges: Mapping[str, EdgePart]
) -> Iterator[str]:
    """Labels, and ids of edges, where the task does not read them."""
    level, labelled = level_of(task), [name for name, part in edges.items() if part.label]
    if level == "edge":
        for name, part in nodes.items():
            if part.label is not None:
                yield f"[nodes.{name}] has 'label', but {task} reads that of [edges.TYPE]. Move it"
        if len(labelled) > 1:
            yield f"{task} takes one edge type with 'label', not {' and '.join(labelled)}"
        return
    for name, edge_part in edges.items():
        for key in ("label", "id"):
            if getattr(edge_part, key) is not None:
                yield (
                    f"[edges.{name}] has '{key}', which {task} does not read. Remove it, or write "
                    'task = "edge-classification"'
                )


def two_meanings(
    nodes: Mapping[str, NodePart], edges: Mapping[str, EdgePart], graphs: GraphPart | None
) -> Iterator[str]:
    """Columns that are the label and something else."""
    parts: dict[str, NodePart | EdgePart | GraphPart] = {
        **{f"[nodes.{name}]": part for name, part in nodes.items()},
        **{f"[edges.{name}]": part for name, part in edges.items()},
        **({"[graphs]": graphs} if graphs else {}),
    }
    for where, part in parts.items():
        labels = columns_of(part.label)
        for key in ("id", "source", "target", "split", "time"):
            if (column := getattr(part, key, None)) in labels:
                yield f"{where} has '{column}' as 'label' and as '{key}'. Name another column"
