"""User-defined graphs: files are read correctly, and problems are reported with their location."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch_geometric.data import Data, HeteroData

from own_sites import graph_site, link_site, node_site, write_csv, write_toml
from ramet.data import GraphBlock, HeteroGraph, NodeGraph, StructureEncoding
from ramet.data.own.schema import Schema
from ramet.data.own.site import Site, check_site, read_site, statistics
from ramet.errors import RametError

NO_ENCODING = StructureEncoding(0, 0)
SAME_FOLDER = [HealthCheck.function_scoped_fixture]  # every example rewrites its files


def reported(path: Path) -> list[str]:
    """Return the problems of an invalid site."""
    checked = check_site(path)
    assert checked.site is None
    assert checked.count == len(checked.problems) > 0
    return [str(problem) for problem in checked.problems]


def without_hints(texts: list[str]) -> list[str]:
    """The first sentence of each problem: what is wrong, without what to do."""
    return [text.partition(". ")[0].removesuffix(".") + "." for text in texts]


def edit(path: Path, line: int, text: str) -> None:
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_node_tables_are_read_as_written(tmp_path: Path) -> None:
    rows = [(f"n{i}", i, i * 0.5, "b" if i < 3 else "a") for i in range(12)]
    write_csv(tmp_path / "patients.csv", "id,age,dose,state", rows)
    ends = [("n1", "n0"), ("n0", "n1"), ("n2", "n2"), ("n3", "n11")]  # a duplicate and a self loop
    write_csv(tmp_path / "contacts.csv", "source,target", ends)
    toml = write_toml(
        tmp_path,
        'site = "x"\ntask = "node-classification"\nclasses = ["a", "b"]\n'
        '[nodes.n]\nfile = "patients.csv"\nfeatures = ["dose", "age"]\nlabel = "state"\n'
        '[edges.e]\nfile = "contacts.csv"\n',
    )
    graph = read_site(toml).graph
    assert isinstance(graph, NodeGraph)
    assert graph.features[4].tolist() == [2.0, 4.0]
    assert graph.labels.tolist() == [1] * 3 + [0] * 9
    assert graph.classes == 2
    assert list(zip(graph.left.tolist(), graph.right.tolist(), strict=True)) == [(0, 1), (3, 11)]


def test_columns_that_are_not_used_and_merged_links_are_said(tmp_path: Path) -> None:
    site = node_site(tmp_path, patients=12)
    rows = [(f"p{n}", n, 0.5, ("healthy", "ill")[n % 2], "Oslo") for n in range(12)]
    write_csv(tmp_path / "patients.csv", "id,age,dose,state,town", rows)
    transfers = [("p1", "p0", 9, "May"), ("p0", "p1", 5, "June"), ("p1", "p0", 2, "July")]
    others = [("p2", "p2", 1, "May"), ("p3", "p11", 4, "May")]
    write_csv(tmp_path / "contacts.csv", "source,target,amount,day", [*transfers, *others])
    assert read_site(site).remarks == (
        "patients.csv: 'town' is not used",
        "contacts.csv: 'amount', 'day' are not used",
        "contact: 5 rows give 2 links. 2 repeat a link in either direction, 1 link a node to "
        "itself; neither counts",
    )


def test_nothing_is_said_of_links_in_both_directions(tmp_path: Path) -> None:
    site = node_site(tmp_path, patients=12)
    ends = [(f"p{n}", f"p{n + 1}") for n in range(11)]
    both = [*ends, *((b, a) for a, b in ends)]
    write_csv(tmp_path / "contacts.csv", "source,target", both)
    assert read_site(site).remarks == ()


def test_columns_of_graphs_that_are_not_used_are_said_once(tmp_path: Path) -> None:
    site = graph_site(tmp_path, ("mass", "charge"))
    replace(site, '["mass", "charge"]', '["mass"]')
    bonds = tmp_path / "bonds.csv"
    head, *rows = bonds.read_text().splitlines()
    bonds.write_text("\n".join([f"{head},order", *(f"{row},2" for row in rows)]) + "\n")
    said = ("atoms.csv: 'charge' is not used", "bonds.csv: 'order' is not used")
    assert read_site(site).remarks == said


def test_graph_tables_are_read_as_written(tmp_path: Path) -> None:
    site = read_site(graph_site(tmp_path, ("mass", "charge")))
    block = site.graph
    assert isinstance(block, GraphBlock)
    assert (block.graphs, block.feature_width, block.classes) == (20, 2, 2)
    assert block.labels.tolist() == [0, 1] * 10
    assert block.node_starts.diff().tolist() == [4 + n % 3 for n in range(20)]
    ring, path = (block.cut(torch.tensor([number])) for number in (0, 1))
    assert ring.whole.degrees.tolist() == [2, 2, 2, 2]
    assert path.whole.degrees.tolist() == [1, 2, 2, 2, 1]
    counts = statistics(site, 123)
    assert counts["classes"] == {"ring": 10, "path": 10}
    assert counts["split"] == {"train": 16, "val": 2, "test": 2}
    assert counts["edges"]["bond"] == {"edges": 89, "mean degree": 1.8, "largest degree": 2}


def test_classes_without_any_graph_are_counted(tmp_path: Path) -> None:
    toml = graph_site(tmp_path)
    replace(toml, '"path"]', '"path", "star"]')
    block = read_site(toml).graph
    assert isinstance(block, GraphBlock)
    assert block.classes == 3


def test_a_site_without_some_types_has_the_same_schema(tmp_path: Path) -> None:
    without, with_genes = link_site(tmp_path / "a"), link_site(tmp_path / "b", genes=True)
    one, other = read_site(without), read_site(with_genes)
    assert one.schema == other.schema
    graph = one.graph
    assert isinstance(graph, HeteroGraph)
    assert [(kind.name, kind.nodes, kind.width) for kind in graph.types] == [
        ("drug", 10, 1),
        ("gene", 0, 2),
        ("patient", 30, 1),
    ]
    assert [relation.name for relation in graph.relations] == ["acts-on", "meets", "takes"]
    assert statistics(one, 1)["edges"]["acts-on"]["edges"] == 0
    assert statistics(other, 1)["edges"]["acts-on"]["edges"] == 30


def test_splits_are_seeded_or_given(tmp_path: Path) -> None:
    toml = node_site(tmp_path)
    site = read_site(toml)
    first, again, other = (site.client_data(seed, NO_ENCODING).split for seed in (1, 1, 2))
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, other.train)
    lines = (tmp_path / "patients.csv").read_text().splitlines()
    parts = ["train", "val", "test", "none"] * 10
    rows = [f"{line},{part}" for line, part in zip(lines[1:], parts, strict=True)]
    (tmp_path / "patients.csv").write_text("\n".join([f"{lines[0]},part", *rows]))
    replace(toml, 'label = "state"', 'label = "state"\nsplit = "part"')
    edit(tmp_path / "patients.csv", 5, "p3,0,0,,none")  # in no part, so it needs no class
    split = read_site(toml).client_data(7, NO_ENCODING).split
    assert split.train.tolist() == list(range(0, 40, 4))
    assert split.test.tolist() == list(range(2, 40, 4))


def test_held_out_links_are_not_trained_on(tmp_path: Path) -> None:
    toml = link_site(tmp_path)
    lines = (tmp_path / "takes.csv").read_text().splitlines()
    parts = [("train", "train", "val", "test")[n % 4] for n in range(len(lines) - 1)]
    rows = [f"{line},{part}" for line, part in zip(lines[1:], parts, strict=True)]
    (tmp_path / "takes.csv").write_text("\n".join([f"{lines[0]},part", *rows]))
    replace(toml, 'to = "drug"', 'to = "drug"\nsplit = "part"')
    site = read_site(toml)
    held = site.client_data(1, NO_ENCODING)
    assert isinstance(site.graph, HeteroGraph)
    assert len(held.content.links) == len(site.graph.links) - parts.count("val") - parts.count(
        "test"
    )
    assert len(held.split.test.pairs) == 2 * parts.count("test")


def test_all_problems_are_reported_with_file_row_and_column(tmp_path: Path) -> None:
    toml = node_site(tmp_path)
    table = tmp_path / "patients.csv"
    edit(table, 3, "p1,old,0.5,ill")
    edit(table, 4, "p2,nan,,healthy")
    edit(table, 5, "p0,0.1,1e300,dead")
    edit(table, 6, "p4,0.1,0.2,")
    edit(table, 41, "p39,1")
    edit(tmp_path / "contacts.csv", 2, "p0,nobody")
    assert without_hints(reported(toml)) == [
        "patients.csv, row 3, column 'age': 'old' is not a number.",
        "patients.csv, row 4, column 'age': 'nan' is not a finite number.",
        "patients.csv, row 4, column 'dose': the number is missing.",
        "patients.csv, row 5, column 'id': 'p0' already appears in row 2.",
        "patients.csv, row 5, column 'dose': '1e300' is not a finite number.",
        "patients.csv, row 5, column 'state': 'dead' is not one of the classes healthy, ill.",
        "patients.csv, row 6, column 'state': the class is missing; write none in a "
        "column that `split` names to leave a row unlabelled.",
        "patients.csv, row 41: has 2 cells, but the header has 4.",
        "contacts.csv, row 2, column 'target': there is no patient 'nobody'.",
        "contacts.csv, row 5, column 'source': there is no patient 'p3'.",
        "contacts.csv, row 38, column 'target': there is no patient 'p39'.",
        "contacts.csv, row 41, column 'source': there is no patient 'p39'.",
    ]


def test_a_decimal_comma_without_quotes_is_recognised(tmp_path: Path) -> None:
    toml = node_site(tmp_path)
    edit(tmp_path / "patients.csv", 3, "p1,0,5,0.5,ill")
    first = reported(toml)[0]
    assert first.startswith("patients.csv, row 3: has 5 cells, but the header has 4; a comma")


def test_problems_of_graphs(tmp_path: Path) -> None:
    toml = graph_site(tmp_path)
    edit(tmp_path / "graphs.csv", 2, "g0,square")
    edit(tmp_path / "graphs.csv", 4, "g1,path")
    edit(tmp_path / "bonds.csv", 2, "0,9,g0")
    with (tmp_path / "graphs.csv").open("a") as file:
        file.write("g99,ring\n")
    problems = without_hints(reported(toml))
    assert problems[:3] == [
        "graphs.csv, row 2, column 'label': 'square' is not one of the classes ring, path.",
        "graphs.csv, row 4, column 'id': 'g1' already appears in row 3.",
        "graphs.csv, row 22: graph 'g99' has no nodes.",
    ]
    assert "bonds.csv, row 2, column 'target': there is no atom '9' in graph 'g0'." in problems
    assert any("there is no graph 'g2'" in text for text in problems)


def test_duplicate_links_to_predict_are_problems(tmp_path: Path) -> None:
    toml = link_site(tmp_path)
    with (tmp_path / "takes.csv").open("a") as file:
        file.write((tmp_path / "takes.csv").read_text().splitlines()[1] + "\n")
    lines = (tmp_path / "meets.csv").read_text().splitlines()
    a, b = lines[1].split(",")
    (tmp_path / "meets.csv").write_text("\n".join([*lines, f"{b},{a}", "p1,p1"]))
    problems = reported(toml)
    last = len(lines) + 1
    assert f"meets.csv, row {last}, column 'target': the edge already appears in row 2." in problems
    assert f"meets.csv, row {last + 1}, column 'target': the edge is a self loop." in problems
    assert any(text.startswith("takes.csv") and "in row 2" in text for text in problems)
    assert len(problems) == 3


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('site = "x"', 'site = "../x"', "site: is not understood. Write a letter, and up to 63"),
        ("node-classification", "guessing", "task: Input should be 'graph-classification'"),
        ('"ill"]', '"healthy"]', "two or more different classes"),
        ("[nodes.patient]", "[nodes.state_dict]", "'state_dict' is a reserved name"),
        (
            "[edges.contact]",
            '[edges.contact]\nto = "drug"',
            "no [nodes.drug] (columns are named by",
        ),
        (
            "[edges.contact]",
            '[nodes.drug]\n[edges.contact]\nfrom = "patient"\nto = "drug"',
            "takes a single node type. Let edges join its own rows",
        ),
        ("[edges.contact]", "[edges.contact]\ncolour = 1", "there is no such key"),
        ("[edges.contact]", '[edges.contact]\nsorce = "a"', "key. Did you mean 'source'?"),
        (
            "[edges.contact]",
            '[edges.contact]\nlabel = "state"',
            "[edges.contact] has 'label', which node-classification does not read. Remove it, or "
            'write task = "edge-classification".',
        ),
        (
            'label = "state"',
            'label = "state"\nsmallest_count = 5',
            "nodes.patient.smallest_count: this key is not read here. It belongs at the top of the "
            "file, above the first line in brackets.",
        ),
        ('label = "state"', "", "lacks 'label'"),
        ('"age", "dose"', '"age", "age"', "is listed twice"),
        ('"age", "dose"', '"age", "weight"', "column 'weight': there is no such column"),
        ("[nodes.patient]", "[nodes.patient", "is not valid TOML"),
        ("patients.csv", "nowhere.csv", "there is no 'nowhere.csv' in its folder"),
        ("patients.csv", "site.toml", "is neither .csv nor .parquet"),
        ("patients.csv", "graphs.zip", "is an archive, which is not supported"),
    ],
)
def test_problems_of_the_toml_file(tmp_path: Path, old: str, new: str, problem: str) -> None:
    toml = node_site(tmp_path / "x")
    replace(toml, old, new)
    problems = reported(toml)
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_mistake_is_reported_once(tmp_path: Path) -> None:
    toml = node_site(tmp_path / "empty")
    (toml.parent / "patients.csv").write_text("id,age,dose,state\n")
    assert reported(toml) == [
        "patients.csv: has no rows. If there are no patient nodes, omit 'file'."
    ]
    toml = node_site(tmp_path / "semicolons")
    contacts = toml.parent / "contacts.csv"
    contacts.write_text(contacts.read_text().replace(",", ";") + "1,5;p1\n")
    assert reported(toml) == [
        "contacts.csv, row 1: cells are separated by ';'. Separate them by commas."
    ]


@pytest.mark.parametrize(
    "given",
    [
        "/etc/passwd",
        "../outside.csv",
        "a/../../outside.csv",
        "link.csv",
        "ring.csv",
        "pipe.csv",
        "\\u0000",
    ],
)
def test_paths_outside_the_folder_are_refused(tmp_path: Path, given: str) -> None:
    """No way of writing a path opens a file outside the TOML's folder."""
    outside = write_csv(tmp_path / "outside.csv", "id,age,dose,state", [("secret", 1, 1, "ill")])
    toml = node_site(tmp_path / "x")
    (tmp_path / "x" / "link.csv").symlink_to(outside)
    (tmp_path / "x" / "ring.csv").symlink_to("ring.csv")
    os.mkfifo(tmp_path / "x" / "pipe.csv")
    replace(toml, "patients.csv", given)
    problems = reported(toml)
    assert all(text.startswith("site.toml") for text in problems)
    assert "secret" not in "".join(problems)


