"""PyG's `Data` objects as a client's data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor

from ramet.data import ClientData, EdgeGraph, GraphBlock, LabelledEdges, NodeGraph, Split
from ramet.data.graphs.graph_block import block_with_values
from ramet.data.own.content import Edges, no_edges
from ramet.data.own.links import LinksOfType, links_of
from ramet.data.own.parts import EdgePart
from ramet.data.own.schema import TargetKind, TaskName
from ramet.data.splits import PARTS, node_split
from ramet.errors import RametError
from ramet.partition.base import Reading
from ramet.partition.pyg_labels import check_outputs, kind_of, labelled, targets

if TYPE_CHECKING:
    from torch_geometric.data import Data

Graphs: TypeAlias = "Data | Sequence[Data]"
Sample: TypeAlias = Literal["node", "graph", "edge"]
SHARE = 0.2
"""The share of nodes or graphs for test if neither a share nor masks are given."""
_SMALLEST = 5
"""The number of samples that can be split."""


def from_pyg(
    data: Graphs,
    reading: Reading,
    *,
    split: float | None = None,
    classes: int | None = None,
    directed: bool = False,
    task: TaskName | None = None,
) -> ClientData[Any, Split]:
    """The data of a client: a `Data` whose nodes have classes, or a list of `Data` with a class.

    ``x`` are the features, ``y`` the classes from 0 on, and -1 for a node without a class; or
    floats, which are numbers to predict: [samples] or [samples, numbers], NaN where unknown. For
    ``edge-classification`` ``y`` has the class of each column of ``edge_index``. ``edge_attr`` and
    ``edge_weight`` are taken along.

    Args:
        data: one graph, or many.
        reading: as `Setting.client_data` is given it.
        split: the share of nodes or graphs for test, and as many for validation. Default: the
            masks of ``data`` or, without masks, 0.2.
        classes: the number of classes at all clients; default: those that are here.
        directed: whether links go one way, from the first row of ``edge_index`` to the second.
        task: what ``y`` is for; needed for several labels of 0 and 1, as ``"node-multilabel"``.
    """
    listed = data if is_data(data) else as_list(data, "the data")
    _, named = with_targets({"the data": listed}, task)
    (data,) = named.values()
    graph = graph_of(data, "the data", classes, directed, task)
    parts, share = None if split else masks(data, "the data"), split or SHARE
    labelled = None if parts else labelled_nodes(data, "the data", share)
    return split_data(graph, parts, share, reading, labelled)


def split_data(
    graph: NodeGraph | GraphBlock,
    parts: Split | None,
    share: float,
    reading: Reading,
    labelled: Tensor | None,
) -> ClientData[Any, Split]:
    """A client's data with these parts or, without, a seeded split of what has a class."""
    if parts is None:
        chosen = torch.arange(len(graph.labels)) if labelled is None else labelled
        drawn = node_split(graph.labels[chosen], reading.split_seed, 1 - 2 * share)
        parts = Split(*(chosen[getattr(drawn, part)] for part in PARTS))
    if isinstance(graph, GraphBlock):
        return ClientData(reading.inputs.added_to(graph), parts)
    return ClientData(graph, parts)


def graph_of(
    data: Graphs, who: str, classes: int | None, directed: bool, task: TaskName | None = None
) -> NodeGraph | GraphBlock:
    """One graph whose nodes or edges have labels, or many graphs that have one each."""
    if is_data(data) and task == "edge-classification":
        return _edge_graph(data, who, classes, directed)
    if is_data(data):
        return _node_graph(data, who, classes, directed)
    return _graph_block(as_list(data, who), who, classes, directed)


