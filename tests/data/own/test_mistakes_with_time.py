"""Mistakes that people make with times and [split]: each is a line that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest

from own_sites import write_csv, write_toml
from ramet.data.own.site import check_site

TOML = """\
site = "bank"
task = "{task}"
{classes}
{split}
{graphs}
[nodes.account]
file = "accounts.csv"
{label}
{nodes}
[edges.transfer]
file = "transfers.csv"
{edges}
"""
CUTS = "train_until = 2025-06-30\nvalidate_until = 2025-08-31"
SPLIT = f'[split]\nby = "time"\n{CUTS}'
WHEN = 'time = "when"'
DATED = 'time = "date"'
Mistake: TypeAlias = tuple[dict[str, str], dict[tuple[str, int, int], str], str]
"""Parts of the TOML file, cells by table, row and column, and the problem."""
A, T = "accounts.csv, row 3, column 'when'", "transfers.csv, row 3, column 'date'"
NO_COLUMN = "there is no such column. The columns are id, when, state, kind"
ONE = 'Write the name of one column, as in time = "date".'
DATE = "is not understood. Write a date, as in"
SHARES = (
    "split.shares: is not understood. Write the shares of training, validation and test, as in "
    "shares = [0.6, 0.2, 0.2]."
)
NOT_A_DATE = "is not a date. Write 2026-03-31, or 2026-03-31T08:15."


def reported(
    folder: Path, given: dict[str, str], cells: dict[tuple[str, int, int], str]
) -> list[str]:
    months = [f"2025-{n + 1:02}" for n in range(12)]
    accounts = [[f"n{n}", f"{one}-10", "ab"[n % 2], "x"] for n, one in enumerate(months)]
    transfers = [[f"n{n}", f"n{n + 1}", n + 1, f"{one}-15"] for n, one in enumerate(months[:-1])]
    tables: dict[str, list[Any]] = {"accounts": accounts, "transfers": transfers}
    for (table, row, column), value in cells.items():
        tables[table][row][column] = value
    write_csv(folder / "accounts.csv", "id,when,state,kind", accounts)
    write_csv(folder / "transfers.csv", "source,target,amount,date", transfers)
    parts = {
        "task": "node-classification",
        "classes": 'classes = ["a", "b"]',
        "split": SPLIT,
        "graphs": "",
        "label": 'label = "state"',
        "nodes": WHEN,
        "edges": DATED,
        **given,
    }
    return [str(one) for one in check_site(write_toml(folder, TOML.format(**parts))).problems]


def split(text: str) -> dict[str, str]:
    return {"split": f"[split]\n{text}"}


def nodes(text: str) -> dict[str, str]:
    return {"nodes": text}


def edges(text: str) -> dict[str, str]:
    return {"edges": text}


def account(cell: str) -> dict[tuple[str, int, int], str]:
    return {("accounts", 1, 1): cell}


def transfer(cell: str) -> dict[tuple[str, int, int], str]:
    return {("transfers", 1, 3): cell}


LINKS = {"task": "link-prediction", "classes": "", "label": ""}
TIME: dict[str, Mistake] = {
    "misspelt": (
        nodes('time = "wen"'), {},
        f"accounts.csv, row 1, column 'wen': {NO_COLUMN}. Did you mean 'when'?",
    ),
    "other case": (nodes('time = "When"'), {}, "Did you mean 'when'?"),
    "not there": (nodes('time = "day"'), {}, f"row 1, column 'day': {NO_COLUMN}."),
    "a list": (nodes('time = ["when"]'), {}, f"nodes.account.time: is not understood. {ONE}"),
    "a flag": (nodes("time = true"), {}, f"nodes.account.time: is not understood. {ONE}"),
    "a date in its place": (
        nodes("time = 2025-01-01"), {}, f"nodes.account.time: is not understood. {ONE}",
    ),
    "empty": (nodes('time = ""'), {}, f"nodes.account.time: is not understood. {ONE}"),
    "missing in the TOML": (
        nodes(""), {},
        "[nodes.account] lacks 'time', the column with the date of each row, for [split].",
    ),
    "a gap": (
        {}, account(""), f"{A}: the time is missing. Fill it in, or leave the row out.",
    ),
    "not available": ({}, account("NA"), f"{A}: the time is missing."),
    "a year": ({}, account("2025"), f"{A}: '2025' {NOT_A_DATE}"),
    "German": ({}, account("10.02.2025"), f"{A}: '10.02.2025' {NOT_A_DATE}"),
    "American": ({}, account("02/10/2025"), f"{A}: '02/10/2025' {NOT_A_DATE}"),
    "no such day": ({}, account("2025-02-30"), f"{A}: '2025-02-30' {NOT_A_DATE}"),
    "a quarter": ({}, account("2025 Q1"), f"{A}: '2025 Q1' {NOT_A_DATE}"),
    "after today": (
        {}, account("2205-02-10"),
        f"{A}: '2205-02-10' is after today. Correct it, or leave the row out.",
    ),
    "without a split": (
        {"split": ""}, {},
        "[nodes.account] has 'time', which only [split] with by = \"time\" reads. Add it, or "
        "remove 'time'.",
    ),
    "and a split column": (
        nodes(f'{WHEN}\nsplit = "kind"'), {},
        "[nodes.account] has 'split' = \"kind\", and there is [split]; use one of them.",
    ),
    "of nodes for links": (
        {**LINKS, "edges": DATED}, {},
        "[nodes.account] has 'time', which link-prediction does not read. Remove it.",
    ),
    "plural": (
        nodes('times = "when"'), {},
        "nodes.account.times: there is no such key. Did you mean 'time'?",
    ),
    "at the top": (
        {"classes": 'classes = ["a", "b"]\ntime = "when"'}, {},
        "time: this key is not read here. It belongs in [nodes.TYPE] or in [edges.TYPE] or in "
        "[graphs].",
    ),
}  # fmt: skip
LINK_TIME: dict[str, Mistake] = {
    "misspelt": (edges('time = "dat"'), {}, "Did you mean 'date'?"),
    "other case": (edges('time = "Date"'), {}, "Did you mean 'date'?"),
    "not there": (edges('time = "moment"'), {}, "column 'moment': there is no such column."),
    "a list": (edges('time = ["date"]'), {}, f"edges.transfer.time: is not understood. {ONE}"),
    "a flag": (edges("time = true"), {}, f"edges.transfer.time: is not understood. {ONE}"),
    "empty": (edges('time = ""'), {}, f"edges.transfer.time: is not understood. {ONE}"),
    "the source": (edges('time = "source"'), {}, "has the ends of links as 'time'."),
    "the target": (edges('time = "target"'), {}, "has the ends of links as 'time'."),
    "a gap": ({}, transfer(""), f"{T}: the time is missing. Fill it in, or leave the row out."),
    "not available": ({}, transfer("NaT"), f"{T}: the time is missing."),
    "German": ({}, transfer("15.02.2025"), f"{T}: '15.02.2025' {NOT_A_DATE}"),
    "a number": ({}, transfer("45000"), f"{T}: '45000' {NOT_A_DATE}"),
    "a moment without a date": ({}, transfer("08:15"), f"{T}: '08:15' {NOT_A_DATE}"),
    "no such month": ({}, transfer("2025-13-01"), f"{T}: '2025-13-01' {NOT_A_DATE}"),
    "after today": ({}, transfer("2205-02-15"), f"{T}: '2205-02-15' is after today. Correct it"),
    "a column of numbers": (edges('time = "amount"'), {}, "column 'amount': '1' is not a date."),
    "age without time": (
        edges("age = true"), {},
        "[edges.transfer] has 'age' without 'time'. Name the column with the time of a link.",
    ),
    "age in quotes": (
        edges(f'{DATED}\nage = "true"'), {},
        "edges.transfer.age: is not understood. Write age = true, without quotes.",
    ),
    "age and features": (
        edges(f'{DATED}\nage = true\nfeatures = ["amount"]'), {},
        "[edges.transfer] has 'features', to which 'age' cannot be added. Declare them in "
        '[edges.transfer.columns] as "number".',
    ),
    "a column called age": (
        edges(f'{DATED}\nage = true\ncolumns = {{ age = "number" }}'), {},
        "'age' of [edges.transfer] is also the name of the days to the last link. Rename it.",
    ),
    "links to predict without time": (
        {**LINKS, "nodes": "", "edges": ""}, {},
        "[edges.transfer] lacks 'time', the column with the date of each row, for [split].",
    ),
    "links to predict without a split": (
        {**LINKS, "nodes": "", "split": ""}, {},
        "[edges.transfer] has 'time', which only [split] with by = \"time\" reads.",
    ),
}  # fmt: skip
ORDER = "which is not after"
KEYS: dict[str, Mistake] = {
    "no dates": (
        split('by = "time"'), {},
        "[split] has no dates. Write train_until and validate_until, which are the same at all "
        "sites, or shares = [0.6, 0.2, 0.2].",
    ),
    "no kind": (split(CUTS), {}, 'split.by: is not understood. Write [split], and below it by ='),
    "unknown kind": (split(f'by = "date"\n{CUTS}'), {}, "split.by: is not understood."),
    "a text": ({"split": 'split = "time"'}, {}, "split: is not understood. Write [split]"),
    "only training": (
        split('by = "time"\ntrain_until = 2025-06-30'), {},
        "[split] lacks 'validate_until', a date such as 2026-03-31.",
    ),
    "only validation": (
        split('by = "time"\nvalidate_until = 2025-06-30'), {}, "[split] lacks 'train_until'",
    ),
    "turned round": (
        split('by = "time"\ntrain_until = 2025-08-31\nvalidate_until = 2025-06-30'), {},
        f"'validate_until' of [split] is 2025-06-30, {ORDER} 'train_until', 2025-08-31.",
    ),
    "the same day": (
        split('by = "time"\ntrain_until = 2025-06-30\nvalidate_until = 2025-06-30'), {}, ORDER,
    ),
    "a test that is over": (
        split(f'by = "time"\n{CUTS}\ntest_until = 2025-08-31'), {},
        f"'test_until' of [split] is 2025-08-31, {ORDER} 'validate_until', 2025-08-31.",
    ),
    "German": (
        split('by = "time"\ntrain_until = "30.06.2025"'), {},
        f"split.train_until: {DATE} train_until = 2026-03-31.",
    ),
    "a year": (
        split('by = "time"\ntrain_until = 2025'), {}, f"split.train_until: {DATE} train_until",
    ),
    "a flag": (
        split('by = "time"\nvalidate_until = true'), {},
        f"split.validate_until: {DATE} validate_until",
    ),
    "a share as a date": (
        split('by = "time"\ntest_until = 0.2'), {}, f"split.test_until: {DATE} test_until",
    ),
    "dates and shares": (
        split(f'by = "time"\n{CUTS}\nshares = [0.6, 0.2, 0.2]'), {},
        "[split] has both 'shares' and dates; use one of them.",
    ),
    "two shares": (split('by = "time"\nshares = [0.8, 0.2]'), {}, SHARES),
    "per cent": (split('by = "time"\nshares = [60, 20, 20]'), {}, SHARES),
    "one share": (split('by = "time"\nshares = 0.6'), {}, SHARES),
    "more than all": (
        split('by = "time"\nshares = [0.6, 0.3, 0.2]'), {},
        "the 'shares' of [split] add up to 1.1 instead of 1.",
    ),
    "own shares": (
        split('by = "time"\nshares = [0.6, 0.2, 0.2]\nown = true'), {},
        "[split] has 'shares', which are each site's own anyway. Remove 'own'.",
    ),
    "own in quotes": (
        split(f'by = "time"\n{CUTS}\nown = "yes"'), {},
        "split.own: is not understood. Write own = true, without quotes.",
    ),
    "misspelt": (
        split(f'by = "time"\n{CUTS}\ntest_util = 2025-09-30'), {},
        "split.test_util: there is no such key. Did you mean 'test_until'?",
    ),
    "before all rows": (
        split('by = "time"\ntrain_until = 2024-06-30\nvalidate_until = 2025-06-30'), {},
        "[split] has no samples for train: training ends with 2024-06-30, and validation with "
        "2025-06-30. Change the dates or shares.",
    ),
    "after all rows": (
        split('by = "time"\ntrain_until = 2026-06-30\nvalidate_until = 2026-07-30'), {},
        "[split] has no samples for val: training ends with 2026-06-30",
    ),
    "key outside": (
        {"classes": 'classes = ["a", "b"]\ntrain_until = 2025-06-30'}, {},
        "train_until: this key is not read here. It belongs in [split].",
    ),
}  # fmt: skip
EVERY = {
    f"{key}: {name}": mistake
    for key, mistakes in {"nodes": TIME, "edges": LINK_TIME, "split": KEYS}.items()
    for name, mistake in mistakes.items()
}


@pytest.mark.parametrize("name", EVERY)
def test_a_mistake_says_what_to_do(tmp_path: Path, name: str) -> None:
    given, cells, expected = EVERY[name]
    problems = reported(tmp_path, given, cells)
    assert problems
    assert expected in problems[0]


def test_every_key_has_twenty_mistakes() -> None:
    assert min(map(len, (TIME, LINK_TIME, KEYS))) >= 20


def test_without_mistakes_there_are_no_problems(tmp_path: Path) -> None:
    assert not reported(tmp_path / "dates", {}, {})
    shares = split('by = "time"\nshares = [0.6, 0.2, 0.2]')
    assert not reported(tmp_path / "shares", shares, {})
    texts = split('by = "time"\ntrain_until = "2025-06-30"\nvalidate_until = "2025-08-31T12:00"')
    assert not reported(tmp_path / "texts", texts, {})
