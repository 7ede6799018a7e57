"""Why a model predicts what it does: what features and links add to a probability or a number.

PyG's explainer with integrated gradients (Sundararajan et al., ICML 2017, from Captum): features
and links grow from zero to what they are, and each is credited with the change of the prediction
along the way. The credits add up to the prediction minus that of the baseline, a node or graph
with features of zero, which for prepared numbers is their mean, and without links.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ramet.data import EdgeGraph, GraphBlock, NodeGraph
from ramet.data.graphs.link_values import Edges, HasEdges
from ramet.errors import RametError, RametWarning, unknown
from ramet.models.link_kinds import FindsLinkKinds
from ramet.models.link_reading import values_read
from ramet.models.pyg import PyGGraphNetwork, PyGNodeNetwork
from ramet.prediction.decision import Decision, saved
from ramet.prediction.inputs import Input
from ramet.prediction.scores import outputs
from ramet.prediction.source import TRAINING, Source
from ramet.prediction.trained import Trained
from ramet.prediction.values import shown_values
from ramet.scale import SHARE, Scale
from ramet.tasks import Numbers, Target

if TYPE_CHECKING:
    import pandas as pd

_STEPS = 64
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Explanation:
    """What a prediction rests on. Contributions are parts of the probability or of the number.

    ``features``: ``feature``, ``value``, ``contribution`` and, of a node, ``neighbours``: what the
    feature contributes at other nodes. ``links``: ``source``, ``target``, ``contribution``. Both
    are sorted, the largest first.
    """

    client: str
    id: str
    """Of the node or graph."""
    output: str
    """The name of the class, label or number."""
    value: float
    """Its probability, or the number."""
    baseline: float
    """The same with all features zero and without links."""
    scale: Scale
    """Of these and of contributions: that of shares for probabilities, else with the unit."""
    features: pd.DataFrame
    links: pd.DataFrame
    decision: Decision | None = None
    """How the class follows from probabilities, if that was chosen."""

    def to_json(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "id": self.id,
            "output": self.output,
            "value": self.value,
            "baseline": self.baseline,
            "unit": "probability" if self.scale == SHARE else self.scale.unit,
            "features": self.features.to_dict(orient="records"),
            "links": self.links.to_dict(orient="records"),
            "decision": self.decision and self.decision.model_dump(),
        }


@dataclass(frozen=True)
class _Local:
    """The part of a graph that a prediction depends on, in PyG's form."""

    network: nn.Module
    x: Tensor  # [nodes, features]
    edge_index: Tensor  # [2, edges]
    more: dict[str, Tensor]
    """Further arguments of the network."""
    nodes: Tensor  # [nodes] indices in the whole graph
    index: int | None
    """The node to explain; None for a graph."""


def explained(
    trained: Trained,
    id_: str,
    source: Source = TRAINING,
    client: str | None = None,
    of: str | None = None,
) -> Explanation:
    """Explain the prediction for a node or graph of a site's data."""
    name = source.client_in(trained, client)
    given, model = source.input(trained, name), trained.model(name)
    decision, warning = saved(trained, name, model)
    if warning:
        warnings.warn(warning, RametWarning, stacklevel=3)
    return explain(trained, given, model, id_, of, decision)


def explain(
    trained: Trained,
    given: Input,
    model: nn.Module,
    id_: str,
    of: str | None = None,
    decision: Decision | None = None,
) -> Explanation:
    """Explain a model's prediction for the node or graph with this id.

    ``of`` is the class, label or number that is explained; by default the predicted class, the
    likeliest label, or the only number.
    """
    if not isinstance(given.graph, NodeGraph | GraphBlock) or isinstance(given.graph, EdgeGraph):
        raise RametError(
            "predictions of edges and links cannot be explained. Explanations are for nodes and "
            "graphs."
        )
    row = _row(given, id_)
    if isinstance(given.graph, NodeGraph):
        local = _around_node(model, given.target, given.graph, row)
    else:
        local = _one_graph(model, given.graph, row)
    chosen = decision or Decision(model="")
    column, heat = _column(given, local, of, chosen), chosen.temperature
    scale = given.graph.label_scale
    network = _Predictions(local.network, given.target, scale, column, heat).eval()
    found = _credits(network, local)
    return Explanation(
        client=given.client,
        id=id_,
        output=given.classes[column],
        value=float(found.prediction[local.index or 0]),
        baseline=_baseline(network, local),
        scale=Scale(unit=given.unit) if isinstance(given.target, Numbers) else SHARE,
        features=_features(trained, given, local, found.node_mask),
        links=_links(given, local, found.edge_mask),
        decision=decision,
    )


