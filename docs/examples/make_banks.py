"""Two banks whose mules only the order of transfers gives away, for docs/time.md."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

Row = list[Any]

SITE = """\
site = "{site}"
task = "node-classification"
classes = ["honest", "mule"]

[split]
by = "time"
train_until = 2025-06-30
validate_until = 2025-08-31

[nodes.account]
file = "accounts.csv"
columns = {{ desk = "flag" }}
label = "class"
time = "reviewed"

[edges.transfer]
file = "transfers.csv"
directed = true
time = "date"
age = true
"""


def write(folder: Path, site: str, days: Sequence[date], first: int) -> None:
    draw = random.Random(f"{site} {first}")
    folder.mkdir()
    desks = [f"d{n}" for n in range(8)] if first == 0 else []
    accounts: list[Row] = [[desk, "yes" if desk < "d4" else "no", "", ""] for desk in desks]
    transfers: list[Row] = []
    for number in range(first, first + 2 * len(days)):
        day = draw.choice(days)
        earlier = day - timedelta(days=draw.randint(5, 19))
        is_mule = draw.random() < 0.4
        cash, wire = f"d{draw.randint(0, 3)}", f"d{draw.randint(4, 7)}"
        dates = (day, earlier) if is_mule else (earlier, day)
        accounts.append([f"a{number}", "", day, "mule" if is_mule else "honest"])
        transfers += [[cash, f"a{number}", dates[0]], [wire, f"a{number}", dates[1]]]
    for name, header, rows in (
        ("accounts.csv", ["id", "desk", "reviewed", "class"], accounts),
        ("transfers.csv", ["source", "target", "date"], transfers),
    ):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    if first == 0:
        (folder / "site.toml").write_text(SITE.format(site=site))


year = [date(2025, 1, 20) + timedelta(days=n) for n in range(280)]
for bank in ("north", "south"):
    write(Path(bank), bank, year, first=0)
write(
    Path("november"), "north", [date(2025, 11, 1) + timedelta(days=n) for n in range(30)], first=900
)
