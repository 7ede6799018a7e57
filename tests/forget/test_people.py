"""A run without some people of a site has the numbers of a run whose tables never had them."""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pandas as pd
import pytest

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, messy_site, node_site
from ramet.data.own.files import site_files
from ramet.data.own.site import read_site
from ramet.errors import RametError
from ramet.forget import Certificate, ForgettingError, People, forget

LEVELS: dict[str, tuple[str, Callable[[Path, int], Path]]] = {
    "node": ("fedavg", node_site),
    "columns": ("scaffold", lambda folder, number: messy_site(folder, number, rows=60)),
    "link": ("fedda", link_site),
    "graph": ("fedstar", lambda folder, number: graph_site(folder, graphs=20 + 4 * number)),
}


def sites(folder: Path, level: str) -> list[Path]:
    write = LEVELS[level][1]
    return [write(folder / name, number) for number, name in enumerate(("north", "south"), 1)]


def run(out: Path, tomls: list[Path], method: str, **options: object) -> ramet.Result:
    return ramet.run(method, "own", sites=tomls, rounds=2, out=out, **options)  # type: ignore[arg-type]


def by_hand(source: Path, out: Path, ids: Collection[str]) -> Path:
    """The site's files without lines that have one of the ids in a cell."""
    shutil.copytree(source, out)
    for path in out.rglob("*.csv"):
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        kept = [row for row in rows if not {*row} & {*ids}]
        path.write_text("".join(",".join(row) + "\n" for row in [header, *kept]))
    return out / "site.toml"


@pytest.mark.parametrize("level", LEVELS)
def test_the_numbers_are_those_of_tables_that_never_had_them(tmp_path: Path, level: str) -> None:
    method = LEVELS[level][0]
    north, south = sites(tmp_path / "data", level)
    names = [f"g{n}" for n in range(20)] if level == "graph" else [f"p{n}" for n in range(30)]
    ids = random.Random(level).sample(names, 3)
    people = People(frozenset(ids), "patient" if level == "link" else None)
    whole = run(tmp_path / "runs" / "all", [north, south], method)
    never = by_hand(north.parent, tmp_path / "never" / "north", ids)
    expected = run(tmp_path / "runs" / "never", [never, south], method).summary.sha256
    before = {file: file.read_bytes() for file in site_files(north)}
    certificate, path = forget(tmp_path / "runs" / "all", "north", people=people)
    assert certificate.last.learnt == expected != whole.summary.sha256
    assert (certificate.people, certificate.site) == (3, "north")
    assert Certificate.read(path) == certificate
    assert {file: file.read_bytes() for file in site_files(north)} == before
    certificate.check()


def test_a_certificate_about_people_needs_other_data_of_that_site(tmp_path: Path) -> None:
    north, south = sites(tmp_path / "data", "node")
    run(tmp_path / "runs" / "all", [north, south], "fedavg", verified=True)
    certificate, _ = forget(tmp_path / "runs" / "all", "north", people=People(frozenset(["p1"])))
    certificate.check()
    (pair,) = certificate.runs
    for changed in (
        pair.before.sites,
        {**pair.after.sites, "north": None},
        {"south": pair.after.sites["south"]},
    ):
        after = pair.after.model_copy(update={"sites": changed})
        forged = pair.model_copy(update={"after": after})
        with pytest.raises(ForgettingError):
            certificate.model_copy(update={"runs": (forged,)}).check()


def test_the_commands(tmp_path: Path) -> None:
    tomls = sites(tmp_path / "data", "node")
    run(tmp_path / "runs" / "all", tomls, "fedavg")
    ids = tmp_path / "ids.txt"
    ids.write_text("p1\n\np4 \n")
    done = command("forget", tmp_path / "runs" / "all", "--site", "north", "--rows", ids)
    assert done.code == 0, done.stderr
    old = command(
        "predict", tmp_path / "runs" / "all", "--site", tomls[0], "--out", tmp_path / "p.csv"
    )
    assert f"ramet: {tmp_path / 'runs' / 'all'} is superseded by the run" in old.stderr
    assert "without 2 of the people of north." in old.stderr
    written = command("data", "without", tomls[0], "--rows", ids)
    assert written.code == 0, written.stderr
    assert "patients.csv: 2 rows left out" in written.stdout
    copy = Path(written.stdout.rpartition("written: ")[2].strip())
    assert read_site(copy).count == read_site(tomls[0]).count - 2
    ids.write_text("p1\nnobody\n")
    refused = command("forget", tmp_path / "runs" / "all", "--site", "north", "--rows", ids)
    assert refused.code == 2
    assert "1 of 2 ids are in no table" in refused.stderr
    assert "'nobody'" in refused.stderr


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    north = node_site(tmp_path / "north")
    for name in ("patients", "contacts"):
        table = pd.read_csv(north.parent / f"{name}.csv")
        table.to_parquet(north.parent / f"{name}.parquet")
    north.write_text(north.read_text().replace(".csv", ".parquet"))
    people = People(frozenset(["p3"]))
    assert people.rows_in(north) == {"patients.parquet": 1, "contacts.parquet": 2}
    copy = people.removed_from(north)
    left = pd.read_parquet(copy.parent / "patients.parquet")
    assert left.dtypes.equals(pd.read_parquet(north.parent / "patients.parquet").dtypes)
    assert "p3" not in {*left["id"]}
    assert len(left) == 39


def test_which_type_the_ids_are_of_must_be_clear(tmp_path: Path) -> None:
    toml = link_site(tmp_path / "north")
    with pytest.raises(RametError, match="--type patient"):
        People(frozenset(["p1"])).rows_in(toml)
    with pytest.raises(RametError, match="Did you mean 'patient'"):
        People(frozenset(["p1"]), "patients").rows_in(toml)
