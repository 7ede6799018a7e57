"""The card's code runs on the site's own files, and the card tells nothing of other sites."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import ramet
from own_sites import graph_site, link_site, messy_site, write_csv
from ramet.data import HeteroGraph
from ramet.prediction import Trained, client_input, outputs
from ramet.runs import Result

BANK = """\
site = "{site}"
task = "node-classification"
classes = ["honest", "fraud"]

[nodes.account]
file = "tables/accounts.parquet"
id = "iban"
label = "verdict"

[nodes.account.columns]
country = {{ kind = "category", missing_values = [""] }}
opened = "date"
balance = "number"

[edges.transfer]
file = "tables/transfers.csv"
source = "payer"
target = "payee"

[edges.same-owner]
file = "tables/owners.csv"
source = "one"
target = "other"
"""


def bank(folder: Path, seed: int, accounts: int = 60) -> Path:
    """Accounts with numbers as ids, and two tables of links that share some."""
    draw = random.Random(seed)
    (folder / "tables").mkdir(parents=True)
    cells = {
        "iban": [*range(100, 100 + accounts)],
        "country": [draw.choice(["NO", "NA", None]) for _ in range(accounts)],
        "opened": [f"2020-0{draw.randint(1, 9)}-11" for _ in range(accounts)],
        "balance": [draw.choice([None, draw.gauss(100, 40)]) for _ in range(accounts)],
        "verdict": [draw.choice(["honest", "fraud"]) for _ in range(accounts)],
    }
    pd.DataFrame(cells).to_parquet(folder / "tables" / "accounts.parquet")
    transfers = [draw.choices(cells["iban"], k=2) for _ in range(2 * accounts)]  # and self loops
    owners = [*transfers[:10], *(draw.sample(cells["iban"], 2) for _ in range(10))]
    write_csv(folder / "tables" / "transfers.csv", "payee,payer", transfers)
    write_csv(folder / "tables" / "owners.csv", "one,other", owners)
    (folder / "site.toml").write_text(BANK.format(site=folder.name))
    return folder / "site.toml"


def molecules(folder: Path, _: int) -> Path:
    """Graphs in tables with other names, and nodes in mixed order."""
    site = graph_site(folder)
    rows = (folder / "atoms.csv").read_text().splitlines()[1:]
    random.Random(1).shuffle(rows)
    (folder / "atoms.csv").write_text("\n".join(["number,molecule,mass", *rows]) + "\n")
    bonds = (folder / "bonds.csv").read_text().splitlines()[1:]
    (folder / "bonds.csv").write_text("\n".join(["from,to,molecule", *bonds]) + "\n")
    toml = site.read_text().replace('file = "atoms.csv"', 'file = "atoms.csv"\nid = "number"')
    toml = toml.replace('features = ["mass"]', 'features = ["mass"]\ngraph = "molecule"')
    columns = 'source = "from"\ntarget = "to"\ngraph = "molecule"'
    site.write_text(toml.replace('file = "bonds.csv"', f'file = "bonds.csv"\n{columns}'))
    return site


def patients_and_drugs(folder: Path, seed: int) -> Path:
    """Several node types, of which one has no nodes, and several relations."""
    return link_site(folder, seed)


def trained(method: str, make: Callable[[Path, int], Path], folder: Path, sites: int = 2) -> Result:
    names = ("north", "south", "east")[:sites]
    files = " ".join(str(make(folder / name, number)) for number, name in enumerate(names))
    return ramet.run(method, "own", rounds=2, out=folder / "run", sites=files)


def run_of_card(model: Path, tables: Path) -> dict[str, Tensor]:
    """What the card's code gives, in a process without Ramet, with the tables in its folder."""
    (code,) = re.findall(r"```python\n(.*?)```", (model / "README.md").read_text(), re.DOTALL)
    shutil.copytree(tables, model, dirs_exist_ok=True)
    told = "import sys\nsys.modules['ramet'] = None\nsys.path.insert(0, '.')\n"
    saved = "\nfrom safetensors.torch import save_file\nsave_file({'chances': chances}, 'out')\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", told + code + saved], cwd=model, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return load_file(model / "out")


@pytest.mark.parametrize(
    ("method", "make"),
    [
        ("fedavg", bank),
        pytest.param("fedlit", bank, marks=pytest.mark.thorough),
        ("fedstar", molecules),
        pytest.param("fedavg", patients_and_drugs, marks=pytest.mark.thorough),
    ],
    ids=["bank", "kinds-of-links", "graphs", "links"],
)
def test_the_code_gives_what_ramet_predicts(
    method: str, make: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    result = trained(method, make, tmp_path)
    result.export("north", tmp_path / "model", programs=False)
    found = run_of_card(tmp_path / "model", tmp_path / "north")["chances"]
    if make is patients_and_drugs:
        first = result.predict("north", relation="meets", top=30, known=True)
        assert len(first) == 30 * 29
        people = {f"p{number}": number for number in range(30)}
        places = first["source"].map(people) * 30 + first["target"].map(people)
        found = found[torch.tensor(places.to_numpy())]
        expected = torch.tensor(first["probability"].to_numpy())
    else:
        run = Trained.open(result.folder)
        graph = client_input(run, "north").graph
        assert not isinstance(graph, HeteroGraph)
        expected = outputs(run.model("north"), graph).double().softmax(dim=1)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert float(expected.std()) > 0
    card = (tmp_path / "model" / "README.md").read_text()
    assert "mean of" not in card  # of two sites, it would tell the other's score


def test_the_card_tells_only_the_sites_own_numbers(tmp_path: Path) -> None:
    def patients(folder: Path, seed: int) -> Path:
        return messy_site(folder, seed, 40 + 7 * seed)

    result = trained("fedavg", patients, tmp_path, sites=3)
    result.export("north", tmp_path / "model", programs=False)
    written = [path for path in (tmp_path / "model").rglob("*") if path.suffix in (".md", ".json")]
    texts = "\n".join(path.read_text() for path in written)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Data of north: 40 nodes" in card
    scores = result.summary.scores
    assert f"| north | {scores.clients['north']:.4f} |" in card
    assert f"| mean of 3 sites | {scores.test:.4f} |" in card
    for other, patients_there in (("south", 47), ("east", 54)):
        facts = [line for line in texts.splitlines() if other in line]
        assert facts  # it is named among the sites
        assert not [line for line in facts if re.search(r"\d{2}", line)], facts
        assert f"{patients_there} nodes" not in texts