def with_targets(
    clients: Mapping[str, Any], task: TaskName | None
) -> tuple[TargetKind, dict[str, Any]]:
    """What y says, and the data with floats [samples, outputs] as y, if that is not classes."""
    nodes = {*map(is_data, clients.values())} == {True}
    named = {
        (who, number): one
        for who, data in clients.items()
        for number, one in enumerate([data] if nodes else as_list(data, who))
    }
    known = {_named(*key, nodes): one.y for key, one in named.items() if one.y is not None}
    kind = kind_of(known, "node" if nodes else "graph", task)
    if kind == "class":
        return kind, {**clients}
    changed: dict[str, list[Any]] = {who: [] for who in clients}
    for (who, number), one in named.items():
        same = copy(one)
        same.y = targets(one.y, one.num_nodes if nodes else 1, _named(who, number, nodes), kind)
        changed[who].append(same)
    check_outputs(
        (_named(who, number, nodes), one.y.size(1))
        for who, ones in changed.items()
        for number, one in enumerate(ones)
    )
    return kind, {who: ones[0] if nodes else ones for who, ones in changed.items()}


def _named(who: str, number: int, nodes: bool) -> str:
    return who if nodes else f"graph {number} of {who}"


def is_data(data: object) -> bool:
    from torch_geometric.data import Data  # takes seconds to import

    return isinstance(data, Data)


def as_list(data: Any, who: str) -> list[Any]:
    """Many graphs; an error if this is something else."""
    from torch_geometric.data.data import BaseData

    single = isinstance(data, str | dict | Tensor | BaseData) or not isinstance(data, Iterable)
    graphs = [] if single else [*data]
    if not graphs or not all(map(is_data, graphs)):
        raise RametError(
            f"{who} is {type(data).__name__}, but a torch_geometric.data.Data is needed, or a list "
            "of them. For several node types, write a site's TOML file (docs/own-graphs.md)."
        )
    return graphs


def masks(data: Any, who: str) -> Split | None:
    """The parts that the masks of a graph give; None if it has none."""
    if not is_data(data):
        return None
    given: dict[str, Any] = {part: getattr(data, f"{part}_mask", None) for part in PARTS}
    missing = [f"{part}_mask" for part, mask in given.items() if mask is None]
    if len(missing) == len(PARTS):
        return None
    if missing:
        raise RametError(
            f"{who} has masks, but no {' and no '.join(missing)}. Add it, or write split=0.2 to "
            "leave the masks out."
        )
    parts = {part: _masked(mask, data.y, f"{part}_mask of {who}") for part, mask in given.items()}
    nodes, times = torch.unique(torch.cat([*parts.values()]), return_counts=True)
    if (times > 1).any():
        raise RametError(f"{who}: node {int(nodes[times > 1][0])} is in two masks.")
    return Split(**parts)


def _masked(mask: Tensor, labels: Tensor, name: str) -> Tensor:
    if mask.dim() == 2:
        raise RametError(f"{name} has {mask.size(1)} splits. Choose one: mask[:, 0].")
    if mask.dtype != torch.bool or mask.numel() != len(labels):
        raise RametError(f"{name} must be {len(labels)} booleans, one per node.")
    nodes = mask.cpu().nonzero().flatten()
    if not nodes.numel() and not name.startswith("val"):
        kind = name.partition("_")[0]
        raise RametError(f"{name} is all False, so there are no {kind} nodes. Write split=0.2.")
    without = nodes[~labelled(labels)[nodes]]
    if without.numel():
        lacks = "NaN: it is unknown" if labels.is_floating_point() else "-1: it has no class"
        raise RametError(f"{name} has node {int(without[0])}, whose y is {lacks}.")
    return nodes


def labelled_nodes(data: Any, who: str, share: float) -> Tensor | None:
    """The nodes that have a class; None for graphs, which all have one.

    Too few for a test of this share are an error.
    """
    found = labelled(data.y).nonzero().flatten() if is_data(data) else None
    count = len(as_list(data, who)) if found is None else found.numel()
    if count < _SMALLEST or round(count * share) < 1:
        of_class = found is None or not data.y.is_floating_point()
        what = "graphs" if found is None else f"nodes with a {'class' if of_class else 'known y'}"
        raise RametError(
            f"{who} has {count} {what}, which cannot be split with split={share:g}. Give it more, "
            "or a larger share."
        )
    return found


