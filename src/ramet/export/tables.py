"""How a site's tables are called, so that an exported model can read them."""

from __future__ import annotations

from typing import Any

from ramet.data.own.description import Description
from ramet.data.own.files import described
from ramet.prediction import Trained


def tables_of(trained: Trained, client: str) -> dict[str, Any] | None:
    """Files and columns of a client's own tables, if `prepare.py` can read all that is needed.

    None if they are not tables or not available, or if links carry values or are summed up.
    """
    experiment = trained.experiment
    schema = experiment.raw_schemas.get(client)
    toml = experiment.setting.data_of(client, experiment.settings.data)
    if schema is None or toml is None or not toml.exists():
        return None
    description = described(toml)
    in_tables = description.tensors is None and not (
        description.graphs is not None and description.graphs.folder
    )
    now = description.site_schema
    same_types = (now.nodes.keys(), now.edges.keys()) == (schema.nodes.keys(), schema.edges.keys())
    plain = not any(part.values_given for part in description.edges.values())
    return _named(description) if in_tables and same_types and plain else None


def _named(description: Description) -> dict[str, Any]:
    nodes = {
        name: {
            "file": part.file,
            "id": part.id,
            "graph": part.graph,
            "missing": {column: sorted(one.markers) for column, one in part.prepared.items()},
        }
        for name, part in sorted(description.nodes.items())
    }
    edges = {}
    for name, part in sorted(description.edges.items()):
        head, tail = description.ends(name)
        columns = {"source": part.source, "target": part.target, "graph": part.graph}
        edges[name] = {"file": part.file, "from": head, "to": tail, **columns}
    graphs = description.graphs
    of_graphs = None if graphs is None else {"file": graphs.file, "id": graphs.id}
    return {"task": description.task, "nodes": nodes, "edges": edges, "graphs": of_graphs}
