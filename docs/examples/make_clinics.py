"""Two clinics with patients, and the patients of June and July, for docs/using-the-model.md."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = list[Any]

PATIENTS = """\
[nodes.patient]
file = "patients.csv"
[nodes.patient.columns]
age = "number"
dose = "number"
ward = "category"
[edges.contact]
file = "contacts.csv"
"""
TRAINING = 'task = "node-classification"\nclasses = ["healthy", "ill"]\n'
LABELLED = PATIENTS.replace('"patients.csv"', '"patients.csv"\nlabel = "state"')


def write(path: Path, rows: Iterable[Row]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


sizes = {"north": (0, 120), "south": (0, 120), "june": (0, 40), "july": (120, 60)}
for seed, (folder, (first, count)) in enumerate(sizes.items()):
    draw, new = random.Random(seed), folder == "june"
    Path(folder).mkdir()
    rows: list[Row] = [["id", "age", "dose", "ward", "state"]]
    for number in range(count):
        dose, ward = draw.choice([-1, 1]) * draw.uniform(0.5, 2), draw.choice(["surgery", "eye"])
        row = [f"p{first + number}", draw.randint(20, 90), round(dose, 2), ward]
        rows.append([*row, "ill" if dose + draw.gauss(0, 0.5) > 0 else "healthy"])
    if new:
        rows[5][2], rows[7][3] = 9.5, "maternity"
        rows = [row[:-1] for row in rows]
    every = first + count
    links = [[f"p{n}", f"p{(n + draw.randint(1, first + 9)) % every}"] for n in range(first, every)]
    write(Path(folder) / "patients.csv", rows)
    write(Path(folder) / "contacts.csv", [["source", "target"], *links])
    if folder == "july":
        continue  # its tables are called as those of north
    site = "north" if new else folder
    text = f'site = "{site}"\n' + (PATIENTS if new else TRAINING + LABELLED)
    (Path(folder) / "site.toml").write_text(text)