def test_links_out_of_a_folder_of_graphs_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "secret.safetensors"
    save_file({"x": torch.ones(2, 1)}, outside)
    toml = _folder_site(tmp_path / "x")
    (tmp_path / "x" / "graphs" / "g.safetensors").symlink_to(outside)
    assert reported(toml) == [
        "site.toml: 'graphs/g.safetensors' is a link that points outside the folder of site.toml."
    ]


FOLDER_TOML = """\
site = "x"
task = "graph-classification"
classes = ["ring", "path"]
[graphs]
folder = "graphs"
[nodes.atom]
features = ["mass"]
[edges.bond]
"""


def _data(number: int) -> Data:
    size = 4 + number % 3
    ends = [(n, n + 1) for n in range(size - 1)] + ([(size - 1, 0)] if number % 2 == 0 else [])
    x = torch.arange(size).float().unsqueeze(1)
    return Data(x=x, edge_index=torch.tensor(ends).T.contiguous(), y=torch.tensor([number % 2]))


def _folder_site(folder: Path, pt: bool = False) -> Path:
    (folder / "graphs").mkdir(parents=True)
    for number in range(20):
        path = folder / "graphs" / f"g{number:02d}"
        if pt:
            torch.save(_data(number).to_dict(), path.with_suffix(".pt"))
        else:
            save_file(_data(number).to_dict(), path.with_suffix(".safetensors"))
    return write_toml(folder, FOLDER_TOML)


