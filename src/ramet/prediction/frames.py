"""Predictions as a table with ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ramet.data import HeteroGraph
from ramet.data.own.new_data import new_data_name
from ramet.errors import RametError
from ramet.prediction.inputs import Input, client_input, read_input
from ramet.prediction.scores import candidates, probabilities
from ramet.prediction.trained import Trained

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
    return Prediction(name, frame(model, given, links), given.warnings)


def frame(model: nn.Module, given: Input, links: Links = Links()) -> pd.DataFrame:  # noqa: B008
    """For nodes and graphs ``id``, ``class`` and the probability of each class, ``p_CLASS``.

    For links ``source``, ``rank``, ``target`` and ``probability``.
    """
    import pandas as pd  # takes half a second to import

    graph = given.graph
    if not isinstance(graph, HeteroGraph):
        chances = probabilities(model, graph).numpy()
        classes = [given.classes[index] for index in chances.argmax(axis=1)]
        columns = {f"p_{name}": chances[:, n] for n, name in enumerate(given.classes)}
        rows = pd.DataFrame({"id": given.row_ids, "class": classes, **columns})
        return rows[: next(iter(given.new.values()), None)]
    relation = links.relation or _only_relation(graph)
    found = candidates(model, graph, relation, links.top, links.known)
    ends = next(one for one in graph.relations if one.name == relation)
    heads, tails = (given.ids[graph.types[end].name] for end in (ends.head, ends.tail))
    rows = pd.DataFrame(
        {
            "source": heads[found.heads.numpy()],
            "rank": found.ranks.numpy(),
            "target": tails[found.tails.numpy()],
            "probability": found.probabilities.numpy(),
        }
    )
    new = given.new.get(graph.types[ends.head].name)
    return rows if new is None else rows[found.heads.numpy() < new]


def _only_relation(graph: HeteroGraph) -> str:
    names = [relation.name for relation in graph.relations]
    if len(names) > 1:
        raise RametError(f"which links? Add --relation: {', '.join(names)}.")
    return names[0]
