from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from own_sites import graph_site, node_site
from ramet.data.own.site import check_site, statistics
from ramet.experiment import SPLIT_SEED
from ramet.experiment.named import setting_named
from ramet.partition import Reading
from ramet.partition.inspection import (
    ClientSummary,
    GraphInspection,
    Inspection,
    LinkInspection,
    NodeTypeSummary,
    RelationInspection,
    inspect,
)
from ramet.report.data_tables import (
    graphs_table,
    kinds_table,
    links_table,
    relations_table,
    site_table,
    specialities_table,
    types_table,
)
from table_cells import columns, headers, rows


def inspected(setting: str, **options: str) -> Inspection:
    return inspect(setting_named(setting, options), Reading(Path(), SPLIT_SEED))


def test_the_site_table_has_counts(tmp_path: Path) -> None:
    site = check_site(node_site(tmp_path / "north")).site
    assert site is not None
    table = site_table(site.name, site.schema.task, statistics(site, SPLIT_SEED))
    assert table.title == "north, for node-classification"
    cells = {row[0]: row[1:] for row in rows(table)}
    # 40 patients, every third of them ill; each meets the third one after it
    assert cells["nodes: patient"] == ("40", "", "")
    assert cells["edges: contact"] == ("40", "2", "2")
    assert cells["class: ill"][0] == "14"
    assert cells["class: healthy"][0] == "26"
    split = {head: own[0] for head, own in cells.items() if head.startswith("split")}
    assert split == {
        "split: train (healthy 16, ill 8)": "24",
        "split: val (healthy 5, ill 3)": "8",
        "split: test (healthy 5, ill 3)": "8",
    }


def test_the_site_table_has_the_number_of_graphs(tmp_path: Path) -> None:
    site = check_site(graph_site(tmp_path / "south")).site
    assert site is not None
    table = site_table(site.name, site.schema.task, statistics(site, SPLIT_SEED))
    assert rows(table)[0][:2] == ("graphs", "20")


def test_the_graphs_table_has_a_row_per_client() -> None:
    inspection = inspected("tiny")
    assert isinstance(inspection, GraphInspection)
    table = graphs_table(inspection.clients, inspection.divergences, "tiny")
    assert table.title == "tiny: 3 clients"
    # "features" appears twice: their number, and their divergence
    assert headers(table) == [
        *("client", "graphs", "nodes", "links", "features", "graphs by class"),
        *("features", "structure"),
    ]
    shown = rows(table)
    assert [(row[0], row[1], row[4], row[5]) for row in shown] == [
        ("rings", "150", "5", "75 75"),
        ("trees", "150", "3", "75 75"),
        ("blocks", "150", "8", "75 75"),
    ]
    nodes, links = map(float, shown[1][2:4])
    assert links == pytest.approx(nodes - 1)  # a tree


def test_divergences_are_means_over_the_other_clients() -> None:
    clients = {name: ClientSummary(1234, 10.04, 9.96, 3, [1000, 234]) for name in "abc"}
    divergence = np.array([[0, 0.2, 0.4], [0.2, 0, 0.6], [0.4, 0.6, 0]])
    cells = columns(graphs_table(clients, {"structure": divergence}, "mine"))
    assert cells["structure"] == ["0.300", "0.400", "0.500"]  # (0.2 + 0.4) / 2, and so on
    assert (cells["graphs"][0], cells["nodes"][0], cells["links"][0]) == ("1,234", "10.0", "10.0")
    assert cells["graphs by class"][0] == "1000 234"


def test_a_single_client_has_no_divergence() -> None:
    alone = {"a": ClientSummary(9, 1, 1, 1, [9])}
    table = graphs_table(alone, {"structure": np.zeros((1, 1))}, "x")
    assert table.title == "x: 1 client"
    assert columns(table)["structure"] == ["0.000"]


def test_kinds_of_links_have_counts_and_homophily() -> None:
    inspection = inspected("planted", nodes="200", links="60", clients="4")
    assert isinstance(inspection, LinkInspection)
    kinds = columns(kinds_table(inspection.kinds, "planted"))
    assert kinds["kind"] == ["kind 0", "kind 1", "kind 2", "kind 3"]
    assert kinds["links"] == ["60"] * 4
    assert kinds["edge homophily"] == [
        f"{kind.edge_homophily:.3f}" for kind in inspection.kinds.values()
    ]
    clients = columns(links_table(inspection.clients))
    assert list(clients) == ["client", "nodes", *kinds["kind"]]
    assert clients["client"] == ["part-00", "part-01", "part-02", "part-03"]
    for kind in kinds["kind"]:  # each link belongs to one client
        assert sum(map(int, clients[kind])) == 60


def test_types_and_relations_have_counts() -> None:
    inspection = inspected("planted-hetero", nodes="60", links="200", clients="3")
    assert isinstance(inspection, RelationInspection)
    assert rows(types_table(inspection.types, "planted-hetero")) == [
        ("a", "60", "8"),
        ("b", "60", "8"),
    ]
    # of 200 links of a relation, 10 validate and 20 test, with as many pairs that are not linked
    assert rows(relations_table(inspection.relations)) == [
        ("rule-0", "a", "a", "170", "20", "40"),
        ("rule-1", "a", "b", "170", "20", "40"),
        ("rule-2", "b", "b", "170", "20", "40"),
    ]


def test_nodes_without_features_have_a_learned_embedding() -> None:
    table = types_table({"author": NodeTypeSummary(5959, None)}, "acm-hetero")
    assert rows(table) == [("author", "5,959", "learned embedding")]


def test_a_star_marks_relations_that_a_client_learns_to_predict() -> None:
    inspection = inspected("planted-hetero", nodes="60", links="200", clients="3")
    assert isinstance(inspection, RelationInspection)
    table = columns(specialities_table(inspection.clients))
    for index, client in enumerate(table["client"]):
        held = inspection.clients[client]
        starred = [name for name in held.links if table[name][index].endswith("*")]
        assert starred == list(held.specialities)
        counts = {name: int(table[name][index].rstrip("* ")) for name in held.links}
        assert counts == held.links