def _same_block(one: Site, other: Site) -> None:
    assert isinstance(one.graph, GraphBlock)
    assert isinstance(other.graph, GraphBlock)
    ours, theirs = one.graph.tensors(), other.graph.tensors()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_folders_of_graphs_in_all_formats_are_equal(tmp_path: Path) -> None:
    plain = read_site(_folder_site(tmp_path / "a"))
    _same_block(plain, read_site(_folder_site(tmp_path / "b", pt=True)))
    for number in range(20):
        graph, stem = _data(number), tmp_path / "c" / "graphs" / f"g{number:02d}"
        nodes = [(n, mass) for n, mass in enumerate(graph.x.flatten().tolist())]
        write_csv(stem.with_name(f"{stem.name}.nodes.csv"), "id,mass", nodes)
        ends = graph.edge_index.T.tolist()
        write_csv(stem.with_name(f"{stem.name}.edges.csv"), "source,target", ends)
    labels = [(f"g{n:02d}", ("ring", "path")[n % 2]) for n in range(20)]
    write_csv(tmp_path / "c" / "graphs.csv", "id,label", labels)
    toml = FOLDER_TOML.replace("[graphs]\n", '[graphs]\nfile = "graphs.csv"\n')
    _same_block(plain, read_site(write_toml(tmp_path / "c", toml)))


