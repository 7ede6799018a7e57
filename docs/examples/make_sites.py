"""Three hospitals with patients and their contacts, as docs/own-graphs.md uses them."""

from __future__ import annotations

import csv
import random
from pathlib import Path

TOML = """\
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

for seed, site in enumerate(["north", "south", "east"]):
    draw, folder = random.Random(seed), Path(site)
    folder.mkdir()
    states = [draw.choice(["healthy", "healthy", "ill"]) for _ in range(60)]
    with (folder / "patients.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "dose", "state"])
        for number, state in enumerate(states):
            middle = 1.0 if state == "ill" else -1.0
            age, dose = (round(draw.gauss(middle, 1.0), 2) for _ in range(2))
            table.writerow([f"p{number}", age, dose, state])
    with (folder / "contacts.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for _ in range(150):
            table.writerow([f"p{number}" for number in draw.sample(range(60), 2)])
    (folder / "site.toml").write_text(TOML.format(site=site))
