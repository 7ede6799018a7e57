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
from importlib import import_module
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


def read_inputs(folder: str | Path = ".") -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The network's arguments, from the tables that ``tables.json`` names, in this folder.

    Also the ids of nodes by type and, if there are many, of graphs, in the order of the arguments.
    For links, the pairs to score are not among the arguments.
    """
    described, folder = _json("tables.json"), Path(folder)
    nodes = {name: _node_table(folder, name, part) for name, part in described["nodes"].items()}
    edges = {name: _read(folder, part["file"]) for name, part in described["edges"].items()}
    if described["task"] == "link-prediction":
        return _link_inputs(described, nodes, edges)
    ((node_type, table),) = nodes.items()
    part = described["nodes"][node_type]
    if described["task"].startswith("graph-"):
        graphs = texts(_read(folder, described["graphs"]["file"])[described["graphs"]["id"]])
        ((edge_part, links_of_graphs),) = (
            (described["edges"][name], edges[name]) for name in described["edges"]
        )
        inputs = _graph_inputs(table, node_type, part, links_of_graphs, edge_part, graphs)
        return inputs, {"graphs": graphs}
    ids = texts(table[part["id"]])
    by_kind = [
        links(edges[name][of_kind["source"]], edges[name][of_kind["target"]], ids)
        if edges[name]
        else torch.empty((2, 0), dtype=torch.int64)
        for name, of_kind in sorted(described["edges"].items())
    ]
    inputs = {"x": features(table, node_type), "edge_index": torch.cat(by_kind, dim=1)}
    if "edge_type" in _json("config.json")["inputs"]:
        kinds = [torch.full((ends.size(1),), kind) for kind, ends in enumerate(by_kind)]
        inputs["edge_type"] = torch.cat(kinds)
    return inputs, {node_type: ids}


def _graph_inputs(
    nodes: Any,
    node_type: str,
    part: Mapping[str, str],
    edges: Any,
    edge_part: Mapping[str, str],
    graphs: list[str],
) -> dict[str, Any]:
    """The arguments for many graphs, with the nodes of each graph one after the other."""
    number = {name: index for index, name in enumerate(graphs)}
    of_node, of_edge = texts(nodes[part["graph"]]), texts(edges[edge_part["graph"]])
    batch = torch.tensor([number[name] for name in of_node])
    order = batch.argsort(stable=True)
    ids = [*zip(of_node, texts(nodes[part["id"]]), strict=True)]  # an id is unique in its graph
    sources, targets = (
        [*zip(of_edge, texts(edges[edge_part[end]]), strict=True)] for end in ("source", "target")
    )
    edge_index = links(sources, targets, [ids[index] for index in order.tolist()])
    x = features(nodes, node_type, batch.tolist())[order]
    batch, config = batch[order], _json("config.json")
    inputs = {"x": x, "edge_index": edge_index, "batch": batch}
    if "structure" in config["inputs"]:
        encoding = import_module("ramet_code.structure").StructureEncoding
        block = import_module("ramet_code.graph_block").GraphBlock.from_links(
            rows=edge_index[1],
            columns=edge_index[0],
            node_starts=torch.bincount(batch + 1, minlength=len(graphs) + 1).cumsum(0),
            features=x,
            feature_width=x.size(1),
            labels=torch.zeros(len(graphs)),
            name="the tables",
        )
        inputs["structure"] = encoding(**config["structure_encoding"])(block)
    return inputs


def _link_inputs(
    described: Mapping[str, Any], nodes: Mapping[str, Any], edges: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    ids = {name: texts(nodes[name][part["id"]]) for name, part in described["nodes"].items()}
    known = {}
    for name, part in sorted(described["edges"].items()):
        head, tail, table = part["from"], part["to"], edges[name]
        sources, targets = (table[part[end]] if table else () for end in ("source", "target"))
        known[head, name, tail] = pairs(sources, targets, ids[head], ids[tail])
    x_dict = {name: features(table, name) for name, table in nodes.items()}
    return {"x_dict": x_dict, "edge_index_dict": known}, ids


def _node_table(folder: Path, node_type: str, part: Mapping[str, str]) -> Any:
    """The table of a node type; without rows if there are no such nodes."""
    columns = (part["id"], *_json("schema.json")["nodes"][node_type])
    return _read(folder, part["file"]) or {name: [] for name in columns}


def _read(folder: Path, file: str | None) -> Any:
    """A table; empty if there is no file."""
    if file is None:
        return {}
    if Path(file).suffix.lower() == ".parquet":
        cells = import_module("pandas").read_parquet(folder / file)
        return {name: cells[name].tolist() for name in cells}
    return read_csv(folder / file)


def texts(cells: Iterable[Any]) -> list[str]:
    """Cells as text, without spaces around it; empty if there is nothing in a cell."""
    return ["" if cell is None or cell != cell else str(cell).strip() for cell in cells]


def read_csv(path: str | Path) -> dict[str, list[str]]:
    """Read a table with a header."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    return {name.strip(): [row[n] for row in rows if row] for n, name in enumerate(header)}


