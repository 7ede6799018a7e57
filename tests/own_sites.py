"""Small sites on disk, as the members of a consortium would write them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

Row = Sequence[object]


def write_csv(path: Path, header: str, rows: Iterable[Row]) -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def write_toml(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "site.toml"
    path.write_text(text)
    return path


CONSORTIUM_TOML = """
name = "three"
address = "fl.example.org"
sites = ["rings", "trees", "blocks"]
method = "fedstar"
setting = "tiny"
"""

NODES_TOML = """\
site = "{site}"
task = "node-classification"
classes = ["healthy", "ill"]

[nodes.patient]
file = "patients.csv"
features = ["age", "dose"]
label = "state"

[edges.contact]
file = "contacts.csv"
"""


def node_site(folder: Path, seed: int = 1, patients: int = 40) -> Path:
    """Write patients with two features; most contacts are between patients of the same state."""
    draw = random.Random(seed)
    ill = [number % 3 == 0 for number in range(patients)]
    rows = [
        (
            f"p{n}",
            round(draw.gauss(1 if is_ill else -1, 0.5), 3),
            round(draw.random(), 3),
            _state(is_ill),
        )
        for n, is_ill in enumerate(ill)
    ]
    write_csv(folder / "patients.csv", "id,age,dose,state", rows)
    contacts = [(f"p{n}", f"p{(n + 3) % patients}") for n in range(patients)]
    write_csv(folder / "contacts.csv", "source,target", contacts)
    return write_toml(folder, NODES_TOML.format(site=folder.name))


def _state(ill: bool) -> str:
    return "ill" if ill else "healthy"


GRAPHS_TOML = """\
site = "{site}"
task = "graph-classification"
classes = ["ring", "path"]

[graphs]
file = "graphs.csv"

[nodes.atom]
file = "atoms.csv"
features = {features}

[edges.bond]
file = "bonds.csv"
"""


def graph_site(folder: Path, features: Sequence[str] = ("mass",), graphs: int = 20) -> Path:
    """Write rings and paths; node ids restart in every graph."""
    draw = random.Random(len(features))
    atoms, bonds = [], []
    for number in range(graphs):
        size = 4 + number % 3
        atoms += [
            (n, f"g{number}", *(round(draw.random(), 3) for _ in features)) for n in range(size)
        ]
        bonds += [(n, n + 1, f"g{number}") for n in range(size - 1)]
        if number % 2 == 0:
            bonds.append((size - 1, 0, f"g{number}"))
    labels = [(f"g{number}", "ring" if number % 2 == 0 else "path") for number in range(graphs)]
    write_csv(folder / "atoms.csv", ",".join(["id", "graph", *features]), atoms)
    write_csv(folder / "bonds.csv", "source,target,graph", bonds)
    write_csv(folder / "graphs.csv", "id,label", labels)
    toml = GRAPHS_TOML.format(site=folder.name, features=[*features])
    return write_toml(folder, toml.replace("'", '"'))


LINKS_TOML = """\
site = "{site}"
task = "link-prediction"

[nodes.patient]
file = "patients.csv"
features = ["age"]

[nodes.drug]
file = "drugs.csv"

[nodes.gene]
features = ["length", "share"]

[edges.takes]
file = "takes.csv"
from = "patient"
to = "drug"

[edges.meets]
file = "meets.csv"
from = "patient"
to = "patient"

[edges.acts-on]
from = "drug"
to = "gene"
"""


def link_site(folder: Path, seed: int = 1, genes: bool = False) -> Path:
    """Write patients and drugs, and optionally genes that drugs act on."""
    draw = random.Random(seed)
    write_csv(folder / "patients.csv", "id,age", [(f"p{n}", n % 7) for n in range(30)])
    write_csv(folder / "drugs.csv", "id", [(f"d{n}",) for n in range(10)])
    takes = {(draw.randrange(30), draw.randrange(10)) for _ in range(120)}
    rows = [(f"p{patient}", f"d{drug}") for patient, drug in sorted(takes)]
    write_csv(folder / "takes.csv", "source,target", rows)
    meets = {tuple(sorted(draw.sample(range(30), 2))) for _ in range(60)}
    write_csv(folder / "meets.csv", "source,target", [(f"p{a}", f"p{b}") for a, b in sorted(meets)])
    toml = LINKS_TOML.format(site=folder.name)
    if genes:
        write_csv(folder / "genes.csv", "id,length,share", [(f"x{n}", n, 0.5) for n in range(12)])
        acts = [(f"d{n % 10}", f"x{(n * 7) % 12}") for n in range(30)]
        write_csv(folder / "acts.csv", "source,target", acts)
        toml = toml.replace("[nodes.gene]\n", '[nodes.gene]\nfile = "genes.csv"\n')
        toml = toml.replace("[edges.acts-on]\n", '[edges.acts-on]\nfile = "acts.csv"\n')
    return write_toml(folder, toml)


MESSY_TOML = """\
site = "{site}"
task = "node-classification"
classes = ["healthy", "ill"]
{top}
[nodes.patient]
file = "patients.csv"
label = "state"

[nodes.patient.columns]
age = "number"
bmi = {bmi}
ward = "category"
admitted = "date"
smoker = "flag"
note = "ignored"

[edges.contact]
file = "contacts.csv"
"""
MESSY_HEADER = "id,age,bmi,ward,admitted,smoker,note,state"


def messy_site(folder: Path, seed: int, rows: int, top: str = "", bmi: str = '"number"') -> Path:
    """Write patients with columns of all kinds, gaps, and a category that is rare."""
    draw = random.Random(seed)
    wards = ["surgery", "intensive", f"rare-{seed}"]
    patients = [
        (
            f"p{number}",
            round(draw.gauss(50, 20), 1),
            draw.choice(["", "NA", round(draw.gauss(25, 4), 2), round(draw.gauss(25, 4), 2)]),
            draw.choices([*wards, ""], [5, 5, 0.3, 1])[0],
            f"20{draw.randint(20, 26)}-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}",
            draw.choice(["yes", "no", "TRUE", "0", ""]),
            "free text; 'quoted'",
            ("healthy", "ill")[number % 2],
        )
        for number in range(rows)
    ]
    write_csv(folder / "patients.csv", MESSY_HEADER, patients)
    links = [draw.sample(range(rows), 2) for _ in range(2 * rows)]
    write_csv(folder / "contacts.csv", "source,target", [(f"p{a}", f"p{b}") for a, b in links])
    return write_toml(folder, MESSY_TOML.format(site=folder.name, top=top, bmi=bmi))
