"""New rows alone are predicted, in the graph of training, by rules that are counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, messy_site, node_site, write_csv, write_toml
from ramet.data import NodeGraph
from ramet.errors import RametError
from ramet.prediction import Source, Trained
from ramet.runs import Result

PATIENTS, CONTACTS = ["patients.csv", "id,age,dose"], ["contacts.csv", "source,target"]


def trained(folder: Path, toml: Path, method: str = "local", **options: Any) -> Result:
    return ramet.run(method, "own", sites=str(toml), rounds=1, out=folder / "run", **options)


def july(folder: Path, rows: Sequence[Any], links: Sequence[Any]) -> Path:
    """A folder with tables that are called as those of `node_site`, and nothing else."""
    write_csv(folder / PATIENTS[0], PATIENTS[1], rows)
    write_csv(folder / CONTACTS[0], CONTACTS[1], links)
    return folder


def test_only_new_rows_are_predicted_as_if_the_tables_had_been_merged_by_hand(
    tmp_path: Path,
) -> None:
    north = node_site(tmp_path / "north")
    result = trained(tmp_path, north)
    new = july(
        tmp_path / "july", [("q1", 1.1, 0.2), ("q2", -0.9, 0.7)], [("q1", "p3"), ("q1", "q2")]
    )
    found = result.predict(new=new)
    merged = tmp_path / "merged"
    old = [pd.read_csv(north.parent / name) for name in ("patients.csv", "contacts.csv")]
    merged.mkdir()
    for table, name in zip(old, ("patients.csv", "contacts.csv"), strict=True):
        pd.concat([table, pd.read_csv(new / name)]).to_csv(merged / name, index=False)
    by_hand = result.predict("north", write_toml(merged, north.read_text())).set_index("id")
    assert found["id"].tolist() == ["q1", "q2"]
    assert found["p_ill"].tolist() == by_hand.loc[["q1", "q2"], "p_ill"].tolist()
    assert found.attrs["notes"] == ["patient: 2 new rows", "contact: 2 new edges"]
    printed = command("predict", result.folder, "--new", new)
    assert printed.stdout.splitlines()[1].startswith("q1,")
    assert printed.stderr.splitlines()[:2] == ["patient: 2 new rows.", "contact: 2 new edges."]


def test_a_known_id_gets_its_new_row_and_keeps_its_links(tmp_path: Path) -> None:
    north = node_site(tmp_path / "north")
    result = trained(tmp_path, north)
    new = july(tmp_path / "july", [("p3", 1.5, 0.2)], [("p0", "p3"), ("p3", "p0"), ("p3", "p9")])
    found = result.predict(new=new)
    table = pd.read_csv(north.parent / "patients.csv").set_index("id", drop=False)
    table.loc["p3", ["age", "dose"]] = [1.5, 0.2]
    table.to_csv(north.parent / "patients.csv", index=False)
    with (north.parent / "contacts.csv").open("a") as file:
        file.write("p3,p9\n")
    by_hand = result.predict("north").set_index("id")
    assert found[["id", "p_ill"]].values.tolist() == [["p3", by_hand.loc["p3", "p_ill"]]]
    assert found.attrs["notes"] == [
        "patient: 1 new row, 1 of them with the id of an earlier row, which they replace",
        "contact: 3 new edges, 2 of them repeated, which count once",
    ]


@pytest.mark.parametrize(
    ("unknown", "note"),
    [
        ("drop", "contact: 2 of 3 edges dropped, because an end is in no table"),
        ("stub", "patient: 1 more node for ids that only edges have, with all columns missing"),
    ],
)
def test_links_to_rows_that_nobody_has(unknown: str, note: str, tmp_path: Path) -> None:
    toml = messy_site(tmp_path / "north", 1, 40)
    result = trained(tmp_path, toml)
    new = tmp_path / "july"
    write_csv(new / "patients.csv", "id,age", [("q1", 40)])
    write_csv(new / "contacts.csv", "source,target", [("q1", "x"), ("p2", "x"), ("q1", "p1")])
    with pytest.raises(RametError, match=r'there is no patient .x.* unknown = "drop".*--context'):
        result.predict(new=new)
    toml.write_text(toml.read_text() + f'unknown = "{unknown}"\n')
    found = result.predict(new=new)
    assert found["id"].tolist() == ["q1"]
    assert note in found.attrs["notes"]
    graph = Source(new=new).input(Trained.open(result.folder), "north").graph
    assert isinstance(graph, NodeGraph)
    assert graph.nodes == 41 + (unknown == "stub")
    assert int(graph.degrees[0]) == 1 + (unknown == "stub")


@pytest.mark.parametrize("split", ["", 'split = "part"\n'])
def test_stubs_and_dropped_links_in_training(split: str, tmp_path: Path) -> None:
    toml = messy_site(tmp_path / "north", 1, 40)
    table = pd.read_csv(toml.parent / "patients.csv", dtype=str, keep_default_na=False)
    table["part"] = ["train", "train", "val", "test"] * 10
    table.to_csv(toml.parent / "patients.csv", index=False)
    with (toml.parent / "contacts.csv").open("a") as file:
        file.write("p1,somebody\np2,somebody\np2,else\n")
    text = toml.read_text().replace('label = "state"\n', f'label = "state"\n{split}')
    counts = {}
    for unknown in ("drop", "stub"):
        toml.write_text(text + f'unknown = "{unknown}"\n')
        checked = command("data", "check", toml)
        assert checked.code == 0, checked.stdout
        samples = trained(tmp_path / unknown, toml).samples("north")
        held = samples.split
        counts[unknown] = [len(part) for part in (held.train, held.val, held.test)]
        assert samples.graph.nodes == 40 + 2 * (unknown == "stub")
        assert max(int(part.max()) for part in (held.train, held.val, held.test)) == 39
    assert counts["drop"] == counts["stub"]
    later = trained(tmp_path / "later", toml, start_from=tmp_path / "stub" / "run")
    assert [int((later.samples("north").split.test == n).any()) for n in (40, 41)] == [0, 0]


def test_a_stub_needs_columns_that_may_be_missing(tmp_path: Path) -> None:
    toml = node_site(tmp_path / "north")
    toml.write_text(toml.read_text() + 'unknown = "stub"\n')
    found = command("data", "check", toml)
    assert 'unknown = "stub", and age of [nodes.patient] cannot be missing' in found.stdout
    rings = graph_site(tmp_path / "rings")
    rings.write_text(rings.read_text() + 'unknown = "drop"\n')
    assert "which graph-classification does not read" in command("data", "check", rings).stdout


def test_an_overlapping_export_of_links_that_carry_something_counts_once(tmp_path: Path) -> None:
    toml = node_site(tmp_path / "north")
    toml.write_text(toml.read_text() + 'directed = true\ncolumns = { hours = "number" }\n')
    table = toml.parent / "contacts.csv"
    links = [(f"p{n}", f"p{(n + 3) % 40}", n % 5) for n in range(40)]
    write_csv(table, "source,target,hours", [*links, links[0]])  # twice, and both are meant
    result = trained(tmp_path, toml, network="gine")
    new = july(tmp_path / "july", [("q1", 1, 1)], [])
    repeated = [links[0], links[0], links[0], (*links[1][:2], 99), ("q1", "p1", 1)]
    write_csv(new / "contacts.csv", "source,target,hours", repeated)
    found = result.predict(new=new)
    assert "contact: 5 new edges, 2 of them repeated, which count once" in found.attrs["notes"]
    graph = Source(new=new).input(Trained.open(result.folder), "north").graph
    assert isinstance(graph, NodeGraph)
    assert graph.links == 41 + 3


def test_graphs_and_links_take_new_rows_too(tmp_path: Path) -> None:
    rings = trained(tmp_path / "a", graph_site(tmp_path / "rings"))
    new = tmp_path / "graphs"
    write_csv(new / "graphs.csv", "id", [("new",)])
    write_csv(new / "atoms.csv", "id,graph,mass", [(n, "new", 0.5) for n in range(3)])
    write_csv(new / "bonds.csv", "source,target,graph", [(0, 1, "new"), (1, 2, "new")])
    assert rings.predict(new=new)["id"].tolist() == ["new"]
    drugs = trained(tmp_path / "b", link_site(tmp_path / "clinic"), "fed-hgn")
    new = tmp_path / "links"
    write_csv(new / "patients.csv", "id,age", [("q1", 3)])
    write_csv(new / "meets.csv", "source,target", [("q1", "p1"), ("p1", "q1")])
    found = drugs.predict(new=new, relation="takes", top=10)
    assert {*found["source"]} == {"q1"}
    assert len(found) == 10  # all drugs of the clinic
    write_csv(new / "patients.csv", "id,age", [])
    write_csv(new / "meets.csv", "source,target", [("p1", "p2")])
    with pytest.raises(RametError, match="has no rows of patient"):
        drugs.predict(new=new, relation="takes")


def test_a_folder_that_does_not_fit(tmp_path: Path) -> None:
    north = node_site(tmp_path / "north")
    result = trained(tmp_path, north)
    empty = tmp_path / "empty"
    empty.mkdir()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"new": tmp_path / "nowhere"}, "there is no .*nowhere"),
        ({"new": empty}, "none of the files that .* names \\(contacts.csv, patients.csv\\)"),
        ({"new": empty, "site": north}, "Leave out one of them"),
        ({"context": north}, "Name their folder with --new"),
    ]
    for given, message in refused:
        with pytest.raises(RametError, match=message):
            result.predict(**given)
    write_csv(empty / "contacts.csv", "source,target", [("p1", "p3")])
    with pytest.raises(RametError, match="has no rows of patient"):
        result.predict(new=empty)
    built_in = ramet.run("local-gcn", "planted", rounds=1, out=tmp_path / "planted")
    with pytest.raises(RametError, match="built-in data, which new rows cannot continue"):
        built_in.predict(Trained.open(built_in.folder).clients[0], new=empty)
