"""Predictions as a table with ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ramet.data import HeteroGraph
from ramet.errors import RametError
from ramet.prediction.decision import Decision, saved
from ramet.prediction.inputs import Input
from ramet.prediction.scores import candidates, outputs
from ramet.prediction.source import TRAINING, Source
from ramet.prediction.trained import Trained
from ramet.tasks import Numbers

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn


@dataclass(frozen=True)
class Links:
    """Which links are ranked.

    ``relation``: an edge type, None for the only one; ``top``: candidates for each node;
    ``known``: whether links that the data has are among the candidates.
    """

    relation: str | None = None
    top: int = 10
    known: bool = False


@dataclass(frozen=True)
class Prediction:
    """A table with a row for each node or graph, or for each candidate link, and warnings."""

    client: str
    frame: pd.DataFrame
    warnings: tuple[str, ...]
    decision: Decision | None = None
    """How classes follow from probabilities, if that was chosen."""
    notes: tuple[str, ...] = ()
    """How many rows are new, and which were joined, added or dropped."""


def predicted(
    trained: Trained,
    source: Source = TRAINING,
    client: str | None = None,
    links: Links = Links(),  # noqa: B008
) -> Prediction:
    """Predict for a site's new data, or without any for the data that a client trained on."""
    name = source.client_in(trained, client)
    given = source.input(trained, name)
    model = trained.model(name)
    decision, warning = saved(trained, name, model)
    warnings = (*given.warnings, warning) if warning else given.warnings
    found = frame(model, given, links, decision)
    return Prediction(name, found, warnings, decision, given.notes)


def frame(
    model: nn.Module,
    given: Input,
    links: Links = Links(),  # noqa: B008
    decision: Decision | None = None,
) -> pd.DataFrame:
    """For nodes and graphs ``id``, ``class`` and the probability of each class, ``p_CLASS``.

    Edges have ``source`` and ``target``, too. Of several labels there is the probability of each,
    and numbers have columns of their names. For links ``source``, ``rank``, ``target`` and
    ``probability``.
    """
    import pandas as pd  # takes half a second to import

    graph = given.graph
    if not isinstance(graph, HeteroGraph):
        found = given.target.predicted(outputs(model, graph), graph.label_scale)
        if decision is not None:
            found = decision.calibrated(found)
        prefix = "" if isinstance(given.target, Numbers) else "p_"
        columns: dict[str, Any] = {
            f"{prefix}{name}": found[:, n] for n, name in enumerate(given.classes)
        }
        if given.target.has_classes:
            chosen = found.argmax(axis=1) if decision is None else decision.classes(found)
            classes = [given.classes[index] for index in chosen]
            columns = {"class": classes, **columns}
        rows = pd.DataFrame({**given.row_ids, **columns})
        return rows[: _new(given, next(iter(given.new), ""))]
    relation = links.relation or _only_relation(graph)
    ranked = candidates(model, graph, relation, links.top, links.known)
    ends = next(one for one in graph.relations if one.name == relation)
    heads, tails = (given.ids[graph.types[end].name] for end in (ends.head, ends.tail))
    rows = pd.DataFrame(
        {
            "source": heads[ranked.heads.numpy()],
            "rank": ranked.ranks.numpy(),
            "target": tails[ranked.tails.numpy()],
            "probability": ranked.probabilities.numpy(),
        }
    )
    new = _new(given, graph.types[ends.head].name)
    return rows if new is None else rows[ranked.heads.numpy() < new]


def _new(given: Input, node_type: str) -> int | None:
    """How many of the first nodes of a type are new; None for all."""
    count = given.new.get(node_type)
    if count == 0:
        raise RametError(f"the new data has no rows of {node_type}, so nothing is predicted.")
    return count


def _only_relation(graph: HeteroGraph) -> str:
    names = [relation.name for relation in graph.relations]
    if len(names) > 1:
        raise RametError(f"which links? Add --relation: {', '.join(names)}.")
    return names[0]