def test_a_hetero_graph_as_tensors(tmp_path: Path) -> None:
    data = HeteroData()
    data["patient"].x = torch.arange(30.0).unsqueeze(1)
    data["drug"].x = torch.ones(10, 1)
    takes = torch.unique(
        torch.randint(10, (2, 60), generator=torch.manual_seed(1)), dim=1
    ).contiguous()
    data["patient", "takes", "drug"].edge_index = takes
    toml = (
        'site = "x"\ntask = "link-prediction"\ntensors = "{file}"\n[nodes.patient]\n'
        'features = 1\n[nodes.drug]\n[nodes.gene]\nfeatures = ["length"]\n'
        '[edges.takes]\nfrom = "patient"\nto = "drug"\n'
    )
    torch.save(data.to_dict(), tmp_path / "graph.pt")
    flat = {"patient.x": data["patient"].x, "drug.x": data["drug"].x}
    save_file({**flat, "patient.takes.drug.edge_index": takes}, tmp_path / "graph.safetensors")
    for file in ("graph.pt", "graph.safetensors"):
        graph = read_site(write_toml(tmp_path, toml.format(file=file))).graph
        assert isinstance(graph, HeteroGraph)
        assert [(kind.name, kind.nodes) for kind in graph.types] == [
            ("drug", 10),
            ("gene", 0),
            ("patient", 30),
        ]
        assert torch.equal(graph.links.heads, takes[0] + 10)
        assert torch.equal(graph.links.tails, takes[1])