def features(
    table: Any, node_type: str, graphs: list[int] | None = None
) -> Tensor:  # [rows, features]
    """The features of a node type, or of ``edges.TYPE``, in the order of ``schema.json``.

    A column that the table does not have counts as missing in every row, if values may be missing.
    ``graphs``: the graph of each row, if there are many; ages count to the last date of each.
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
            for column in _prepared(
                table[name] if name in table or not prepared[name]["marked"] else [""] * rows,
                prepared[name],
                _missing_values(node_type, name),
                graphs or [0] * rows,
            )
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
        index = {_key(one): number for number, one in enumerate(ids)}
        ends.append([index[_key(cell)] for cell in cells])
    return torch.tensor(ends, dtype=torch.int64).view(2, -1)


def _key(given: Any) -> Any:
    return given if isinstance(given, tuple) else str(given).strip()


def _missing_values(node_type: str, column: str) -> set[str]:
    """The cells that count as missing in a column, in any case."""
    if not (HERE / "tables.json").exists():
        return MISSING
    return {"", *_json("tables.json")["nodes"][node_type]["missing"].get(column, MISSING)}


def _prepared(
    cells: Iterable[Any], column: Mapping[str, Any], missing: set[str], graphs: list[int]
) -> list[list[float]]:
    """The features of one column: scaled values, or one for each category; then marks of gaps."""
    given = texts(cells)
    gaps = [text.lower() in missing for text in given]
    marks = [[float(gap) for gap in gaps]] if column["marked"] else []
    if column["kind"] == "category":
        known = column["categories"]
        one_hot = [[float(text == name) for text in given] for name in known]
        other = [
            float(not gap and text not in known) for text, gap in zip(given, gaps, strict=True)
        ]
        return [*one_hot, other, *marks]
    values = [
        math.nan if gap else _value(text, column["kind"])
        for text, gap in zip(given, gaps, strict=True)
    ]
    if column["kind"] == "age":
        last: dict[int, float] = {}
        for graph, value in zip(graphs, values, strict=True):
            if not math.isnan(value):
                last[graph] = max(value, last.get(graph, value))
        values = [last.get(graph, 0) - v for graph, v in zip(graphs, values, strict=True)]
    scaled = [
        0.0 if math.isnan(value) else (value - column["mean"]) / column["scale"] for value in values
    ]
    return [scaled, *marks]


def _value(text: str, kind: str) -> float:
    if kind == "flag":
        return FLAGS[text.lower()]
    if kind in ("date", "age"):
        when = datetime.fromisoformat(text)
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
        return (when - EPOCH).total_seconds() / 86400
    return float(text)


def _json(name: str) -> Any:
    return json.loads((HERE / name).read_text())
