"""Summaries of columns, and warnings about data."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from own_sites import messy_site, node_site, write_csv
from ramet.data.own import read_site
from ramet.data.own.advice import column_summaries, warnings


def test_columns_are_summed_up_with_what_leaves(tmp_path: Path) -> None:
    path = messy_site(tmp_path / "north", 0, 50)
    table = pd.read_csv(path.parent / "patients.csv")
    by_name = {summary.column: summary for summary in column_summaries(read_site(path))}
    assert by_name["bmi"].missing == table["bmi"].isna().sum()
    assert by_name["bmi"].rows == 50
    assert by_name["age"].content.startswith(f"{table['age'].min():g} to {table['age'].max():g}")
    assert by_name["age"].leaves.startswith(f"count 50, sum {table['age'].sum():g}")
    assert by_name["admitted"].content == f"{table['admitted'].min()} to {table['admitted'].max()}"
    assert by_name["smoker"].leaves == "nothing"
    assert "rare" not in by_name["ward"].leaves


def test_a_clean_site_has_no_warnings(tmp_path: Path) -> None:
    path = node_site(tmp_path / "north")
    rows = [(f"p{n}", f"p{(n + 1) % 40}") for n in range(40)]
    write_csv(path.parent / "contacts.csv", "source,target", rows)
    assert warnings(read_site(path)) == []


def test_unscaled_features_and_nodes_without_links(tmp_path: Path) -> None:
    path = node_site(tmp_path / "north")
    table = pd.read_csv(path.parent / "patients.csv")
    table["dose"] *= 1000
    table.to_csv(path.parent / "patients.csv", index=False)
    write_csv(path.parent / "contacts.csv", "source,target", [("p1", "p2"), ("p2", "p3")])
    unscaled, unlinked = warnings(read_site(path))
    assert unscaled.startswith("patient: dose is not scaled")
    assert unlinked.startswith("37 of 40 nodes have no links")


def test_identifiers_and_rare_classes(tmp_path: Path) -> None:
    path = messy_site(tmp_path / "north", 0, 120)
    table = pd.read_csv(path.parent / "patients.csv")
    table["age"], table["ward"] = range(120), [f"record {number}" for number in range(120)]
    table["state"] = ["ill"] * 4 + ["healthy"] * 116
    table.to_csv(path.parent / "patients.csv", index=False)
    texts = warnings(read_site(path))
    assert 'patient: age numbers the rows. Declare it as "ignored"' in texts
    assert any("ward has 120 categories in 120 rows" in text for text in texts)
    assert any(text.startswith("class ill has 4 of 120 samples") for text in texts)