def _tensor_site(folder: Path, file: str = "graph.pt") -> Path:
    return write_toml(
        folder,
        f'site = "x"\ntask = "node-classification"\nclasses = [0, 1]\ntensors = "{file}"\n'
        "[nodes.n]\nfeatures = 2\n[edges.e]\n",
    )


def _node_data() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "x": torch.rand(12, 2, generator=draw),
        "edge_index": torch.randint(12, (2, 30), generator=draw),
        "y": torch.arange(12) % 2,
        **{
            f"{part}_mask": torch.arange(12) % 3 == number
            for number, part in enumerate(("train", "val", "test"))
        },
    }


def test_one_graph_as_tensors_with_masks(tmp_path: Path) -> None:
    torch.save(_node_data(), tmp_path / "graph.pt")
    site = read_site(_tensor_site(tmp_path))
    assert isinstance(site.graph, NodeGraph)
    assert torch.equal(site.graph.features, _node_data()["x"])
    assert site.client_data(1, NO_ENCODING).split.val.tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"x": torch.rand(12, 3)}, "has 3 columns, but 2 features are declared"),
        ({"x": torch.full((12, 2), float("nan"))}, "row 12, column 'x1': is not a finite number"),
        ({"y": torch.full((12,), 2)}, "row 1, column 'y': 2 is not a class index; expected 0 to 1"),
        ({"y": torch.zeros(3)}, "must be 12 integers"),
        ({"edge_index": torch.full((2, 4), 12)}, "there is no node 12; expected 0 to 11"),
        ({"edge_index": torch.zeros(4)}, "must be two rows of integers"),
        ({"val_mask": torch.ones(12, dtype=torch.bool)}, "is in two masks"),
        ({"train_mask": torch.zeros(12, dtype=torch.bool)}, "has no samples for train"),
    ],
)
def test_problems_of_tensors(tmp_path: Path, change: dict[str, torch.Tensor], problem: str) -> None:
    save_file(_node_data() | change, tmp_path / "graph.safetensors")
    assert any(problem in text for text in reported(_tensor_site(tmp_path, "graph.safetensors")))


