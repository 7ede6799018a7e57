"""A split by time: what each part's graph has, derived by hand or by pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from own_sites import graph_site, link_site, write_csv, write_toml
from planted_times import DATES, first_transfers
from ramet.data import GraphBlock, NodeGraph
from ramet.data.graphs.structure import StructureEncoding
from ramet.data.own.advice import warnings
from ramet.data.own.preparation import agreed
from ramet.data.own.site import Site, check_site, read_site
from ramet.data.splits import PARTS

BANK = """\
site = "bank"
task = "node-classification"
classes = ["a", "b"]
{split}
[nodes.account]
file = "accounts.csv"
label = "state"
time = "when"
{nodes}
[edges.transfer]
file = "transfers.csv"
directed = true
{edges}
"""
AGGREGATE = 'columns = { amount = "number" }\naggregate = ["sum", "count"]\ntime = "date"'
NUMBER = 'columns = { size = "number" }'


def bank(
    folder: Path, edges: str = AGGREGATE, split: str = DATES, nodes: str = "", **change: Any
) -> Path:
    """Twelve accounts, one a month; each transfers to the next one on the 15th, and to the first.

    The account of December has no class yet.
    """
    months = [f"2025-{n + 1:02}" for n in range(12)]
    rows = [
        [f"n{n}", n + 1, f"{one}-10", "ab"[n % 2] if n < 11 else "", f"{one}-01"]
        for n, one in enumerate(months)
    ]
    links = [
        (f"n{n}", f"n{to}", 2**n, f"{one}-15", f"{one}-28")
        for n, one in enumerate(months)
        for to in ((n + 1) % 12, 0)
        if to != n
    ]
    for (row, column), value in change.get("cells", {}).items():
        rows[row][column] = value
    write_csv(folder / "accounts.csv", "id,size,when,state,closed", rows)
    write_csv(folder / "transfers.csv", "source,target,amount,date,booked", links)
    return write_toml(folder, BANK.format(edges=edges, split=split, nodes=nodes))


def graphs_of(site: Site) -> dict[str, NodeGraph]:
    held = site.client_data(0, StructureEncoding(0, 0))
    graphs = {"train": held.content, **(held.evaluated_on or {})}
    assert all(isinstance(graph, NodeGraph) for graph in graphs.values())
    return graphs


def parts_of(site: Site) -> list[list[int]]:
    split = site.client_data(0, StructureEncoding(0, 0)).split
    return [getattr(split, part).tolist() for part in PARTS]


def test_dates_split_the_accounts_and_each_part_sees_the_links_up_to_its_end(
    tmp_path: Path,
) -> None:
    site = read_site(bank(tmp_path, edges='time = "date"'))
    assert parts_of(site) == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9, 10]]
    transfers = pd.read_csv(tmp_path / "transfers.csv")
    for part, end in (("train", "2025-06-30"), ("val", "2025-08-31"), ("test", "2025-11-10")):
        expected = transfers[transfers["date"] <= end]
        ends = [expected[one].str[1:].astype(int).tolist() for one in ("source", "target")]
        found = graphs_of(site)[part].edge_index.tolist()
        assert sorted(zip(*found, strict=True)) == sorted(zip(*ends, strict=True))


def test_aggregates_of_each_part_are_those_of_its_links(tmp_path: Path) -> None:
    site = read_site(bank(tmp_path))
    preparation = agreed({"bank": site.sums})
    prepared = preparation.types["account"]
    transfers = pd.read_csv(tmp_path / "transfers.csv")
    names = [*prepared]
    assert names == [
        f"transfer {way} {what}" for way in ("in", "out") for what in ("amount sum", "count")
    ]
    for part, end in (("train", "2025-06-30"), ("val", "2025-08-31"), ("test", "2025-11-10")):
        given = transfers[transfers["date"] <= end]
        received = given.groupby("target")["amount"].sum()
        one = prepared["transfer in amount sum"]
        expected = [(received.get(f"n{n}", 0) - one.mean) / one.scale for n in range(12)]
        assert graphs_of(site)[part].features[:, 0].tolist() == pytest.approx(expected, abs=1e-5)
    assert site.sums.types["account"]["transfer in count"].count == 0  # fewer than 10 accounts


def test_what_is_agreed_comes_from_training_alone(tmp_path: Path) -> None:
    top = DATES.replace("\n[split]", "smallest_count = 1\n[split]")
    site = read_site(bank(tmp_path, edges=AGGREGATE, split=top, nodes=NUMBER))
    told = site.sums.types
    assert (told["account"]["size"].count, told["account"]["size"].total) == (6, 21.0)
    assert told["account"]["transfer in amount sum"].count == 6
    training = 2 * sum(2**n for n in range(1, 6)) + 1
    assert told["edges.transfer"]["amount"].total == training
    later = bank(tmp_path / "other", AGGREGATE, top, NUMBER, cells={(9, 1): 1e6})
    assert read_site(later).sums == site.sums


def test_other_links_change_nothing_before_their_date(tmp_path: Path) -> None:
    before = read_site(bank(tmp_path))
    table = tmp_path / "transfers.csv"
    table.write_text(table.read_text() + "n3,n4,1000000,2025-09-01,2025-09-01\n")
    after = read_site(tmp_path / "site.toml")
    same = {
        part: torch.equal(graphs_of(before)[part].features, graphs_of(after)[part].features)
        and torch.equal(graphs_of(before)[part].edge_index, graphs_of(after)[part].edge_index)
        for part in PARTS
    }
    assert same == {"train": True, "val": True, "test": False}
    assert before.sums == after.sums


def test_links_without_times_are_there_when_both_ends_are(tmp_path: Path) -> None:
    site = read_site(bank(tmp_path, edges=""))
    assert int(graphs_of(site)["train"].edge_index.max()) == 5
    assert int(graphs_of(site)["val"].edge_index.max()) == 7
    assert any("the edges have no times" in text for text in warnings(site))


def test_the_days_of_windows_and_ages_count_from_the_last_link_of_each_part(
    tmp_path: Path,
) -> None:
    edges = f"{AGGREGATE}\nage = true\nwindows = [40]"
    top = DATES.replace("\n[split]", "smallest_count = 1\n[split]")
    site = read_site(bank(tmp_path, edges, top))
    prepared = agreed({"bank": site.sums}).types
    age = prepared["edges.transfer"]["age"]
    count = prepared["account"]["transfer out count 40 days"]
    for part, ages, active in (("train", 151, 5), ("val", 212, 7), ("test", 273, 9)):
        graph = graphs_of(site)[part]
        assert graph.edge_attr is not None
        oldest = float(graph.edge_attr[:, 0].max()) * age.scale + age.mean
        assert oldest == pytest.approx(ages, abs=1e-3)  # from January 15 to the last 15th
        sent = graph.features[:, sorted(prepared["account"]).index("transfer out count 40 days")]
        recent = (sent * count.scale + count.mean).round().nonzero().flatten().tolist()
        assert recent == [active - 1, active]


def test_shares_split_in_the_order_of_time(tmp_path: Path) -> None:
    split = '[split]\nby = "time"\nshares = [0.6, 0.2, 0.2]'
    site = read_site(bank(tmp_path, split=split))
    assert parts_of(site) == [[0, 1, 2, 3, 4, 5, 6], [7, 8], [9, 10]]
    assert site.schema.split == ()


def test_samples_after_the_test_are_in_no_part_and_their_links_in_no_graph(tmp_path: Path) -> None:
    split = DATES + "test_until = 2025-10-31\n"
    site = read_site(bank(tmp_path, split=split))
    assert parts_of(site)[2] == [8, 9]
    assert int(graphs_of(site)["test"].edge_index.max()) == 10
    assert site.remarks[-1] == (
        "split by time: training until 2025-06-30 has 6 nodes, validation until 2025-08-31 has 2 "
        "nodes, test until 2025-10-31 has 2 nodes; 2 are in no part, 1 of them without a class"
    )


def test_graphs_and_links_are_split_by_time(tmp_path: Path) -> None:
    toml = graph_site(tmp_path / "rings")
    rows = (tmp_path / "rings" / "graphs.csv").read_text().splitlines()[1:]
    dated = [(row, f"2025-{1 + n // 2:02}-01") for n, row in enumerate(rows)]
    write_csv(tmp_path / "rings" / "graphs.csv", "id,label,day", dated)
    toml.write_text(toml.read_text().replace('"graphs.csv"', '"graphs.csv"\ntime = "day"') + DATES)
    site = read_site(toml)
    assert parts_of(site) == [[*range(12)], [*range(12, 16)], [*range(16, 20)]]
    toml = link_site(tmp_path / "links")
    text = toml.read_text().replace('takes.csv"', 'takes.csv"\ntime = "day"')
    toml.write_text(text.replace('meets.csv"', 'meets.csv"\ntime = "day"') + DATES)
    for name in ("takes", "meets"):
        table = tmp_path / "links" / f"{name}.csv"
        rows = table.read_text().splitlines()[1:]
        dated = [(row, f"2025-{1 + n % 12:02}-01") for n, row in enumerate(rows)]
        write_csv(table, "source,target,day", dated)
    held = read_site(toml).client_data(0, StructureEncoding(0, 0))
    total = sum(len((tmp_path / "links" / f"{n}.csv").read_text().split()) - 1 for n in
                ("takes", "meets"))  # fmt: skip
    counts = (
        len(held.content.links),
        *(len(p.pairs) // 2 for p in (held.split.val, held.split.test)),
    )
    assert sum(counts) == total
    assert counts[0] == pytest.approx(total / 2, abs=8)


def test_in_many_graphs_ages_count_to_the_last_link_of_each(tmp_path: Path) -> None:
    toml = graph_site(tmp_path)
    rows = (tmp_path / "graphs.csv").read_text().splitlines()[1:]
    dated = [(row, f"2025-{1 + n // 2:02}-20") for n, row in enumerate(rows)]
    write_csv(tmp_path / "graphs.csv", "id,label,day", dated)
    bonds = [row.split(",") for row in (tmp_path / "bonds.csv").read_text().splitlines()[1:]]
    days = {name: 1 + int(name[1:]) // 2 for _, _, name in bonds}
    timed = [(*bond, f"2025-{days[bond[2]]:02}-{10 + int(bond[0]):02}") for bond in bonds]
    late = (0, 2, "g0", "2025-02-10")
    write_csv(tmp_path / "bonds.csv", "source,target,graph,when", [*timed, late])
    text = toml.read_text().replace('"graphs.csv"', '"graphs.csv"\ntime = "day"')
    text = text.replace('"bonds.csv"', '"bonds.csv"\ntime = "when"\nage = true')
    toml.write_text("smallest_count = 1\n" + text + DATES)
    site = read_site(toml)
    prepared = agreed({"rings": site.sums}).types["edges.bond"]["age"]
    block = site.graph
    assert isinstance(block, GraphBlock)
    found = block.cut(torch.tensor([3])).edge_attr
    assert found is not None
    ages = (found[:, 0] * prepared.scale + prepared.mean).round().tolist()
    assert sorted(set(ages)) == [0.0, 1.0, 2.0]  # a path of four, whose bonds are a day apart
    trained = sum(int(bond[2][1:]) < 12 for bond in bonds) + 1
    assert site.sums.types["edges.bond"]["age"].count == trained
    assert any("bond: 1 of " in text and "after the time of their graph" in text
               for text in warnings(site))  # fmt: skip


def test_tensors_have_times_too(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    days = torch.arange(12, dtype=torch.float64) * 30 + 20089  # from 2025-01-01
    index = torch.stack([torch.arange(11), torch.arange(1, 12)])
    save_file(
        {"x": torch.ones(12, 1), "y": torch.arange(12) % 2, "edge_index": index,
         "node_time": days, "edge_time": days[:11].clone()},
        tmp_path / "graph.safetensors",
    )  # fmt: skip
    text = f"""\
