"""Predictions as a table with ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.data import HeteroGraph
from ramet.data.own.new_data import new_data_name
from ramet.errors import RametError
from ramet.prediction.decision import Decision, saved
from ramet.prediction.inputs import Input, client_input, read_input
from ramet.prediction.scores import candidates, outputs
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


def predicted(
    trained: Trained,
    site: Path | None = None,
    client: str | None = None,
    links: Links = Links(),  # noqa: B008
    context: Path | None = None,
) -> Prediction:
    """Predict for a site's new data, or without a file for the data that a client trained on.

    ``context``: the TOML file of an earlier period, whose nodes and links are in the graph, too.
    """
    if context is not None and site is None:
        raise RametError("a context needs new data. Name its file with --site.")
    name = trained.client_of(None if site is None else new_data_name(site), client)
    given = (
        client_input(trained, name) if site is None else read_input(trained, name, site, context)
    )
    model = trained.model(name)
    decision, warning = saved(trained, name, model)
    warnings = (*given.warnings, warning) if warning else given.warnings
    return Prediction(name, frame(model, given, links, decision), warnings, decision)


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
        return rows[: next(iter(given.new.values()), None)]
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
    new = given.new.get(graph.types[ends.head].name)
    return rows if new is None else rows[ranked.heads.numpy() < new]


def _only_relation(graph: HeteroGraph) -> str:
    names = [relation.name for relation in graph.relations]
    if len(names) > 1:
        raise RametError(f"which links? Add --relation: {', '.join(names)}.")
    return names[0]