def test_tensors_of_undeclared_types_are_reported(tmp_path: Path) -> None:
    data = {f"n.{name}" if name == "x" else name: t for name, t in _node_data().items()}
    data["n.follows.n.edge_index"] = data.pop("edge_index")
    save_file(data, tmp_path / "graph.safetensors")
    problems = reported(_tensor_site(tmp_path, "graph.safetensors"))
    text = "belongs to a type that the TOML does not declare."
    assert f"graph.safetensors, column 'n.follows.n.edge_index': {text}" in problems


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        (
            "g.safetensors",
            {"x": torch.ones(2, 1), "y": torch.tensor([1])},
            "'edge_index': is missing",
        ),
        ("g.safetensors", {"y": torch.tensor([1])}, "'x' must have a row for each"),
        ("g00.pt", {"x": torch.ones(2, 1)}, "graph 'g00' is in 2 files"),
        ("g.edges.csv", None, "a table with the classes, for graphs in tables"),
        ("notes.txt", None, "graphs/notes.txt: is not NAME.nodes.csv"),
    ],
)
def test_problems_of_a_folder(
    tmp_path: Path, file: str, content: dict[str, torch.Tensor] | None, problem: str
) -> None:
    toml = _folder_site(tmp_path)
    path = tmp_path / "graphs" / file
    if content is None:
        path.write_text("")
    elif path.suffix == ".pt":
        torch.save(content, path)
    else:
        save_file(content, path)
    assert any(problem in text for text in reported(toml))


@settings(max_examples=60, deadline=None, suppress_health_check=SAME_FOLDER)
@given(file=st.sampled_from(["graph.pt", "graph.safetensors"]), data=st.data())
def test_damaged_tensors_are_reported_as_problems(
    tmp_path: Path, file: str, data: st.DataObject
) -> None:
    path, stored = tmp_path / file, io.BytesIO()
    if path.suffix == ".pt":
        torch.save(_node_data(), stored)
        path.write_bytes(stored.getvalue())
    else:
        save_file(_node_data(), path)
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.binary(min_size=1, max_size=8))
    path.write_bytes(content[:start] + new + content[start + len(new) :])
    checked = check_site(_tensor_site(tmp_path, file))
    assert (checked.site is None) == (checked.count > 0)


