"""Graphs know the ids of their nodes, for methods that may use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch

import ramet
from own_sites import link_site, node_site
from planted_edges import BY_TIME, DIRECTED, bank
from ramet.data import ClientData, HeteroGraph, NodeGraph, StructureEncoding
from ramet.data.fingerprint import data_sha256
from ramet.data.own.site import Site, read_site

CLOSER = """
from dataclasses import dataclass, replace

import numpy as np

from ramet import fedavg


@dataclass(frozen=True)
class Closer:
    names: tuple[str, ...] = ("p3", "p7")

    def __call__(self, session):
        def term(batch, output):
            return output[np.isin(batch.ids, self.names)].square().mean()

        return term


def closer():
    return replace(fedavg(), name="closer", penalty=Closer())
"""


def of_nodes(site: Site) -> NodeGraph:
    assert isinstance(site.graph, NodeGraph)
    return site.graph


def with_other_ids(path: Path) -> Path:
    for table, columns in (("patients.csv", ["id"]), ("contacts.csv", ["source", "target"])):
        rows = pd.read_csv(path.parent / table)
        rows[columns] = rows[columns].map(lambda name: f"customer {name}")
        rows.to_csv(path.parent / table, index=False)
    return path


def test_nodes_have_the_ids_of_their_table(tmp_path: Path) -> None:
    path = node_site(tmp_path / "north")
    graph = of_nodes(read_site(path))
    names = pd.read_csv(path.parent / "patients.csv")["id"].tolist()
    assert graph.ids is not None
    assert graph.ids.tolist() == names
    chosen = torch.tensor([7, 0, 3])
    some = graph.subgraph(chosen)
    assert some.ids is not None
    assert some.ids.tolist() == ["p7", "p0", "p3"]
    assert some.with_neighbours(torch.tensor([0]), some.features[:1]).ids is None
    assert "p7" not in repr(graph)


def test_each_period_and_each_type_has_its_ids(tmp_path: Path) -> None:
    path = bank(tmp_path / "a", 0, keys=f'{DIRECTED}\ntime = "date"', more=BY_TIME)
    site = read_site(path)
    names = pd.read_csv(path.parent / "accounts.csv")["id"].tolist()
    for graph in (site.graph, *site.later.values()):
        assert isinstance(graph, NodeGraph)
        assert graph.ids is not None
        assert graph.ids.tolist() == names
    linked = read_site(link_site(tmp_path / "links"))
    assert isinstance(linked.graph, HeteroGraph)
    by_type = {one.name: one.ids for one in linked.graph.types}
    assert by_type.pop("gene") is None  # not there
    for name, ids in by_type.items():
        assert ids is not None
        assert ids.tolist() == pd.read_csv(tmp_path / "links" / f"{name}s.csv")["id"].tolist()


def test_ids_are_not_what_data_are_known_by(tmp_path: Path) -> None:
    sites = [node_site(tmp_path / "one" / "a"), with_other_ids(node_site(tmp_path / "two" / "a"))]
    data: list[ClientData[Any, Any]] = [
        read_site(path).client_data(1, StructureEncoding(0, 0)) for path in sites
    ]
    assert data[0].content.ids.tolist() != data[1].content.ids.tolist()
    assert data_sha256(data[0]) == data_sha256(data[1])


def test_a_method_may_use_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLOSER)
    sites = [node_site(tmp_path / name, seed) for seed, name in enumerate("ab")]
    runs: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("plain", "fedavg", {}),
        ("closer", f"{tmp_path}/mine.py:closer", {}),
        ("workers", f"{tmp_path}/mine.py:closer", {"workers": 2}),
    )
    found = {
        name: ramet.run(method, "own", sites=sites, out=tmp_path / name, rounds=2, **given)
        for name, method, given in runs
    }
    sums = {name: result.summary.sha256 for name, result in found.items()}
    assert sums["closer"] == sums["workers"]
    assert len({*sums.values()}) == 2
