"""Mistakes that people make with tables: each is one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from own_sites import messy_site, node_site, write_csv
from ramet.data.own.advice import warnings
from ramet.data.own.site import check_site, read_site

NODES, EDGES = "patients.csv", "contacts.csv"
Change = Callable[[Path], None]


def replaced(file: str, old: str, new: str) -> Change:
    """Replace a text once."""

    def change(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))

    return change


def cell(row: int, column: str, value: str) -> Change:
    """Replace a cell; commas in it are quoted."""

    def change(folder: Path) -> None:
        table = pd.read_csv(folder / NODES, dtype=str, keep_default_na=False)
        table.loc[row, column] = value
        table.to_csv(folder / NODES, index=False)

    return change


def semicolons(folder: Path) -> None:
    text = (folder / NODES).read_text()
    (folder / NODES).write_text(text.replace(",", ";"))


def float_ids(folder: Path) -> None:
    table = pd.read_csv(folder / NODES)
    table["id"] = range(len(table))
    table.to_csv(folder / NODES, index=False)
    rows = [(f"{n}.0" if n == 5 else n, (n + 1) % 40) for n in range(40)]
    write_csv(folder / EDGES, "source,target", rows)


def no_header(folder: Path) -> None:
    lines = (folder / NODES).read_text().splitlines()
    (folder / NODES).write_text("\n".join(lines[1:]) + "\n")


def empty(folder: Path) -> None:
    (folder / NODES).write_text("")


def few_rows(folder: Path) -> None:
    table = pd.read_csv(folder / NODES)
    table[:5].to_csv(folder / NODES, index=False)
    write_csv(folder / EDGES, "source,target", [("p0", "p1")])


def latin_1(folder: Path) -> None:
    text = (folder / NODES).read_text().replace("p0,", "Müller,", 1)
    (folder / NODES).write_bytes(text.encode("latin-1"))


def excel_as_csv(folder: Path) -> None:
    (folder / NODES).write_bytes(b"PK\x03\x04\x14\x00\x06\x00\x08\x00\xff\xfe\x00!\x00")


SAVE = "In a spreadsheet program, save the sheet as CSV in UTF-8, with commas."
DECLARE = "declare the column in [nodes.NAME.columns]"
MISTAKES: dict[str, tuple[Change, str]] = {
    "semicolons": (
        semicolons,
        "patients.csv, row 1: cells are separated by ';'. Separate them by commas.",
    ),
    "decimal comma": (
        cell(3, "age", "3,5"),
        "patients.csv, row 5, column 'age': '3,5' is not a number. Write 3.5, with a decimal "
        "point.",
    ),
    "thousands separator": (
        cell(3, "age", "1,234.5"),
        "patients.csv, row 5, column 'age': '1,234.5' is not a number. Write it without thousands "
        "separators, such as 1234.5.",
    ),
    "unit": (
        cell(3, "dose", "12 mg"),
        "patients.csv, row 5, column 'dose': '12 mg' is not a number. Write 3.5, without units, or "
        f'{DECLARE} as "category" or "date".',
    ),
    "infinite number": (
        cell(3, "age", "inf"),
        "patients.csv, row 5, column 'age': 'inf' is not a finite number. Leave the cell empty and "
        f'{DECLARE} as "number", or correct it.',
    ),
    "NaN as text": (
        cell(3, "age", "NaN"),
        "patients.csv, row 5, column 'age': 'NaN' is not a finite number. Leave the cell empty and "
        f'{DECLARE} as "number", or correct it.',
    ),
    "gap": (
        cell(3, "age", ""),
        "patients.csv, row 5, column 'age': the number is missing. Fill it in, or "
        f'{DECLARE} as "number", which allows missing values.',
    ),
    "boolean word": (
        cell(3, "dose", "yes"),
        "patients.csv, row 5, column 'dose': 'yes' is not a number. "
        f'{DECLARE.capitalize().replace("name", "NAME")} as "flag", or write 1 and 0.',
    ),
    "duplicate id": (
        cell(3, "id", "p0"),
        "patients.csv, row 5, column 'id': 'p0' already appears in row 2. Ids must be unique.",
    ),
    "id as a float": (
        float_ids,
        "contacts.csv, row 7, column 'source': there is no patient '5.0', but there is '5'. Write "
        "ids in the same way in both tables.",
    ),
    "edge to an unknown node": (
        replaced(EDGES, "p0,", "p99,"),
        "contacts.csv, row 2, column 'source': there is no patient 'p99'. Add it to the table of "
        'patient, remove this row, or write unknown = "drop" or "stub" in [edges.TYPE].',
    ),
    "class in another case": (
        cell(3, "state", "Ill"),
        "patients.csv, row 5, column 'state': 'Ill' is not one of the classes healthy, ill. Did "
        "you mean 'ill'?",
    ),
    "unknown class": (
        cell(3, "state", "dead"),
        "patients.csv, row 5, column 'state': 'dead' is not one of the classes healthy, ill.",
    ),
    "misspelt column": (
        replaced("site.toml", '"dose"', '"does"'),
        "patients.csv, row 1, column 'does': there is no such column. The columns are id, age, "
        "dose, state. Did you mean 'dose'?",
    ),
    "empty file": (empty, "patients.csv: is empty. The first line must name the columns."),
    "Excel file": (
        replaced("site.toml", "patients.csv", "patients.xlsx"),
        f"patients.xlsx: is neither .csv nor .parquet. {SAVE}",
    ),
    "Excel file named CSV": (excel_as_csv, f"patients.csv: is not UTF-8 text. {SAVE}"),
    "other encoding": (latin_1, f"patients.csv: is not UTF-8 text. {SAVE}"),
    "backslash in a quoted path": (
        replaced("site.toml", '"patients.csv"', '"data\\patients.csv"'),
        "Write paths with / instead of \\.",
    ),
    "backslash in a path": (
        replaced("site.toml", '"patients.csv"', "'data\\patients.csv'"),
        "site.toml: there is no 'data\\patients.csv' in its folder. Write paths with / instead of "
        "\\.",
    ),
    "too few rows": (few_rows, "site.toml: 5 nodes are too few to split; 10 are needed."),
    "misspelt key": (
        replaced("site.toml", "label =", "lable ="),
        "Did you mean 'label'?",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_do(mistake: str, tmp_path: Path) -> None:
    change, expected = MISTAKES[mistake]
    path = node_site(tmp_path / "north")
    (path.parent / "patients.xlsx").write_bytes(b"PK\x03\x04")
    assert not check_site(path).problems
    change(path.parent)
    first = str(check_site(path).problems[0])
    assert first.endswith(expected)
    assert "\n" not in first


def test_a_missing_header_is_noticed(tmp_path: Path) -> None:
    path = node_site(tmp_path / "north")
    no_header(path.parent)
    texts = [str(problem) for problem in check_site(path).problems]
    assert all("The first line must name the columns" in text for text in texts)
    assert len(texts) == 4


def test_a_byte_order_mark_and_spaces_around_cells_are_no_mistake(tmp_path: Path) -> None:
    path = node_site(tmp_path / "north")
    expected = read_site(path).labels
    assert expected is not None
    text = (path.parent / NODES).read_text().replace("ill\n", "ill \n")
    (path.parent / NODES).write_text(text, encoding="utf-8-sig")
    found = read_site(path).labels
    assert found is not None
    assert found.equal(expected)


def test_two_date_formats_are_one_line_per_date(tmp_path: Path) -> None:
    path = messy_site(tmp_path / "north", 0, 50)
    cell(7, "admitted", "31.03.2026")(path.parent)
    (problem,) = check_site(path).problems
    assert str(problem) == (
        "patients.csv, row 9, column 'admitted': '31.03.2026' is not a date. Write 2026-03-31, or "
        "2026-03-31T08:15."
    )


def test_categories_in_two_spellings_are_a_warning(tmp_path: Path) -> None:
    path = messy_site(tmp_path / "north", 0, 50)
    cell(7, "ward", "Surgery")(path.parent)
    assert "patient: ward has 'Surgery' and 'surgery'. Write a category in one way" in warnings(
        read_site(path)
    )


def test_a_class_only_in_test_is_a_warning(tmp_path: Path) -> None:
    path = node_site(tmp_path / "north")
    table = pd.read_csv(path.parent / NODES)
    parts = ["train", "val", "test", "train"] * 10
    held = zip(table["state"], parts, strict=True)
    table["part"] = ["test" if state == "ill" else part for state, part in held]
    table.to_csv(path.parent / NODES, index=False)
    replaced("site.toml", 'label = "state"', 'label = "state"\nsplit = "part"')(path.parent)
    assert any(
        text.startswith("class ill has no training samples") for text in warnings(read_site(path))
    )


def test_a_column_that_the_site_lacks_is_a_warning(tmp_path: Path) -> None:
    path = messy_site(tmp_path / "north", 0, 50, bmi='{ kind = "number", absent = true }')
    assert "patient: this site lacks bmi, which the model learns from other sites only" in warnings(
        read_site(path)
    )