class _Bomb:
    """Creates a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.marker),)


def test_unsafe_tensor_files_are_refused(tmp_path: Path) -> None:
    """Pickles, `Data` objects and compressed archives are refused, and no code in them is run."""
    marker = tmp_path / "ran"
    torch.save({"x": _Bomb(marker)}, tmp_path / "bomb.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(_Bomb(marker)))
    torch.save(Data(x=torch.ones(2, 2)), tmp_path / "whole.pt")
    torch.save(torch.ones(2), tmp_path / "lone.pt")
    (tmp_path / "cut.safetensors").write_bytes(b"\xff" * 40)
    stored = io.BytesIO()
    torch.save(_node_data(), stored)
    with (
        zipfile.ZipFile(stored) as source,
        zipfile.ZipFile(tmp_path / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in source.namelist():
            packed.writestr(name, source.read(name))
    for file, problem in {
        "bomb.pt": "more than plain tensors",
        "plain.pt": "not written by torch.save",
        "whole.pt": "torch.save(data.to_dict(), file)",
        "lone.pt": "holds a Tensor",
        "cut.safetensors": "cannot be read",
        "deflated.pt": "compressed archive",
    }.items():
        (message,) = reported(_tensor_site(tmp_path, file))
        assert message.startswith(file)
        assert problem in message
    assert not marker.exists()


def test_parquet_equals_csv(tmp_path: Path) -> None:
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    toml = node_site(tmp_path)
    before = read_site(toml)
    for name in ("patients", "contacts"):
        pandas.read_csv(tmp_path / f"{name}.csv").to_parquet(tmp_path / f"{name}.parquet")
        replace(toml, f"{name}.csv", f"{name}.parquet")
    after = read_site(toml)
    assert isinstance(before.graph, NodeGraph)
    assert isinstance(after.graph, NodeGraph)
    ours, theirs = before.graph.tensors(), after.graph.tensors()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    frame = pandas.read_parquet(tmp_path / "patients.parquet")
    frame.loc[2, "age"] = None
    frame.loc[3, "state"] = None
    frame.to_parquet(tmp_path / "patients.parquet")
    assert without_hints(reported(toml)) == [
        "patients.parquet, row 3, column 'age': the number is missing.",
        "patients.parquet, row 4, column 'state': the class is missing; write none in a "
        "column that `split` names to leave a row unlabelled.",
    ]
    (tmp_path / "patients.parquet").write_bytes(b"PAR1 and then nothing of the kind PAR1")
    assert all("is not a readable Parquet file" in text for text in reported(toml))


def test_the_fingerprint_contains_no_data(tmp_path: Path) -> None:
    """Sites with different rows, and a different number of them, have the same fingerprint."""
    few, many = node_site(tmp_path / "x"), node_site(tmp_path / "y", seed=9, patients=400)
    texts = {read_site(path).schema.text() for path in (few, many)}
    assert len(texts) == 1
    assert json.loads(texts.pop()).keys() == {
        "format",
        "ramet",
        "task",
        "classes",
        "nodes",
        "edges",
    }


def test_fingerprints_round_trip_and_invalid_ones_are_refused(tmp_path: Path) -> None:
    schema = read_site(link_site(tmp_path)).schema
    assert Schema.parse(schema.text(), "north") == schema
    for text in ("", "{}", '{"format": 2}', "[" * 100_000, schema.text().replace("gene", "a.b")):
        with pytest.raises(RametError, match="the fingerprint of north"):
            Schema.parse(text, "north")


@settings(max_examples=60, deadline=None, suppress_health_check=SAME_FOLDER)
@given(st.data())
def test_corrupted_files_give_a_site_or_problems(tmp_path: Path, data: st.DataObject) -> None:
    """Any bytes anywhere in a file give a site or a list of problems, never another error."""
    makers: dict[str, Callable[[Path], Path]] = {"n": node_site, "g": graph_site, "l": link_site}
    kind = data.draw(st.sampled_from(sorted(makers)))
    toml = makers[kind](tmp_path / kind)
    files = sorted(path for path in toml.parent.iterdir() if path.suffix in (".csv", ".toml"))
    path = data.draw(st.sampled_from(files))
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    new = data.draw(st.binary(max_size=30) | st.text(max_size=30).map(str.encode))
    path.write_bytes(content[:start] + new + content[end:])
    checked = check_site(toml)
    assert (checked.site is None) == (checked.count > 0)
    assert all(problem.file and problem.text for problem in checked.problems)
    if checked.site is not None:
        statistics(checked.site, 1)


@settings(max_examples=25, deadline=None, suppress_health_check=SAME_FOLDER)
@given(
    nodes=st.integers(10, 25),
    ends=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30),
    seed=st.integers(0, 1000),
)
def test_any_graph_round_trips(
    tmp_path: Path, nodes: int, ends: list[tuple[int, int]], seed: int
) -> None:
    draw = random.Random(seed)
    ids = draw.sample(range(1000), nodes)
    features = [(draw.uniform(-5, 5), draw.gauss(0, 1e6)) for _ in ids]
    rows = [(i, *values, i % 2) for i, values in zip(ids, features, strict=True)]
    write_csv(tmp_path / "n.csv", "id,a,b,y", rows)
    write_csv(tmp_path / "e.csv", "source,target", [(ids[a], ids[b]) for a, b in ends])
    toml = write_toml(
        tmp_path,
        'site = "x"\ntask = "node-classification"\nclasses = [0, 1]\n[nodes.n]\nfile = "n.csv"\n'
        'features = ["a", "b"]\nlabel = "y"\n[edges.e]\nfile = "e.csv"\n',
    )
    graph = read_site(toml).graph
    assert isinstance(graph, NodeGraph)
    assert torch.equal(graph.features, torch.tensor(features, dtype=torch.float32))
    assert graph.labels.tolist() == [i % 2 for i in ids]
    assert set(zip(graph.left.tolist(), graph.right.tolist(), strict=True)) == {
        (min(a, b), max(a, b)) for a, b in ends if a != b
    }