def _node_graph(data: Data, who: str, classes: int | None, directed: bool) -> NodeGraph:
    features = _features(data, who)
    labels = _labels(data.y, features.size(0), who, classes, "node")
    count = labels.size(1) if labels.dim() > 1 else classes or int(labels.max()) + 1
    known = labels if labels.is_floating_point() else labels.clamp(min=0)
    links = _links(data, features.size(0), who, directed)
    return _joined(features, known, count, links)


def _joined(features: Tensor, labels: Tensor, classes: int, links: LinksOfType) -> NodeGraph:
    left, right = links.ends.to(torch.int32).contiguous()
    return NodeGraph(
        features=features,
        labels=labels,
        classes=classes,
        left=left,
        right=right,
        kinds=torch.zeros(left.numel(), dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.zeros(len(labels), dtype=torch.bool),
        link_values=links.values,
    )


def _edge_graph(data: Data, who: str, classes: int | None, directed: bool) -> EdgeGraph:
    from torch_geometric.utils import is_undirected

    features = _features(data, who)
    edges = _edges(data, features.size(0), who)
    labels = _labels(data.y, edges.ends.size(1), who, classes, "edge")
    if not directed and edges.ends.numel() and is_undirected(edges.ends):
        raise RametError(
            f"edge_index of {who} has each edge in both directions, of which one could be for "
            "training and the other for test. Give each edge once, or write directed=True."
        )
    links = links_of(edges, EdgePart(directed=directed), len(features))
    graph = _joined(features, labels, classes or int(labels.max()) + 1, links)
    asked = LabelledEdges(edges.ends, edges.attributes, directed)
    return EdgeGraph.of(graph, asked, labels.clamp(min=0))


def _graph_block(
    graphs: Sequence[Data], who: str, classes: int | None, directed: bool
) -> GraphBlock:
    from torch_geometric.data import Batch

    names = [f"graph {number} of {who}" for number in range(len(graphs))]
    features = [_features(graph, name) for graph, name in zip(graphs, names, strict=True)]
    check_widths({name: own.size(1) for name, own in zip(names, features, strict=True)})
    labels = [
        _labels(graph.y, 1, name, classes, "graph")
        for graph, name in zip(graphs, names, strict=True)
    ]
    for graph, own, name in zip(graphs, features, names, strict=True):
        _ends(graph, own.size(0), name)
    kinds = {tuple(sorted(key for key in ("edge_attr", "edge_weight") if key in g)) for g in graphs}
    if len(kinds) > 1:
        raise RametError(f"some graphs of {who} have edge_attr or edge_weight, and others not.")
    keys = ["x", "edge_index", *kinds.pop()]
    plain = [type(graph)(**{key: graph[key] for key in keys}) for graph in graphs]
    starts = torch.tensor([0, *(own.size(0) for own in features)]).cumsum(0)
    links = _links(Batch.from_data_list(plain), int(starts[-1]), who, directed)
    x, y = torch.cat(features), torch.cat(labels)
    if links.values:
        block = block_with_values(links.ends, links.values, starts, x, x.size(1), y)
    else:
        rows, columns = torch.cat([links.ends, links.ends.flip(0)], dim=1)
        block = GraphBlock.from_links(rows, columns, starts, x, x.size(1), y, who)
    return block if y.dim() > 1 else replace(block, class_count=classes or int(y.max()) + 1)


def check_widths(widths: dict[str, int], more: str = "") -> None:
    """Check that everyone has the same number of features."""
    (first, width), *others = widths.items()
    for other, own in others:
        if own != width:
            raise RametError(
                f"{first} has {width} features per node and {other} {own}. Give all the same "
                f"columns, in the same order{more}."
            )


def _features(data: Data, who: str) -> Tensor:  # [nodes, features]
    x = data.x
    if x is None:
        raise RametError(
            f"{who} has no x. Give its nodes features, for example with Constant() or "
            "OneHotDegree(10) of torch_geometric.transforms."
        )
    if x.dim() != 2:
        raise RametError(
            f"x of {who} has shape {list(x.shape)}, but one row per node is needed. For one "
            "feature, write x.unsqueeze(1)."
        )
    values: Tensor = x.detach().cpu().to_dense().to(torch.float32).contiguous()
    wrong = (~values.isfinite()).nonzero()
    if wrong.numel():
        row, column = wrong[0].tolist()
        raise RametError(
            f"x of {who} has {float(values[row, column])} in row {row}, column {column}. Fill in "
            "what is missing."
        )
    return values


def _labels(given: Any, count: int, who: str, classes: int | None, of: Sample) -> Tensor:
    """[count] the classes, or [count, outputs] what `with_targets` made of y."""
    lowest = 0 if of == "graph" else -1
    if given is None:
        raise RametError(f"{who} has no y. Give {f'each {of}' if lowest else 'it'} its class.")
    y = torch.as_tensor(given)
    if y.is_floating_point() and y.dim() == 2 and y.size(0) == count:
        return y
    if y.numel() != count:
        rows = f"{count} {of}s" if lowest < 0 else "one graph"
        raise RametError(f"y of {who} has shape {list(y.shape)}, but one class for {rows} is due.")
    if y.is_floating_point() or y.is_complex():
        raise RametError(
            f"y of {who} is {y.dtype}, but classes are whole numbers from 0 on. Write y.long()."
        )
    labels = y.detach().cpu().flatten().to(torch.int64)
    if int(labels.min()) < lowest or int(labels.max()) < 0:
        raise RametError(
            f"y of {who} has {int(labels.min())}, but classes count from 0"
            f"{', and -1 is a missing one' if lowest < 0 else ''}."
        )
    if classes is not None and int(labels.max()) >= classes:
        raise RametError(f"y of {who} has class {int(labels.max())}, but classes={classes}.")
    return labels


def _links(data: Data, nodes: int, who: str, directed: bool) -> LinksOfType:
    return links_of(_edges(data, nodes, who), EdgePart(directed=directed), nodes)


def _edges(data: Data, nodes: int, who: str) -> Edges:
    ends = _ends(data, nodes, who)
    attributes, weights = data.edge_attr, data.edge_weight
    for name, values in (("edge_attr", attributes), ("edge_weight", weights)):
        if values is not None and values.size(0) != ends.size(1):
            raise RametError(
                f"{name} of {who} has {values.size(0)} rows, but edge_index {ends.size(1)} edges."
            )
    return Edges(
        ends,
        attributes=None if attributes is None else _columns(attributes, f"edge_attr of {who}"),
        weights=None if weights is None else _columns(weights, f"edge_weight of {who}")[:, 0],
    )


def _columns(values: Tensor, name: str) -> Tensor:  # [edges, columns]
    table = values.detach().cpu().to(torch.float32).reshape(values.size(0), -1)
    if not table.isfinite().all() or (name.startswith("edge_weight") and (table < 0).any()):
        raise RametError(f"{name} has a value that is not finite, or a negative weight.")
    return table.contiguous()


def _ends(data: Data, nodes: int, who: str) -> Tensor:  # [2, edges]
    ends: Tensor | None = data.edge_index
    if ends is None:
        raise RametError(
            f"{who} has no edge_index. Without links, give torch.empty((2, 0)).long()."
        )
    if ends.numel() == 0:
        return no_edges()
    if ends.dim() != 2 or ends.size(0) != 2 or ends.is_floating_point():
        raise RametError(f"edge_index of {who} must be two rows of whole numbers.")
    ends = ends.detach().cpu().to(torch.int64)
    if int(ends.min()) < 0 or int(ends.max()) >= nodes:
        wrong = ends[(ends < 0) | (ends >= nodes)][0]
        raise RametError(f"edge_index of {who} has node {int(wrong)}, but there are {nodes} nodes.")
    return ends
