"""Three sites that learn slowly, and better together than alone."""

from __future__ import annotations

import random
from pathlib import Path

from own_sites import write_csv, write_toml

FEATURES = [f"x{number}" for number in range(3)]
TOML = """\
site = "{site}"
task = "node-classification"
classes = ["healthy", "ill"]

[nodes.patient]
file = "patients.csv"
features = {features}
label = "state"
split = "part"

[edges.contact]
file = "contacts.csv"
"""
PARTS = ["train"] * 24 + ["val"] * 40 + ["test"] * 200


def slow_site(folder: Path, number: int) -> Path:
    """Patients whose state shifts three features, one of which misleads in the training samples.

    It is another one at each site, so that together the sites learn what none learns alone.
    """
    draw = random.Random(number)

    def features(ill: bool, part: str) -> list[float]:
        signs = [-1 if part == "train" and n == number else 1 for n in range(len(FEATURES))]
        return [round(draw.gauss(sign if ill else -sign, 1.0), 3) for sign in signs]

    rows = [
        (f"p{n}", *features(n % 2 == 0, part), ("ill", "healthy")[n % 2], part)
        for n, part in enumerate(PARTS)
    ]
    write_csv(folder / "patients.csv", ",".join(["id", *FEATURES, "state", "part"]), rows)
    contacts = [(f"p{n}", f"p{n + 2}") for n in range(0, 8, 4)]
    write_csv(folder / "contacts.csv", "source,target", contacts)
    names = str(FEATURES).replace("'", '"')
    return write_toml(folder, TOML.format(site=folder.name, features=names))


def three_slow_sites(folder: Path) -> list[Path]:
    return [
        slow_site(folder / name, number) for number, name in enumerate(("alpha", "beta", "gamma"))
    ]
