"""A run on newer data, from earlier models, tests on nothing that was trained on before."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, node_site, write_csv
from ramet.errors import RametWarning
from ramet.experiment import RunFolder

PARTS = ("train", "val", "test")


def trained(site: Path, out: Path, start_from: Path | None = None, **options: Any) -> Path:
    method = "local"
    ramet.run(method, "own", rounds=1, sites=str(site), out=out, start_from=start_from, **options)
    return out


def parts_of_nodes(run: Path, site: Path) -> dict[str, str]:
    """The part of each patient, from the split that the run recorded and the site's table."""
    return _by_id(run, site, "patients.csv")


def _by_id(run: Path, site: Path, table: str) -> dict[str, str]:
    with (site.parent / table).open() as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    split = json.loads((run / "split.json").read_text())["clients"][site.parent.name]
    return {ids[index]: part for part in PARTS for index in split[part]}


def counts(parts: Mapping[Any, str]) -> dict[str, int]:
    return {part: [*parts.values()].count(part) for part in PARTS}


def rows_of(path: Path) -> list[list[str]]:
    with path.open() as file:
        return list(csv.reader(file))[1:]


def next_month(site: Path, patients: int, without: int = 0) -> None:
    """The site with patients added at the end, mixed order, and some of the first removed."""
    node_site(site.parent, 1, patients)
    table = site.parent / "patients.csv"
    rows = rows_of(table)[without:]
    write_csv(table, "id,age,dose,state", [*rows[1::2], *rows[::2]])
    known = {row[0] for row in rows}
    contacts = [row for row in rows_of(site.parent / "contacts.csv") if {*row} <= known]
    write_csv(site.parent / "contacts.csv", "source,target", contacts)


def test_patients_keep_their_part_for_months(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 200)
    april = trained(site, tmp_path / "april")
    seen = parts_of_nodes(april, site)
    for month, patients, gone in (("may", 260, 20), ("june", 330, 0)):
        next_month(site, patients, gone)
        before = tmp_path / ("april" if month == "may" else "may")
        now = parts_of_nodes(trained(site, tmp_path / month, before), site)
        assert {one: now[one] for one in now if one in seen} == {
            one: seen[one] for one in seen if one in now
        }
        new = counts({one: part for one, part in now.items() if one not in seen})
        total = sum(new.values())
        assert total >= 60
        for part, share in zip(PARTS, (0.6, 0.2, 0.2), strict=True):
            assert abs(new[part] - share * total) <= 2  # rounding in each of two classes
        seen |= now


def test_a_single_new_patient_is_drawn(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 40)
    april = trained(site, tmp_path / "april")
    before = parts_of_nodes(april, site)
    next_month(site, 41)
    now = parts_of_nodes(trained(site, tmp_path / "may", april), site)
    assert {one: part for one, part in now.items() if one in before} == before
    assert now["p40"] in PARTS


def test_another_split_seed_draws_only_new_patients(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 40)
    april = trained(site, tmp_path / "april")
    may = trained(site, tmp_path / "may", april, split_seed=7)
    assert parts_of_nodes(may, site) == parts_of_nodes(april, site)


def test_graphs_keep_their_part(tmp_path: Path) -> None:
    site = graph_site(tmp_path / "north", graphs=40)
    april = trained(site, tmp_path / "april")
    before = _by_id(april, site, "graphs.csv")
    graph_site(tmp_path / "north", graphs=60)
    rows = rows_of(tmp_path / "north" / "graphs.csv")
    write_csv(tmp_path / "north" / "graphs.csv", "id,label", rows[::-1])
    now = _by_id(trained(site, tmp_path / "may", april), site, "graphs.csv")
    assert {one: part for one, part in now.items() if one in before} == before
    new = counts({one: part for one, part in now.items() if one not in before})
    assert new["train"] >= 14
    assert sum(new.values()) == 20


def links_by_part(run: Path) -> dict[tuple[str, ...], int]:
    """The part of each link, by its ends; those between patients in either order."""
    experiment = RunFolder(run).experiment()
    ids = experiment.setting.site("north", experiment.settings.data).ids  # type: ignore[attr-defined]
    samples = experiment.samples("north")
    named = [str(one) for kind in samples.graph.types for one in ids[kind.name]]
    held = samples.held_out
    found = {}
    for part, links in (
        (0, samples.graph.links),
        (1, held.val.pairs[held.val.labels.nonzero().flatten()]),
        (2, held.test.pairs[held.test.labels.nonzero().flatten()]),
    ):
        for head, tail in zip(links.heads.tolist(), links.tails.tolist(), strict=True):
            found[tuple(sorted((named[head], named[tail])))] = part
    return found


