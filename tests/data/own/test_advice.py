"""Summaries of columns, and warnings about data."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from own_sites import messy_site, node_site, write_csv
from ramet.data.own.advice import column_summaries, warnings
from ramet.data.own.site import read_site


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


def countries(folder: Path, declared: str) -> Path:
    """Patients of three countries, one of which is Namibia, and some of no known one."""
    path = node_site(folder)
    rows = [(f"p{n}", ["NA", "ZA", "", "na"][n % 4], ["ill", "healthy"][n % 2]) for n in range(40)]
    write_csv(path.parent / "patients.csv", "id,country,state", rows)
    columns = f'label = "state"\ncolumns = {{ country = {declared} }}'
    toml = path.read_text().replace('features = ["age", "dose"]\n', "")
    path.write_text(toml.replace('label = "state"', columns))
    return path


def test_a_category_that_counts_as_missing_is_counted_and_said(tmp_path: Path) -> None:
    said = [text for text in warnings(read_site(countries(tmp_path, '"category"'))) if "NA" in text]
    assert said == [
        "patient: country has 'NA' in 10 rows, 'na' in 10 rows, which counts as missing. If it is "
        'a category, declare country = { kind = "category", missing_values = [""] }'
    ]


def test_the_site_says_what_counts_as_missing(tmp_path: Path) -> None:
    for number, (declared, missing, names) in enumerate(
        [
            ('{ kind = "category", missing_values = [""] }', 10, {"NA", "ZA", "na"}),
            ('{ kind = "category", missing_values = ["ZA"] }', 20, {"NA", "na"}),
            ('{ kind = "category", categories = ["NA", "ZA", "na"] }', 10, {"NA", "ZA", "na"}),
        ]
    ):
        site = read_site(countries(tmp_path / str(number), declared))
        values = site.columns["patient"].values["country"].tolist()
        assert values.count("") == missing
        assert {*values} - {""} == names
        assert not [text for text in warnings(site) if '[""]' in text and missing == 10]
