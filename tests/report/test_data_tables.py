from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from own_sites import graph_site, node_site
from ramet.data.own import check_site, statistics
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
    kinds_table,
    links_table,
    portrait_table,
    relations_table,
    site_table,
    specialities_table,
    types_table,
)
from table_cells import columns, heads, rows


def seen(setting: str, **options: str) -> Inspection:
    return inspect(setting_named(setting, options), Reading(Path(), SPLIT_SEED))


def test_a_site_is_counted(tmp_path: Path) -> None:
    site = check_site(node_site(tmp_path / "north")).site
    assert site is not None
    table = site_table(site.name, site.schema.task, statistics(site, SPLIT_SEED))
    assert table.title == "north, for node-classification"
    found = {row[0]: row[1:] for row in rows(table)}
    # 40 patients, every third of them ill; each meets the third one after
    assert found["nodes: patient"] == ("40", "", "")
    assert found["edges: contact"] == ("40", "2", "2")
    assert found["class: ill"][0] == "14"
    assert found["class: healthy"][0] == "26"
    split = [int(found[f"split: {part}"][0]) for part in ("train", "val", "test")]
    assert sum(split) == 40


def test_a_site_with_many_graphs_says_how_many(tmp_path: Path) -> None:
    site = check_site(graph_site(tmp_path / "south")).site
    assert site is not None
    table = site_table(site.name, site.schema.task, statistics(site, SPLIT_SEED))
    assert rows(table)[0][:2] == ("graphs", "20")


def test_a_portrait_has_a_row_per_client() -> None:
    found = seen("tiny")
    assert isinstance(found, GraphInspection)
    table = portrait_table(found.clients, found.divergences, "tiny")
    assert table.title == "tiny: 3 clients"
    # the width of the features is in a column of its own, their divergence in another one
    assert heads(table) == [
        *("client", "graphs", "nodes", "links", "features", "graphs by class"),
        *("features", "structure"),
    ]
    found_rows = rows(table)
    assert [(row[0], row[1], row[4], row[5]) for row in found_rows] == [
        ("rings", "150", "5", "75 75"),
        ("trees", "150", "3", "75 75"),
        ("blocks", "150", "8", "75 75"),
    ]
    nodes, links = map(float, found_rows[1][2:4])
    assert links == pytest.approx(nodes - 1)  # a tree has one link less than it has nodes


def test_the_divergence_of_a_client_is_its_mean_over_the_others() -> None:
    clients = {name: ClientSummary(1234, 10.04, 9.96, 3, [1000, 234]) for name in "abc"}
    apart = np.array([[0, 0.2, 0.4], [0.2, 0, 0.6], [0.4, 0.6, 0]])
    cells = columns(portrait_table(clients, {"structure": apart}, "mine"))
    assert cells["structure"] == ["0.300", "0.400", "0.500"]  # (0.2 + 0.4) / 2, and so on
    assert (cells["graphs"][0], cells["nodes"][0], cells["links"][0]) == ("1,234", "10.0", "10.0")
    assert cells["graphs by class"][0] == "1000 234"


def test_one_client_is_apart_from_nobody() -> None:
    alone = {"a": ClientSummary(9, 1, 1, 1, [9])}
    table = portrait_table(alone, {"structure": np.zeros((1, 1))}, "x")
    assert table.title == "x: 1 client"
    assert columns(table)["structure"] == ["0.000"]


def test_kinds_of_links_are_counted_and_measured() -> None:
    found = seen("planted", nodes="200", links="60", clients="4")
    assert isinstance(found, LinkInspection)
    kinds = columns(kinds_table(found.kinds, "planted"))
    assert kinds["kind"] == ["kind 0", "kind 1", "kind 2", "kind 3"]
    assert kinds["links"] == ["60"] * 4
    assert kinds["edge homophily"] == [
        f"{kind.edge_homophily:.3f}" for kind in found.kinds.values()
    ]
    clients = columns(links_table(found.clients))
    assert list(clients) == ["client", "nodes", *kinds["kind"]]
    assert clients["client"] == ["part-00", "part-01", "part-02", "part-03"]
    for kind in kinds["kind"]:  # each link is some client's
        assert sum(map(int, clients[kind])) == 60


def test_types_and_relations_are_counted() -> None:
    found = seen("planted-hetero", nodes="60", links="200", clients="3")
    assert isinstance(found, RelationInspection)
    assert rows(types_table(found.types, "planted-hetero")) == [("a", "60", "8"), ("b", "60", "8")]
    # of 200 links of a relation 10 validate and 20 test, each beside as many pairs that are none
    assert rows(relations_table(found.relations)) == [
        ("rule-0", "a", "a", "170", "20", "40"),
        ("rule-1", "a", "b", "170", "20", "40"),
        ("rule-2", "b", "b", "170", "20", "40"),
    ]


def test_nodes_without_features_have_learned_vectors() -> None:
    table = types_table({"author": NodeTypeSummary(5959, None)}, "acm-hetero")
    assert rows(table) == [("author", "5,959", "learned vectors")]


def test_a_star_is_at_what_a_client_learns_to_predict() -> None:
    found = seen("planted-hetero", nodes="60", links="200", clients="3")
    assert isinstance(found, RelationInspection)
    table = columns(specialities_table(found.clients))
    for place, client in enumerate(table["client"]):
        held = found.clients[client]
        starred = [name for name in held.links if table[name][place].endswith("*")]
        assert starred == list(held.specialities)
        counts = {name: int(table[name][place].rstrip("* ")) for name in held.links}
        assert counts == held.links