class _Predictions(nn.Module):
    """A network whose only output is a probability, or a number in its unit."""

    def __init__(
        self,
        network: nn.Module,
        target: Target,
        scale: Tensor | None,
        column: int,
        temperature: float,
    ) -> None:
        super().__init__()
        self.network, self.target, self.scale, self.column = network, target, scale, column
        self.temperature = temperature

    def forward(self, *inputs: Any, **more: Any) -> Tensor:  # [samples]
        values = self.target.values(self.network(*inputs, **more) / self.temperature, self.scale)
        return values[:, self.column]


@torch.no_grad()
def _column(given: Input, local: _Local, of: str | None, decision: Decision) -> int:
    """The output that is explained."""
    if of is not None and of not in given.classes:
        raise unknown("class, label or number", of, given.classes)
    if of is not None:
        return given.classes.index(of)
    if len(given.classes) > 1 and isinstance(given.target, Numbers):
        raise RametError(f"which number? Add --of: {', '.join(given.classes)}.")
    logits = local.network(local.x, local.edge_index, **local.more)[[local.index or 0]]
    if not given.target.has_classes:
        return int(logits.argmax())
    probabilities = given.target.predicted(logits)
    return int(decision.classes(decision.calibrated(probabilities))[0])


def _row(given: Input, id_: str) -> int:
    ids = given.row_ids["id"]
    rows = [row for row, known in enumerate(ids.tolist()) if str(known) == id_]
    if not rows:
        first = ", ".join(str(known) for known in ids[:3].tolist())
        raise RametError(f"the data has no id '{id_}'. Its first ids are {first}.")
    return rows[0]


def _around_node(model: nn.Module, target: Target, graph: NodeGraph, row: int) -> _Local:
    """The neighbourhood of a node, if it decides alone, which it does for known networks."""
    from torch_geometric.utils import k_hop_subgraph  # takes a second to import

    # the outermost nodes have the wrong degrees, so there is one hop more than layers
    hops = _layers(model) + 1
    nodes, *_ = k_hop_subgraph(row, hops, graph.both_ways.index, num_nodes=graph.nodes)
    near = graph.subgraph(nodes)
    index = int((nodes == row).nonzero()[0])
    whole, part = (target.values(outputs(model, g))[i] for g, i in ((graph, row), (near, index)))
    if not torch.allclose(whole, part, atol=_TOLERANCE):
        near, nodes, index = graph, torch.arange(graph.nodes), row
    model, near = _with_kinds_as_found(model, near)
    edges = _edges(model, near)
    more = {"edge_type": near.kinds[edges.links].long(), **_values(model, edges)}
    return _Local(PyGNodeNetwork(model), near.x, edges.index, more, nodes, index)


def _edges(model: nn.Module, graph: HasEdges) -> Edges:
    """The links along which the network passes messages, so that each can be masked."""
    one_way = "direction" in values_read(model) and not getattr(model, "one_way", False)
    return graph.edges if one_way else graph.both_ways


