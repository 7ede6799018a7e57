"""Clients whose PyG objects are given in Python, and kept in the data folder.

The folder's name is a hash of what is in it, so the same objects are kept once, and a run finds
them again in any process.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, get_args

import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor

from ramet.data import (
    ClientData,
    EdgeGraph,
    GraphBlock,
    LabelledEdges,
    NodeGraph,
    Split,
    StructureEncoding,
)
from ramet.data.fingerprint import data_sha256
from ramet.data.graphs.node_graph import node_graph_of
from ramet.data.label_scale import standardising
from ramet.data.own.schema import TargetKind, TaskName, level_of
from ramet.data.splits import PARTS
from ramet.disk import replace_file
from ramet.errors import RametError, RametWarning
from ramet.partition.base import Reading, Setting
from ramet.partition.checked import is_name
from ramet.partition.pyg_labels import task_of
from ramet.partition.pyg_objects import (
    SHARE,
    as_list,
    check_widths,
    graph_of,
    is_data,
    labelled_nodes,
    masks,
    split_data,
    with_targets,
)

GIVEN = "given"
"""The name of the setting, and of the folder in the data folder."""
_OWN_FOLDER = 0o700
_CLASSES, _WIDTH, _LABELLED = "classes", "feature_width", "labelled"
_NUMBERS = "numbers"
"""Marks labels that are numbers."""


@dataclass(frozen=True)
class GivenSetting(Setting):
    """Clients with PyG objects that `ramet.run` was given."""

    clients: tuple[str, ...] = ()
    task: TaskName | None = None
    sha256: str = ""
    split: float | None = None
    same_schema: bool = True
    about: str = "PyG objects, given to ramet.run as clients={…}"

    def client_data(self, client: str, reading: Reading) -> ClientData[Any, Split]:
        folder, seed = _folder(reading.data, self.sha256), reading.split_seed
        data, are_numbers = _read(folder, client, self.split, reading)
        if not are_numbers:
            return data
        scale = _common_scale(folder, self.clients, self.split, seed)
        return replace(data, content=replace(data.content, label_scale=scale))


def _read(
    folder: Path, client: str, split: float | None, reading: Reading
) -> tuple[ClientData[Any, Split], bool]:
    """A client's data, and whether its labels are numbers."""
    file = folder / f"{client}.safetensors"
    if not file.exists():
        raise RametError(
            f"the data of {client}, which was given in Python, is not in {folder} (any more). Give "
            "the same `clients` to ramet.run once more, or name the data folder that has it with "
            "--data."
        )
    tensors = load_file(file)
    are_numbers = tensors.pop(_NUMBERS, None) is not None
    graph, parts, labelled = _restored(tensors)
    given_parts = None if split else parts
    return split_data(graph, given_parts, split or SHARE, reading, labelled), are_numbers


@lru_cache(maxsize=32)
def _common_scale(
    folder: Path, clients: tuple[str, ...], split: float | None, split_seed: int
) -> Tensor:
    """The means and deviations of the numbers of all clients' training samples."""
    reading = Reading(folder, split_seed, StructureEncoding(0, 0))
    read = (_read(folder, client, split, reading)[0] for client in clients)
    return standardising([data.content.labels[data.split.train] for data in read])


def given(
    names: str = "",
    task: TaskName | None = None,
    sha256: str = "",
    split: Annotated[float, Field(gt=0, lt=0.5)] | None = None,
    same_schema: bool = True,
) -> GivenSetting:
    """``names``, ``task`` and ``sha256``: set by `ramet.run` for its ``clients``.

    ``split``: share of nodes or graphs for test, and as many for validation; by default the masks
    of the objects or, without masks, 0.2. ``same_schema``: whether all clients have the same
    features and classes.
    """
    return GivenSetting(tuple(shlex.split(names)), task, sha256, split, same_schema)


def with_given(
    setting: str, options: Mapping[str, Any], data: Path, task: str | None = None
) -> tuple[str, dict[str, Any]]:
    """The setting and the options of a run, with its ``clients`` kept if they are PyG objects.

    ``task``: that of the run, if it is given.
    """
    if not isinstance(options.get("clients"), Mapping):
        return setting, {**options}
    if setting not in ("tiny", GIVEN):
        raise RametError(f"`clients` are given, so there is no setting {setting}. Leave out one.")
    rest = {key: value for key, value in options.items() if value is not None}
    clients, directed = rest.pop("clients"), bool(rest.pop("directed", False))
    known: Any = task if task in get_args(TaskName) else None
    return GIVEN, {**rest, **_kept(clients, rest, directed, data, known)}


def _kept(
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    directed: bool,
    data: Path,
    task: TaskName | None,
) -> dict[str, Any]:
    """Keep the clients' graphs in the data folder; the options by which a run finds them."""
    same, split = bool(options.get("same_schema", True)), options.get("split")
    clients = {name: one if is_data(one) else as_list(one, name) for name, one in given.items()}
    _check_clients(clients)
    if split is not None and not (isinstance(split, float) and 0 < split < 0.5):
        raise RametError(f"split={split} must be above 0 and below 0.5: the share for test.")
    kind, clients = with_targets(clients, task)
    classes = _class_count(clients) if same and kind == "class" else None
    graphs = {name: graph_of(one, name, classes, directed, task) for name, one in clients.items()}
    if same:
        widths = {name: _width(graph) for name, graph in graphs.items()}
        check_widths(widths, ", or write same_schema=False, if they differ on purpose")
        if kind == "class":
            _warn_of_single_classes(clients, graphs)
    parts = {name: None if split else masks(one, name) for name, one in clients.items()}
    if any(parts.values()) and not all(parts.values()):
        lacking = next(name for name, one in parts.items() if one is None)
        raise RametError(f"{lacking} has no masks, but others have. Add them, or write split=0.2.")
    labelled = {
        name: None if parts[name] else labelled_nodes(one, name, split or SHARE)
        for name, one in clients.items()
    }
    kept = {name: _stored(graphs[name], parts[name], labelled[name]) for name in clients}
    if kind == "number":
        kept = {name: {**tensors, _NUMBERS: torch.ones(1)} for name, tensors in kept.items()}
    sha256 = _sha256(graphs, parts, labelled, kind)
    _write(_folder(data, sha256), kept)
    level = "node" if any(map(is_data, clients.values())) else "graph"
    if task is not None:
        level = level_of(task)
    return {"names": shlex.join(clients), "task": task_of(level, kind), "sha256": sha256}