site = "bank"
task = "node-classification"
classes = ["a", "b"]
tensors = "graph.safetensors"
{DATES}
[nodes.account]
features = 1
time = "node_time"
[edges.transfer]
time = "edge_time"
"""
    site = read_site(write_toml(tmp_path, text))
    assert list(map(len, parts_of(site))) == [7, 2, 3]
    assert [graphs_of(site)[part].links for part in PARTS] == [7, 9, 11]


LEAKS: dict[str, tuple[str, str, dict[Any, Any], str]] = {
    "a date after the row's": (
        AGGREGATE,
        'columns = { closed = "date" }',
        {(2, 4): "2025-09-01", (3, 4): "2025-09-01"},
        "account: closed is after the time of the row in 2 of 12 rows, so it is not known yet. "
        'Declare it as "ignored"',
    ),
    "a date of links after theirs": (
        'columns = { booked = "date" }\ntime = "date"',
        "",
        {},
        "edges.transfer: booked is after the time of the row in 23 of 23 rows, so it is not known "
        'yet. Declare it as "ignored"',
    ),
    "no times": (
        'columns = { amount = "number" }\naggregate = ["sum"]',
        "",
        {},
        "transfer: the edges have no times, so training uses and sums up all edges between nodes "
        "that are there, also edges from later. Name the column with their dates as 'time' in "
        "[edges.transfer]",
    ),
    "columns of later rows": (
        'time = "date"',
        NUMBER,
        {},
        "account: 1 of 6 rows from after training have edges in training, which reads their "
        "columns. Make sure that these were known then, or leave out those that change",
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_check_says_what_leaks(tmp_path: Path, name: str) -> None:
    edges, nodes, cells, expected = LEAKS[name]
    found = warnings(read_site(bank(tmp_path, edges, nodes=nodes, cells=cells)))
    assert expected in found


def test_a_total_over_all_periods_is_found(tmp_path: Path) -> None:
    toml = bank(tmp_path, 'features = ["amount"]\ntime = "date"', nodes='features = ["size"]')
    transfers = pd.read_csv(tmp_path / "transfers.csv")
    accounts = pd.read_csv(tmp_path / "accounts.csv")
    for kept, leaks in ((transfers["date"] > "2000", True), (transfers["date"] < "2025-07", False)):
        total = transfers[kept].groupby("target")["amount"].sum()
        accounts["size"] = accounts["id"].map(total).fillna(0)
        accounts.to_csv(tmp_path / "accounts.csv", index=False)
        expected = (
            "account: size is the in sum of amount of all transfer edges, also of those after "
            "training. Remove it, and declare aggregate in [edges.transfer]"
        )
        assert (expected in warnings(read_site(toml))) == leaks


def test_a_column_that_tells_the_class_is_found(tmp_path: Path) -> None:
    toml = first_transfers(tmp_path, columns='cash = "number", blocked = "date", note = "category"')
    accounts = pd.read_csv(tmp_path / "accounts.csv")
    accounts["blocked"] = accounts["date"].where(accounts["first"] == "wire")
    accounts["note"] = "x"
    accounts.to_csv(tmp_path / "accounts.csv", index=False)
    (told,) = [text for text in warnings(read_site(toml)) if "alone tells" in text]
    assert told == (
        "account: blocked alone tells the class in 100 % of the rows of each class. If it is "
        'filled in after the class is known, declare it as "ignored"'
    )


def test_times_without_a_split_by_time_are_said(tmp_path: Path) -> None:
    toml = bank(tmp_path, split="", cells={(11, 3): "b"})
    toml.write_text(toml.read_text().replace('time = "when"\n', ""))
    assert any("the split is random" in text for text in warnings(read_site(toml)))
    clean = read_site(first_transfers(tmp_path / "clean"))
    (only,) = warnings(clean)
    assert "have edges in training, which reads their columns" in only


def test_a_date_from_after_today_is_a_problem(tmp_path: Path) -> None:
    checked = check_site(bank(tmp_path, cells={(4, 2): "2205-05-10"}))
    assert str(checked.problems[0]) == (
        "accounts.csv, row 6, column 'when': '2205-05-10' is after today. Correct it, or leave the "
        "row out."
    )
