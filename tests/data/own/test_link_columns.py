"""Columns, weights, directions and aggregates of links in a site's own files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from own_sites import Row, write_csv, write_toml
from ramet.data import GraphBlock, NodeGraph
from ramet.data.own.preparation import agreed
from ramet.data.own.schema import Schema, differences
from ramet.data.own.site import Site, check_site, read_site

TOML = """\
site = "bank"
task = "node-classification"
classes = ["a", "b"]
smallest_count = 1

[nodes.account]
file = "accounts.csv"
{nodes}
label = "state"

[edges.transfer]
file = "transfers.csv"
{links}
"""
ROWS = [
    # source, target, amount, kind, when
    ("n0", "n1", 10.0, "card", "2026-01-01"),
    ("n0", "n1", 20.0, "wire", "2026-01-11"),
    ("n1", "n0", 30.0, "card", "2026-01-21"),
    ("n3", "n2", 40.0, "cash", "2026-01-31"),
    ("n4", "n4", 50.0, "card", "2026-01-31"),
]
HEADER = "source,target,amount,kind,when"


def bank(folder: Path, links: str, nodes: str = "", rows: Sequence[Row] | None = None) -> Path:
    accounts = [(f"n{n}", n, "ab"[n % 2]) for n in range(10)]
    write_csv(folder / "accounts.csv", "id,age,state", accounts)
    write_csv(folder / "transfers.csv", HEADER, ROWS if rows is None else rows)
    return write_toml(folder, TOML.format(nodes=nodes, links=links))


def graph_of(site: Site) -> NodeGraph:
    assert isinstance(site.graph, NodeGraph)
    return site.graph


def edges_of(graph: NodeGraph, column: int = 0) -> list[tuple[int, int, float]]:
    assert graph.edge_attr is not None
    values = graph.edge_attr[:, column].tolist()
    return sorted((s, t, v) for (s, t), v in zip(graph.edge_index.T.tolist(), values, strict=True))


def test_directed_transfers_keep_their_amounts_and_times(tmp_path: Path) -> None:
    site = read_site(
        bank(tmp_path, 'features = ["amount"]\ndirected = true\nweight = "amount"\ntime = "when"')
    )
    graph = graph_of(site)
    assert edges_of(graph) == [(0, 1, 10.0), (0, 1, 20.0), (1, 0, 30.0), (3, 2, 40.0)]
    assert torch.equal(graph.edge_weight, graph.edge_attr[:, 0])  # type: ignore[index, arg-type]
    days = (graph.link_values.times - graph.link_values.times.min()).tolist()  # type: ignore
    assert sorted(days) == [0.0, 10.0, 20.0, 30.0]
    assert site.remarks[1:] == (
        "transfers.csv: 'kind' is not used",
        "transfer: 5 rows give 4 links. 0 repeat a link in its direction, 1 link a node to itself; "
        "neither counts",
    )
    assert (site.schema.links, site.schema.weighted, site.schema.directed) == (
        {"transfer": ("amount",)}, ("transfer",), ("transfer",)
    )  # fmt: skip


def test_prepared_columns_of_links_are_agreed_like_those_of_nodes(tmp_path: Path) -> None:
    links = 'columns = { amount = "number", kind = "category", when = "ignored" }'
    site = read_site(bank(tmp_path, links))
    assert str(site.sums.types["edges.transfer"]["kind"]) == "the names card, cash, wire"
    assert "edges.transfer.amount: count 5, sum 150" in site.sums.in_words()[0]
    other = site.sums.model_copy()
    preparation = agreed({"bank": site.sums, "other": other})
    prepared = site.prepared(preparation)
    assert prepared is not None
    expanded = preparation.expanded(site.schema)
    assert expanded.links == {
        "transfer": ("amount", "amount missing", "kind=card", "kind=cash", "kind=wire",
                     "kind other", "kind missing")
    }  # fmt: skip
    assert expanded.link_width == 7
    scaled = (np.array([10, 20, 30, 40]) - 30) / np.std([10, 20, 30, 40, 50])
    one_way = edges_of(graph_of(prepared))[::2]
    assert sorted(value for _, _, value in edges_of(graph_of(prepared)))[::2] == pytest.approx(
        sorted(scaled.tolist()), abs=1e-6
    )
    assert len(one_way) == 4


def test_without_values_equal_links_are_one(tmp_path: Path) -> None:
    assert graph_of(read_site(bank(tmp_path / "plain", ""))).links == 2
    directed = graph_of(read_site(bank(tmp_path / "directed", "directed = true")))
    assert directed.edge_index.T.tolist() == [[1, 0], [0, 1], [3, 2]]
    assert directed.edge_attr is None


def test_undirected_links_listed_in_both_directions_count_once(tmp_path: Path) -> None:
    rows = [(a, b, x, k, w) for a, b, x, k, w in ROWS[2:4]]
    both = [*rows, *((b, a, x, k, w) for a, b, x, k, w in rows)]
    site = read_site(bank(tmp_path, 'features = ["amount"]\nweight = "amount"', rows=both))
    assert graph_of(site).links == 2
    assert not [remark for remark in site.remarks if "rows give" in remark]
    unequal = [*both[:3], ("n2", "n3", 41.0, "cash", "2026-01-31")]
    site = read_site(bank(tmp_path / "unequal", 'features = ["amount"]', rows=unequal))
    assert graph_of(site).links == 4


def test_several_edge_types_have_their_columns_side_by_side(tmp_path: Path) -> None:
    toml = bank(tmp_path, 'features = ["amount"]\ndirected = true')
    write_csv(tmp_path / "owners.csv", "source,target,share", [("n5", "n6", 0.5)])
    owns = '\n[edges.owns]\nfile = "owners.csv"\nfeatures = ["share"]\n'
    toml.write_text(toml.read_text() + owns)
    graph = graph_of(read_site(toml))
    assert graph.kind_names == ("owns", "transfer")
    assert edges_of(graph, 0)[-2:] == [(5, 6, 0.5), (6, 5, 0.5)]
    assert edges_of(graph, 1)[-2:] == [(5, 6, 0.0), (6, 5, 0.0)]
    assert [edge for edge in edges_of(graph, 1) if edge[2]] == [
        (0, 1, 10.0), (0, 1, 20.0), (1, 0, 30.0), (3, 2, 40.0)
    ]  # fmt: skip


def test_a_site_without_edges_of_a_type_has_their_width(tmp_path: Path) -> None:
    toml = bank(tmp_path, 'columns = { amount = "number" }')
    text = toml.read_text()
    toml.write_text(text + '\n[edges.owns]\ncolumns = { share = "number" }\nweight = "share"\n')
    site = read_site(toml)
    graph = graph_of(site)
    assert graph.edge_attr is not None
    assert graph.edge_attr.size(1) == 4
    assert graph.edge_weight is not None
    assert set(graph.edge_weight.tolist()) == {1.0}


def aggregates(toml: Path) -> dict[str, list[float]]:
    """The aggregates before they are prepared, by column."""
    values = read_site(toml).columns["account"].values
    return {name: column.tolist()[:5] for name, column in values.items()}


def test_aggregates_of_directed_transfers_by_hand(tmp_path: Path) -> None:
    links = 'features = ["amount"]\ndirected = true\naggregate = ["sum", "mean", "count"]'
    found = aggregates(bank(tmp_path, links))
    assert found["transfer in amount sum"] == [30, 30, 40, 0, 50]
    assert found["transfer out amount sum"] == [30, 30, 0, 40, 50]
    assert found["transfer in count"] == [1, 2, 1, 0, 1]
    assert found["transfer out count"] == [2, 1, 0, 1, 1]
    assert found["transfer in amount mean"][:3] == [30, 15, 40]
    assert np.isnan(found["transfer in amount mean"][3])
    assert len(found) == 6


def test_aggregates_of_undirected_links_by_category_and_window(tmp_path: Path) -> None:
    kind = 'kind = { kind = "category", categories = ["card", "wire", "cash"] }'
    links = (
        f'columns = {{ amount = "number", {kind} }}\naggregate = ["sum", "count"]\n'
        'time = "when"\nwindows = [15, 365]'
    )
    found = aggregates(bank(tmp_path, links, 'columns = { age = "number" }'))
    assert found["transfer amount sum 365 days"] == [60, 60, 40, 40, 100]
    assert found["transfer amount sum 15 days"] == [30, 30, 40, 40, 100]  # after 16 January
    assert found["transfer kind=card count 365 days"] == [2, 2, 0, 0, 2]
    assert found["transfer kind=card count 15 days"] == [1, 1, 0, 0, 2]
    assert found["age"] == [0, 1, 2, 3, 4]


def test_aggregates_are_prepared_and_part_of_the_schema(tmp_path: Path) -> None:
    site = read_site(bank(tmp_path, 'aggregate = ["count"]\ndirected = true'))
    assert site.schema.nodes == {"account": ("transfer in count", "transfer out count")}
    assert graph_of(site).features.shape == (10, 2)
    assert graph_of(site).features.mean(dim=0).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert not graph_of(site).link_values.attributes
    prepared = site.prepared(agreed({"bank": site.sums}))
    assert prepared is not None
    assert torch.equal(graph_of(prepared).features, graph_of(site).features)


def test_tensors_have_attributes_and_weights(tmp_path: Path) -> None:
    index = torch.tensor([[0, 1, 2, 5], [1, 0, 3, 5]])
    tensors = {
        "x": torch.randn(10, 2),
        "y": torch.arange(10) % 2,
        "edge_index": index,
        "edge_attr": torch.tensor([[1.0], [2.0], [3.0], [4.0]]),
        "edge_weight": torch.tensor([1, 2, 3, 4]),
    }
    save_file(tensors, tmp_path / "graph.safetensors")
    toml = write_toml(
        tmp_path,
        'site = "bank"\ntask = "node-classification"\nclasses = ["a", "b"]\n'
        'tensors = "graph.safetensors"\n[nodes.account]\nfeatures = 2\n'
        '[edges.transfer]\nfeatures = 1\nweight = "edge_weight"\ndirected = true\n',
    )
    graph = graph_of(read_site(toml))
    assert edges_of(graph) == [(0, 1, 1.0), (1, 0, 2.0), (2, 3, 3.0)]
    assert sorted(graph.edge_weight.tolist()) == [1.0, 2.0, 3.0]  # type: ignore[union-attr]


@pytest.mark.parametrize("folder", [False, True])
def test_many_graphs_have_values_of_links(tmp_path: Path, folder: bool) -> None:
    graphs = range(12)
    write_csv(tmp_path / "graphs.csv", "id,label", [(f"g{n}", "ab"[n % 2]) for n in graphs])
    of_graph = 'file = "graphs.csv"\n'
    files = ("", "")
    if folder:
        of_graph += 'folder = "parts"\n'
        for n in graphs:
            write_csv(tmp_path / f"parts/g{n}.nodes.csv", "id,mass", [(k, k) for k in range(3)])
            write_csv(
                tmp_path / f"parts/g{n}.edges.csv", "source,target,length", [(1, 0, n), (1, 2, 7)]
            )
    else:
        atoms = [(k, f"g{n}", k) for n in graphs for k in range(3)]
        write_csv(tmp_path / "atoms.csv", "id,graph,mass", atoms)
        bonds = [(*row, f"g{n}") for n in graphs for row in ((1, 0, n), (1, 2, 7))]
        write_csv(tmp_path / "bonds.csv", "source,target,length,graph", bonds)
        files = ('file = "atoms.csv"\n', 'file = "bonds.csv"\n')
    toml = write_toml(
        tmp_path,
        f'site = "lab"\ntask = "graph-classification"\nclasses = ["a", "b"]\n[graphs]\n{of_graph}'
        f'[nodes.atom]\n{files[0]}features = ["mass"]\n[edges.bond]\n{files[1]}'
        'features = ["length"]\ndirected = true\n',
    )
    block = read_site(toml).graph
    assert isinstance(block, GraphBlock)
    batch = block.cut(torch.tensor([11, 3] if not folder else [3, 5]))
    lengths = sorted(batch.edge_attr[:, 0].tolist())  # type: ignore[index]
    assert lengths == [3.0, 7.0, 7.0, 11.0]
    assert batch.edge_index.size(1) == 4


def test_fingerprints_differ_in_what_links_carry(tmp_path: Path) -> None:
    one = read_site(bank(tmp_path / "one", 'features = ["amount"]\ndirected = true')).schema
    other = read_site(bank(tmp_path / "other", 'features = ["amount"]')).schema
    plain = read_site(bank(tmp_path / "plain", "")).schema
    assert differences(one, other, ["links"]) == ["its directed edge types also include transfer"]
    assert differences(plain, other, ["links"]) == ["its columns of edges 'transfer' lack amount"]
    assert Schema.parse(one.text(), "bank") == one
    assert "links" not in plain.text()
    assert "directed" not in plain.text()


def test_weights_far_from_one_are_remarked(tmp_path: Path) -> None:
    from ramet.data.own.advice import warnings

    (text,) = [
        one for one in warnings(read_site(bank(tmp_path, 'weight = "amount"'))) if "gcn" in one
    ]
    assert text.startswith("the mean weight of a link is 25, and gcn counts a node itself")
    assert check_site(tmp_path / "site.toml").count == 0
