"""Turn tables into the tensors that the network reads, as in training. Needs only PyTorch.

A table is anything that gives the cells of a column by its name: what ``read_csv`` returns, or a
pandas ``DataFrame``.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).parent
MISSING = {"", "na", "n/a", "nan", "nat", "none", "null", "<na>"}
FLAGS = {
    **dict.fromkeys(("true", "yes", "y", "t", "1", "1.0"), 1.0),
    **dict.fromkeys(("false", "no", "n", "f", "0", "0.0"), 0.0),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_csv(path: str | Path) -> dict[str, list[str]]:
    """Read a table with a header."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    return {name.strip(): [row[n] for row in rows if row] for n, name in enumerate(header)}


def features(table: Any, node_type: str) -> Tensor:  # [rows, features]
    """The features of a node type, in the order of ``schema.json``.

    A column that the table does not have counts as missing in every row.
    """
    schema, preparation = _json("schema.json"), _json("preparation.json")
    rows = len(table[next(iter(table))])
    prepared = preparation["types"].get(node_type, {})
    if node_type not in schema["columns"]:
        names = schema["nodes"][node_type]
        columns = [[float(cell) for cell in table[name]] for name in names]
    else:
        columns = [
            column
            for name in schema["columns"][node_type]
            for column in _prepared(table[name] if name in table else [""] * rows, prepared[name])
        ]
    if not columns:
        return torch.ones(rows, 1)
    return torch.tensor(columns, dtype=torch.float64).T.float().contiguous()


def links(sources: Iterable[Any], targets: Iterable[Any], ids: Iterable[Any]) -> Tensor:
    """PyG's ``edge_index``: each link once in both directions, without self loops.

    ``ids`` are the ids of the nodes in the order of their features.
    """
    ends = pairs(sources, targets, ids, ids)
    ends = ends[:, ends[0] != ends[1]]
    both: Tensor = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    return both.contiguous()


def pairs(
    sources: Iterable[Any],
    targets: Iterable[Any],
    source_ids: Iterable[Any],
    target_ids: Iterable[Any],
) -> Tensor:  # [2, pairs]
    """The indices of pairs of nodes, which may have different types."""
    ends = []
    for cells, ids in ((sources, source_ids), (targets, target_ids)):
        index = {str(one).strip(): number for number, one in enumerate(ids)}
        ends.append([index[str(cell).strip()] for cell in cells])
    return torch.tensor(ends, dtype=torch.int64).view(2, -1)


def _prepared(cells: Iterable[Any], column: Mapping[str, Any]) -> list[list[float]]:
    """The features of one column: scaled values, or one for each category; then marks of gaps."""
    texts = [str(cell).strip() for cell in cells]
    gaps = [text.lower() in MISSING for text in texts]
    marks = [[float(gap) for gap in gaps]] if column["marked"] else []
    if column["kind"] == "category":
        known = column["categories"]
        one_hot = [[float(text == name) for text in texts] for name in known]
        other = [
            float(not gap and text not in known) for text, gap in zip(texts, gaps, strict=True)
        ]
        return [*one_hot, other, *marks]
    values = [
        math.nan if gap else _value(text, column["kind"])
        for text, gap in zip(texts, gaps, strict=True)
    ]
    scaled = [
        0.0 if math.isnan(value) else (value - column["mean"]) / column["scale"] for value in values
    ]
    return [scaled, *marks]


def _value(text: str, kind: str) -> float:
    if kind == "flag":
        return FLAGS[text.lower()]
    if kind == "date":
        when = datetime.fromisoformat(text)
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
        return (when - EPOCH).total_seconds() / 86400
    return float(text)


def _json(name: str) -> Any:
    return json.loads((HERE / name).read_text())