def _check_clients(clients: Mapping[str, Any]) -> None:
    if not clients:
        raise RametError("`clients` is empty. Give a dict with a PyG object for each name.")
    for name in clients:
        if not is_name(name):
            raise RametError(
                f"{name!r} cannot be a client's name, because it names a folder too. Use letters, "
                "digits, - and _."
            )
    kinds = {is_data(one): name for name, one in clients.items()}
    if len(kinds) > 1:
        raise RametError(
            f"{kinds[True]} is one graph and {kinds[False]} is not. Give a Data for each client, "
            "to classify nodes, or a list of Data for each, to classify graphs."
        )


def _class_count(clients: Mapping[str, Any]) -> int | None:
    """The number of classes at all clients; None if there is a client without."""
    graphs = [graph for one in clients.values() for graph in ([one] if is_data(one) else one)]
    if any(graph.y is None for graph in graphs):
        return None
    return int(max(torch.as_tensor(graph.y).max() for graph in graphs)) + 1


def _width(graph: NodeGraph | GraphBlock) -> int:
    return graph.feature_width if isinstance(graph, GraphBlock) else graph.features.size(1)


def _warn_of_single_classes(
    clients: Mapping[str, Any], graphs: Mapping[str, NodeGraph | GraphBlock]
) -> None:
    """Say which classes only one of several clients has."""
    held = {name: {*_classes_of(clients[name], graph)} for name, graph in graphs.items()}
    for name, own in held.items():
        others = set[int]().union(*(held[other] for other in held if other != name))
        if alone := sorted(own - others):
            listed = ", ".join(map(str, alone))
            text = (
                f"only {name} has the class{'es' if len(alone) > 1 else ''} {listed}, so the "
                "others have nothing to learn it from. Check that all number classes alike."
            )
            if len(held) > 1:
                warnings.warn(text, RametWarning, stacklevel=5)


def _classes_of(one: Any, graph: NodeGraph | GraphBlock) -> list[int]:
    """The classes of a client; unlabelled nodes have none."""
    labels = graph.labels[one.y.cpu().flatten() >= 0] if is_data(one) else graph.labels
    return [int(label) for label in torch.unique(labels)]


def _stored(
    graph: NodeGraph | GraphBlock, parts: Split | None, labelled: Tensor | None
) -> dict[str, Tensor]:
    tensors = {**graph.tensors(), _CLASSES: torch.tensor(graph.classes)}
    if isinstance(graph, GraphBlock):
        tensors[_WIDTH] = torch.tensor(graph.feature_width)
    if labelled is not None:
        tensors[_LABELLED] = labelled
    return tensors | ({part: getattr(parts, part) for part in PARTS} if parts else {})


def _restored(
    tensors: dict[str, Tensor],
) -> tuple[NodeGraph | GraphBlock, Split | None, Tensor | None]:
    """The graph, its masks, and the nodes that have a class."""
    classes, labelled = int(tensors.pop(_CLASSES)), tensors.pop(_LABELLED, None)
    parts = [tensors.pop(part) for part in PARTS if part in tensors]
    split = Split(*parts) if parts else None
    if _WIDTH not in tensors:
        asked, rest = LabelledEdges.taken_from(tensors)
        graph = node_graph_of(rest, classes, ("link",))
        return (EdgeGraph.of(graph, asked, graph.labels) if asked else graph), split, labelled
    width = int(tensors.pop(_WIDTH))
    block = replace(GraphBlock.from_tensors(tensors, width), class_count=classes)
    return block, split, labelled


def _sha256(
    graphs: Mapping[str, NodeGraph | GraphBlock],
    parts: Mapping[str, Split | None],
    labelled: Mapping[str, Tensor | None],
    kind: TargetKind,
) -> str:
    """The hash of all clients' data, and of what their labels are."""
    none = torch.empty(0, dtype=torch.int64)
    hashes = {}
    for name, graph in graphs.items():
        own, nodes = parts[name], labelled[name]
        split = own or Split(none if nodes is None else nodes, none, none)
        hashes[name] = data_sha256(ClientData(graph, split))
    hashed = hashes if kind == "class" else {"labels": kind, "clients": hashes}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def _folder(data: Path, sha256: str) -> Path:
    return data / GIVEN / sha256[:16]


def _write(folder: Path, kept: Mapping[str, dict[str, Tensor]]) -> None:
    """Write what is not there yet, for nobody else to read."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_OWN_FOLDER, exist_ok=True)
    for name, tensors in kept.items():
        file = folder / f"{name}.safetensors"
        if not file.exists():
            plain = {key: tensor.contiguous() for key, tensor in tensors.items()}
            replace_file(file, partial(save_file, plain))