def test_links_keep_their_part_even_if_written_the_other_way_round(tmp_path: Path) -> None:
    site = link_site(tmp_path / "north")
    april = trained(site, tmp_path / "april")
    before = links_by_part(april)
    table = tmp_path / "north" / "meets.csv"
    old = [(b, a) for a, b in rows_of(table)]
    pairs = [(f"p{a}", f"p{b}") for a in range(30) for b in range(a)]
    new = [pair for pair in pairs if tuple(sorted(pair)) not in before][:40]
    write_csv(table, "source,target", [*new, *old])
    now = links_by_part(trained(site, tmp_path / "may", april))
    assert {link: part for link, part in now.items() if link in before} == before
    added = [now[tuple(sorted(pair))] for pair in new]
    assert [added.count(part) for part in range(3)] == [34, 2, 4]


def test_a_split_column_wins_and_what_was_trained_on_is_said(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 40)
    april = trained(site, tmp_path / "april")
    was_trained = [one for one, p in parts_of_nodes(april, site).items() if p == "train"]
    given = {one: "test" if one in was_trained[:5] else "train" for one in was_trained}
    rows = [[*row, given.get(row[0], "val")] for row in rows_of(site.parent / "patients.csv")]
    write_csv(site.parent / "patients.csv", "id,age,dose,state,part", rows)
    site.write_text(site.read_text().replace('label = "state"', 'label = "state"\nsplit = "part"'))
    with pytest.warns(RametWarning, match="5 samples of north that are now for validation or test"):
        may = trained(site, tmp_path / "may", april)
    now = parts_of_nodes(may, site)
    assert [now[one] for one in was_trained[:6]] == ["test"] * 5 + ["train"]
    site.write_text(site.read_text().replace('split = "part"\n', ""))
    june = trained(site, tmp_path / "june", may)
    later = parts_of_nodes(june, site)
    assert {later[one] for one in was_trained} == {"train"}  # April's model had seen them


def test_a_resumed_run_and_an_evaluation_use_the_kept_split(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 60)
    april = trained(site, tmp_path / "april")
    next_month(site, 80)
    may = trained(site, tmp_path / "may", april)
    tested = counts(parts_of_nodes(may, site))["test"]
    result = ramet.resume(may, rounds=2)
    assert result.evaluation("north")["test"].samples == tested
    assert ramet.resume(may).summary.baselines["north"].test == tested


def test_the_command_says_how_many_are_new(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 40)
    april = trained(site, tmp_path / "april")
    next_month(site, 50)
    words = ("--site", site, "--rounds", "1", "--from", april, "--out", tmp_path / "may")
    done = command("run", "local", *words)
    assert done.code == 0, done.stderr
    assert "north: 10 new samples; 40 known ones keep their part of the split." in done.stderr


def test_a_run_without_a_record_of_its_split_is_said(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 40)
    april = trained(site, tmp_path / "april")
    (RunFolder(april).clients / "north" / "parts.json").unlink()
    with pytest.warns(RametWarning, match=r"samples that north now has .* may have been trained"):
        trained(site, tmp_path / "may", april)


def test_another_split_of_built_in_data_is_said(tmp_path: Path) -> None:
    first = ramet.run("local", "tiny", rounds=1, out=tmp_path / "first")
    with pytest.warns(RametWarning, match=r"samples that rings now has .* may have been trained"):
        ramet.run(
            *("local", "tiny"),
            rounds=1,
            split_seed=5,
            start_from=first.folder,
            out=tmp_path / "second",
        )


def test_ids_are_not_in_the_folder_of_the_run(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", 1, 40)
    table = site.parent / "patients.csv"
    table.write_text(table.read_text().replace("p7,", "Ada-Lovelace,"))
    contacts = site.parent / "contacts.csv"
    contacts.write_text(
        contacts.read_text().replace("p7,", "Ada-Lovelace,").replace(",p7\n", ",Ada-Lovelace\n")
    )
    run = trained(site, tmp_path / "run")
    files = [path for path in run.rglob("*") if path.is_file()]
    assert any(path.name == "parts.json" for path in files)
    assert not [path for path in files if b"Ada-Lovelace" in path.read_bytes()]