def _values(model: nn.Module, edges: Edges) -> dict[str, Tensor]:
    """What the network reads of the links besides their ends, by argument."""
    read, values = values_read(model), edges.values
    given = {
        "edge_attr": values.attributes if "attributes" in read else None,
        "edge_weight": values.weights if "weights" in read else None,
        "edge_direction": values.directions if "direction" in read else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _with_kinds_as_found(model: nn.Module, graph: NodeGraph) -> tuple[nn.Module, NodeGraph]:
    """If the model finds the kinds of links, keep those that it has found; they would jump."""
    if not isinstance(model, FindsLinkKinds) or not model.cluster:
        return model, graph
    with torch.no_grad():
        kinds = model.link_kinds(graph)
    reading = copy(model)
    reading.cluster = False
    return reading, replace(graph, kinds=kinds)


def _layers(model: nn.Module) -> int:
    """The number of message-passing layers, by the convention of `ramet.models.networks`."""
    return max(
        (
            len(part)
            for name, part in model.named_modules()
            if isinstance(part, nn.ModuleList) and name.split(".")[-1] == "layers"
        ),
        default=0,
    )


def _one_graph(model: nn.Module, block: GraphBlock, row: int) -> _Local:
    batch = block.cut(torch.tensor([row]))
    nodes = torch.arange(*block.node_starts[row : row + 2].tolist())
    edges = _edges(model, batch)
    more = {"batch": batch.batch, "structure": batch.structure, **_values(model, edges)}
    return _Local(PyGGraphNetwork(model), batch.x, edges.index, more, nodes, None)


def _credits(network: nn.Module, local: _Local) -> Any:
    """PyG's explanation, with ``prediction``, ``node_mask`` and ``edge_mask``."""
    from torch_geometric.explain import CaptumExplainer, Explainer, ModelConfig

    if not find_spec("captum"):
        raise RametError("explanations need Captum. Install it: pip install 'ramet[explain]'.")
    explainer = Explainer(
        network,
        CaptumExplainer("IntegratedGradients", n_steps=_STEPS),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object" if _reads_links(network, local) else None,
        model_config=ModelConfig(
            mode="regression", task_level="graph" if local.index is None else "node"
        ),
    )
    found = explainer(local.x, local.edge_index, index=local.index, **local.more)
    if "edge_mask" not in found:
        found.edge_mask = torch.zeros(local.edge_index.size(1))
    return found


def _reads_links(network: nn.Module, local: _Local) -> bool:
    """Whether the prediction depends on messages at all; if not, links have no gradient."""
    from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

    mask = torch.ones(local.edge_index.size(1), requires_grad=True)
    set_masks(network, mask, local.edge_index, apply_sigmoid=False)
    values = network(local.x, local.edge_index, **local.more)
    clear_masks(network)
    return torch.autograd.grad(values.sum(), mask, allow_unused=True)[0] is not None


@torch.no_grad()
def _baseline(network: nn.Module, local: _Local) -> float:
    """The prediction with all features zero and without messages along links."""
    from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

    nothing = torch.zeros(local.edge_index.size(1))
    set_masks(network, nothing, local.edge_index, apply_sigmoid=False)
    values = network(torch.zeros_like(local.x), local.edge_index, **local.more)
    clear_masks(network)
    return float(values[local.index or 0])


def _features(trained: Trained, given: Input, local: _Local, credit: Tensor) -> pd.DataFrame:
    import pandas as pd  # takes half a second to import

    names = [*next(iter(given.features.values()), ())]
    names = names or [f"x{number}" for number in range(credit.size(1))]
    total = credit.sum(dim=0)
    if local.index is None:
        columns = {"feature": names, "contribution": total.tolist()}
    else:
        own = credit[local.index]
        columns = {
            "feature": names,
            "value": shown_values(trained, given, local.x[local.index].tolist()),
            "contribution": own.tolist(),
            "neighbours": (total - own).tolist(),
        }
    size = credit.abs().sum(dim=0) if local.index is None else own.abs() + (total - own).abs()
    return _sorted(pd.DataFrame(columns), size)


def _links(given: Input, local: _Local, credit: Tensor) -> pd.DataFrame:
    """Both directions of a link together."""
    import pandas as pd

    (ids,) = given.ids.values()
    size = local.x.size(0)
    key = local.edge_index.amin(dim=0) * size + local.edge_index.amax(dim=0)
    links, link_of = torch.unique(key, return_inverse=True)
    total = torch.zeros(links.numel()).index_add(0, link_of, credit)
    left, right = (local.nodes[ends].numpy() for ends in (links // size, links % size))
    columns = {"source": ids[left], "target": ids[right], "contribution": total.tolist()}
    return _sorted(pd.DataFrame(columns), total.abs())


def _sorted(frame: pd.DataFrame, size: Tensor) -> pd.DataFrame:
    return frame.iloc[size.argsort(descending=True, stable=True).numpy()].reset_index(drop=True)
