"""Explanations of models on planted data, where it is known what decides."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, messy_site, write_csv, write_toml
from ramet.errors import RametError
from ramet.prediction.explanation import Explanation
from ramet.runs import Result

NODES_TOML = """\
site = "{site}"
task = "node-classification"
classes = ["healthy", "ill"]
[nodes.patient]
file = "patients.csv"
label = "state"
[nodes.patient.columns]
age = "number"
dose = "number"
ward = "category"
[edges.contact]
file = "contacts.csv"
"""
PATIENTS = 90


def _by_dose(folder: Path, seed: int) -> Path:
    """Patients with a high dose are ill, whatever their age and ward; contacts are random."""
    draw = random.Random(seed)
    doses = [draw.choice([-1, 1]) * draw.uniform(0.5, 2.0) for _ in range(PATIENTS)]
    rows = [
        (
            f"p{number}",
            round(draw.gauss(50, 20), 1),
            round(dose, 3),
            draw.choice(["surgery", "intensive"]),
            "ill" if dose > 0 else "healthy",
        )
        for number, dose in enumerate(doses)
    ]
    write_csv(folder / "patients.csv", "id,age,dose,ward,state", rows)
    contacts = [(f"p{n}", f"p{(n + draw.randint(1, 20)) % PATIENTS}") for n in range(PATIENTS)]
    write_csv(folder / "contacts.csv", "source,target", contacts)
    return write_toml(folder, NODES_TOML.format(site=folder.name))


def _by_contact(folder: Path, seed: int) -> Path:
    """Patients are ill if one of their three contacts is a carrier, whose dose is high."""
    draw = random.Random(seed)
    carriers = range(10)
    rows, contacts = [], []
    for number in range(PATIENTS):
        carrier = number in carriers
        ill = not carrier and draw.random() < 0.5
        met = [*draw.sample(range(10, PATIENTS), 2), *([draw.choice(carriers)] if ill else [])]
        contacts += [(f"p{number}", f"p{other}") for other in met if other > number or ill]
        dose = 10 if carrier else round(draw.gauss(0, 0.1), 3)
        state = "ill" if ill else "healthy"
        rows.append((f"p{number}", round(draw.gauss(50, 20), 1), dose, "surgery", state))
    write_csv(folder / "patients.csv", "id,age,dose,ward,state", rows)
    write_csv(folder / "contacts.csv", "source,target", sorted({*contacts}))
    return write_toml(folder, NODES_TOML.format(site=folder.name))


def _run(folder: Path, files: list[Path], method: str, rounds: int = 2, **options: Any) -> Result:
    sites, out = shlex.join(map(str, files)), folder / "run"
    return ramet.run(method, "own", sites=sites, rounds=rounds, out=out, **options)


def _total(found: Explanation) -> float:
    features = found.features.select_dtypes("number").to_numpy().sum()
    return float(features + found.links["contribution"].sum())


@pytest.mark.parametrize(
    ("method", "network"),
    [("fedavg", "sage"), pytest.param("fedlit", None, marks=pytest.mark.thorough)],
)
def test_the_feature_that_decides_comes_first(
    method: str, network: str | None, tmp_path: Path
) -> None:
    files = [_by_dose(tmp_path / name, seed) for seed, name in enumerate(("north", "south"))]
    result = _run(tmp_path, files, method, rounds=30, network=network)
    assert result.summary.scores.test > 0.8
    for id_ in ("p0", "p1", "p2", "p3"):
        found = result.explain(id_, site=files[0])
        assert found.features["feature"][0] == "dose", found.features
        assert _total(found) == pytest.approx(found.value - found.baseline, abs=0.05)
    frame = result.predict(site=files[0]).set_index("id")
    assert found.value == pytest.approx(frame.loc["p3", f"p_{found.output}"], abs=1e-4)


def test_the_link_that_decides_comes_first(tmp_path: Path) -> None:
    files = [_by_contact(tmp_path / name, seed) for seed, name in enumerate(("north", "south"))]
    result = _run(tmp_path, files, "fedavg", rounds=60, network="sage")
    frame = result.predict(site=files[0])
    contacts = [line.split(",") for line in (files[0].parent / "contacts.csv").open()][1:]
    carriers = {f"p{number}" for number in range(10)}
    surely_ill = frame[frame["p_ill"] > 0.9]["id"].tolist()[:5]
    assert len(surely_ill) == 5
    for id_ in surely_ill:
        first = result.explain(id_, site=files[0]).links.iloc[0]
        assert {first["source"], first["target"]} & carriers
        assert [first["source"], first["target"] + "\n"] in [*contacts, *map(_reversed, contacts)]
        assert first["contribution"] > 0


def _reversed(contact: list[str]) -> list[str]:
    return [contact[1].strip(), contact[0] + "\n"]


@pytest.mark.parametrize("method", ["fedstar", "feddense"])
def test_graphs_are_explained(method: str, tmp_path: Path) -> None:
    files = [graph_site(tmp_path / name, ("mass", "charge")) for name in ("north", "south")]
    result = _run(tmp_path, files, method)
    found = result.explain("g3", site=files[0])
    assert {*found.features["feature"]} == {"mass", "charge"}
    assert len(found.links) == 3  # the path 0-1-2-3
    assert _total(found) == pytest.approx(found.value - found.baseline, abs=0.02)
    frame = result.predict(site=files[0]).set_index("id")
    assert found.value == pytest.approx(frame.loc["g3", f"p_{found.output}"], abs=1e-5)


@pytest.mark.parametrize("write", [_by_dose, lambda folder, _: graph_site(folder, ("mass",))])
def test_links_that_a_network_does_not_read_contribute_nothing(
    write: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    files = [write(tmp_path / name, seed) for seed, name in enumerate(("north", "south"))]
    result = _run(tmp_path, files, "fedavg", network="mlp")
    found = result.explain("p0" if write is _by_dose else "g3", site=files[0])
    assert len(found.links)
    assert not found.links["contribution"].any()
    assert _total(found) == pytest.approx(found.value - found.baseline, abs=0.02)


def test_the_command_prints_tables_json_and_a_picture(tmp_path: Path) -> None:
    files = [messy_site(tmp_path / name, seed, 60) for seed, name in enumerate(("north", "south"))]
    result = _run(tmp_path, files, "fedavg")
    words = ("explain", result.folder, "--site", files[0], "--id", "p17")
    done = command(*words, "--out", tmp_path / "p17.png")
    assert done.code == 0, done.stderr
    found = result.explain("p17", site=files[0])
    assert f"p17: {found.output} with {found.value:.1%}" in done.stdout
    for name in found.features["feature"][:10]:
        assert name in done.stdout
    assert (tmp_path / "p17.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads(command(*words, "--json").stdout)
    assert facts["id"] == "p17"
    by_name = {row["feature"]: row for row in facts["features"]}
    line = next(
        line for line in (files[0].parent / "patients.csv").open() if line.startswith("p17,")
    )
    _, age, bmi, ward, admitted, *_ = line.split(",")
    assert float(by_name["age"]["value"]) == pytest.approx(float(age), rel=1e-4)
    assert by_name["admitted"]["value"] == admitted
    assert by_name["bmi"]["value"] == ("missing" if bmi in ("", "NA") else f"{float(bmi):.6g}")
    for name in ("surgery", "intensive"):
        assert by_name[f"ward={name}"]["value"] == ("yes" if ward == name else "no")


def test_what_cannot_be_explained(tmp_path: Path) -> None:
    files = [link_site(tmp_path / name) for name in ("north", "south")]
    result = _run(tmp_path, files, "fed-hgn")
    with pytest.raises(RametError, match="predictions of edges and links cannot be explained"):
        result.explain("p1", site=files[0])
    tiny = ramet.run("fedstar", "tiny", rounds=1, out=tmp_path / "tiny")
    with pytest.raises(RametError, match=r"the data has no id '999'. Its first ids are 0, 1, 2"):
        tiny.explain(999, "rings")
    assert tiny.explain(0, "rings").features["feature"].str.startswith("x").all()
    done = command("explain", tiny.folder, "--id", "0", "--client", "rings", "--out", "x.pdf")
    assert done.code == 2
