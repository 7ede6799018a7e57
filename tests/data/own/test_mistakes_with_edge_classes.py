"""Mistakes that people make with classes of edges: each is a line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from own_sites import write_csv, write_toml
from ramet.data.own.site import check_site

TOML = """\
site = "bank"
task = "edge-classification"
classes = ["fine", "fraud"]

[nodes.account]
file = "accounts.csv"

[edges.transfer]
file = "transfers.csv"
"""
LABEL, ID = 'label = "state"', 'id = "number"'
NAMED = f"{LABEL}\n{ID}"
NO_COLUMN = "there is no such column. The columns are number, source, target, amount, state, part"
ONE_LABEL = 'is not understood. Write the name of one column, as in label = "state".'
ONE_ID = 'is not understood. Write the name of one column, as in id = "number".'
NO_LABEL = "site.toml: no [edges.TYPE] has 'label', the column with the class."
NO_DATE = "lacks 'time', the column with the date of each row, for [split]."
BY_TIME = '[split]\nby = "time"\nshares = [0.6, 0.2, 0.2]\n'
ROW = "transfers.csv, row 2, column"
NODE_LABEL = (
    "[nodes.account] has 'label', but edge-classification reads that of [edges.TYPE]. Move it."
)
NOT_READ = 'does not read. Remove it, or write task = "edge-classification".'

Mistake = tuple[str, dict[str, str], dict[str, str], str]
"""The lines below [edges.transfer], what is replaced in the file and in its second row, and the
problem."""
MISTAKES: dict[str, Mistake] = {
    "no label": ("", {}, {}, NO_LABEL),
    "an id alone": (ID, {}, {}, NO_LABEL),
    "misspelt label": ('label = "stat"', {}, {}, f"{NO_COLUMN}. Did you mean 'state'?"),
    "other case": ('label = "State"', {}, {}, f"{NO_COLUMN}. Did you mean 'state'?"),
    "label not there": ('label = "fraud"', {}, {}, f"'fraud': {NO_COLUMN}."),
    **{
        f"label {given}": (f"label = {given}", {}, {}, f"edges.transfer.label: {ONE_LABEL}")
        for given in ("true", '["state"]', "3", '""')
    },
    "label is the source": ('label = "source"', {}, {}, "has 'source' as 'label' and as 'source'."),
    "lables": ('lable = "state"', {}, {}, "there is no such key. Did you mean 'label'?"),
    "label twice": (f"{LABEL}\n{LABEL}", {}, {}, "is not valid TOML"),
    "label as a feature": (
        f'{LABEL}\nfeatures = ["state"]',
        {},
        {},
        "'state' of [edges.transfer] cannot be a feature: it is the label.",
    ),
    "label as a column": (
        f'{LABEL}\ncolumns = {{ state = "category" }}',
        {},
        {},
        "'state' of [edges.transfer] cannot be a feature: it is the label.",
    ),
    "label of nodes": (
        LABEL,
        {'"accounts.csv"': '"accounts.csv"\nlabel = "kind"'},
        {},
        NODE_LABEL,
    ),
    "label for nodes": (LABEL, {"edge-class": "node-class"}, {}, NOT_READ),
    "label for links": (LABEL, {"edge-classification": "link-prediction"}, {}, NOT_READ),
    "regression": (LABEL, {"edge-classification": "edge-regression"}, {}, "site.toml: task"),
    "one class": (
        LABEL,
        {'["fine", "fraud"]': '["fraud"]'},
        {},
        "'classes' must list two or more different classes.",
    ),
    "no classes": (LABEL, {'classes = ["fine", "fraud"]': ""}, {}, "'classes' must list two or"),
    "unknown class": (
        LABEL,
        {},
        {"fine": "fin"},
        f"{ROW} 'state': 'fin' is not one of the classes fine, fraud. Did you mean 'fine'?",
    ),
    "other case of a class": (LABEL, {}, {"fine": "Fine"}, "Did you mean 'fine'?"),
    "a gap": (LABEL, {}, {"fine": ""}, f"{ROW} 'state': the class is missing; write none in a"),
    "a date": (LABEL, {}, {"fine": "2026-01-01"}, "'2026-01-01' is not one of the classes"),
    "two labelled types": (
        f'{LABEL}\n[edges.loan]\nfile = "transfers.csv"\n{LABEL}',
        {},
        {},
        "edge-classification takes one edge type with 'label', not transfer and loan.",
    ),
    "with windows of graphs": (
        LABEL,
        {"[nodes": '[graphs]\nfile = "a.csv"\n[nodes'},
        {},
        "[graphs]",
    ),
    "no time": (LABEL, {"[nodes": f"{BY_TIME}[nodes"}, {}, f"[edges.transfer] {NO_DATE}"),
    "time of nodes": (
        f'{LABEL}\ntime = "when"',
        {'"accounts.csv"': '"accounts.csv"\ntime = "opened"', "[nodes": f"{BY_TIME}[nodes"},
        {},
        "[nodes.account] has 'time', which edge-classification does not read. Remove it.",
    ),
    "both splits": (
        f'{LABEL}\ntime = "amount"\nsplit = "part"',
        {"[nodes": f"{BY_TIME}[nodes"},
        {},
        "has 'split' = \"part\", and there is [split]; use one of them.",
    ),
    "another word for train": (
        f'{LABEL}\nsplit = "part"',
        {},
        {"train": "learn"},
        f"{ROW} 'part': 'learn' is not one of train, val, test, none.",
    ),
    "misspelt split": (f'{LABEL}\nsplit = "parts"', {}, {}, f"{NO_COLUMN}. Did you mean 'part'?"),
    "id not there": (f'{LABEL}\nid = "key"', {}, {}, f"'key': {NO_COLUMN}."),
    "misspelt id": (f'{LABEL}\nid = "numbr"', {}, {}, f"{NO_COLUMN}. Did you mean 'number'?"),
    **{
        f"id {given}": (f"{LABEL}\nid = {given}", {}, {}, f"edges.transfer.id: {ONE_ID}")
        for given in ("1", "1.5", "true", '""', "[]", '["number"]', '{ number = "id" }')
    },
    "id as a date": (f"{LABEL}\nid = 2026-01-01", {}, {}, f"edges.transfer.id: {ONE_ID}"),
    "id in other case": (f'{LABEL}\nid = "Number"', {}, {}, "Did you mean 'number'?"),
    "id without quotes": (f"{LABEL}\nid = number", {}, {}, "is not valid TOML"),
    "id is the label": (f'{LABEL}\nid = "state"', {}, {}, "has 'state' as 'label' and as 'id'."),
    "ids": (f'{LABEL}\nids = "number"', {}, {}, "there is no such key. Did you mean 'id'?"),
    "id for links": (ID, {"edge-classification": "link-prediction"}, {}, NOT_READ),
    "id of every row the same": (f'{LABEL}\nid = "part"', {}, {}, "'train' already appears in"),
    "id for nodes": (ID, {"edge-class": "node-class"}, {}, NOT_READ),
    "id as a feature": (
        f'{NAMED}\nfeatures = ["number"]',
        {},
        {},
        "'number' of [edges.transfer] cannot be a feature: it is the id.",
    ),
    "the same id twice": (NAMED, {}, {"t0": "t1"}, "'t1' already appears in row 2. Ids must be un"),
    "an id is missing": (NAMED, {}, {"t0": ""}, f"{ROW} 'number': the id is missing."),
    "unknown account": (NAMED, {}, {"n0": "x9"}, f"{ROW} 'source': there is no account 'x9'"),
}


OF_ID = [name for name, (lines, _, cells, _) in MISTAKES.items() if "id" in lines or "t0" in cells]


def test_both_keys_have_twenty_mistakes() -> None:
    assert min(len(OF_ID), len(MISTAKES) - len(OF_ID)) >= 20


def reported(folder: Path, mistake: Mistake) -> list[str]:
    lines, in_toml, in_row, _ = mistake
    accounts = [(f"n{n}", "ab"[n % 2], "2026-01-01") for n in range(12)]
    write_csv(folder / "accounts.csv", "id,kind,opened", accounts)
    rows = [
        (f"t{n}", f"n{n % 12}", f"n{(n + 5) % 12}", n, ("fine", "fraud")[n % 2], "train")
        for n in range(24)
    ]
    first = tuple(in_row.get(str(cell), cell) for cell in rows[0])
    write_csv(
        folder / "transfers.csv", "number,source,target,amount,state,part", [first, *rows[1:]]
    )
    toml = f"{TOML}{lines}\n"
    for old, new in in_toml.items():
        assert old in toml
        toml = toml.replace(old, new, 1)
    return [str(one) for one in check_site(write_toml(folder, toml)).problems]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_says_what_to_do(tmp_path: Path, name: str) -> None:
    problems = reported(tmp_path, MISTAKES[name])
    assert any(MISTAKES[name][-1] in problem for problem in problems), problems


def test_without_mistakes_there_are_no_problems(tmp_path: Path) -> None:
    assert reported(tmp_path, (NAMED, {}, {}, "")) == []


def test_tensors_need_a_class_of_each_edge(tmp_path: Path) -> None:
    toml = TOML.replace("[nodes", 'tensors = "graph.pt"\n\n[nodes')
    toml = "\n".join(line for line in toml.splitlines() if not line.startswith("file"))
    index = torch.randint(8, (2, 30), generator=torch.Generator().manual_seed(0))
    known = {"x": torch.ones(8, 1), "edge_index": index}
    for given, text in (
        ({}, "column 'edge_label': must be 30 integers, the indices of the classes."),
        ({"edge_label": torch.ones(8).long()}, "must be 30 integers"),
        ({"edge_label": torch.ones(30)}, "must be 30 integers"),
        ({"edge_label": torch.full((30,), 2)}, "2 is not a class index; expected 0 to 1."),
        ({"edge_label": index[0] % 2, "train_mask": torch.ones(8).bool()}, "must be 30 booleans"),
    ):
        torch.save({**known, **given}, tmp_path / "graph.pt")
        problems = [str(one) for one in check_site(write_toml(tmp_path, toml)).problems]
        assert any(text in problem for problem in problems), problems
