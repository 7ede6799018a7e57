"""Mistakes that people make with the keys of edge types: each is a line that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import pytest
import torch
from safetensors.torch import save_file

from own_sites import write_csv, write_toml
from ramet.data.own.site import check_site

TOML = """\
site = "bank"
task = "node-classification"
classes = ["a", "b"]

[nodes.account]
file = "accounts.csv"
label = "state"

[edges.transfer]
file = "transfers.csv"
"""
TENSORS = """\
site = "bank"
task = "node-classification"
classes = ["a", "b"]
tensors = "graph.safetensors"

[nodes.account]
features = 1

[edges.transfer]
"""
FOLDER = """\
site = "bank"
task = "graph-classification"
classes = ["a", "b"]

[graphs]
folder = "graphs"

[nodes.account]

[edges.transfer]
"""
LINKS = """\
site = "bank"
task = "link-prediction"

[nodes.account]
file = "accounts.csv"

[edges.transfer]
file = "transfers.csv"
"""
Mistake: TypeAlias = tuple[str, str, str]
"""What follows the text of the TOML file, what the first amount is, and the problem."""
T, E = "transfers.csv, row 2, column 'amount'", "site.toml: edges.transfer"
LINES = 'Write [edges.TYPE.columns], and below it lines such as amount = "number".'
SCALE = '[edges.transfer.columns] as "number"'
NO_COLUMN = "there is no such column. The columns are source, target, amount, kind, when"
NO_LINKS = "which link-prediction does not read. Remove it."
NUMBERS = 'Write the columns of numbers, as in features = ["amount", "fee"].'
ONE = 'Write the name of one column, as in weight = "amount".'
TRUE = "edges.transfer.directed: is not understood. Write directed = true, without quotes."
LIST = 'Write a list of sum, mean and count, as in aggregate = ["sum", "count"].'
AMOUNT = 'features = ["amount"]'
NUMBER = 'columns = { amount = "number" }'


def reported(folder: Path, toml: str, amount: str, tensors: dict[str, torch.Tensor]) -> list[str]:
    accounts = [(f"n{n}", n, "ab"[n % 2]) for n in range(12)]
    write_csv(folder / "accounts.csv", "id,age,state", accounts)
    rows = [(f"n{n}", f"n{n + 1}", n + 1, "card", "2026-01-01") for n in range(11)]
    quoted = f'"{amount}"' if amount else ""
    first = ("n0", "n1", quoted, "card", "2026-01-01")
    write_csv(folder / "transfers.csv", "source,target,amount,kind,when", [first, *rows[1:]])
    (folder / "graphs").mkdir()
    index = torch.stack([torch.arange(11), torch.arange(1, 12)])
    known = {"x": torch.ones(12, 1), "y": torch.arange(12) % 2, "edge_index": index, **tensors}
    save_file(known, folder / "graph.safetensors")
    return [str(one) for one in check_site(write_toml(folder, toml)).problems]


FEATURES: dict[str, Mistake] = {
    "misspelt": (
        'features = ["amout"]',
        "1",
        f"transfers.csv, row 1, column 'amout': {NO_COLUMN}. Did you mean 'amount'?",
    ),
    "other case": (
        'features = ["Amount"]',
        "1",
        f"transfers.csv, row 1, column 'Amount': {NO_COLUMN}. Did you mean 'amount'?",
    ),
    "not there": ('features = ["fee"]', "1", f"row 1, column 'fee': {NO_COLUMN}."),
    "not a list": ('features = "amount"', "1", f"{E}.features: is not understood. {NUMBERS}"),
    "a flag": ("features = true", "1", f"{E}.features: is not understood. {NUMBERS}"),
    "below zero": ("features = -1", "1", f"{E}.features: is not understood. {NUMBERS}"),
    "an empty name": ('features = [""]', "1", f"{E}.features: is not understood. {NUMBERS}"),
    "a number": ("features = [3]", "1", f"{E}.features: is not understood. {NUMBERS}"),
    "a table": ('features = { amount = "number" }', "1", f"{E}.features: is not understood."),
    "twice": (
        'features = ["amount", "amount"]',
        "1",
        "site.toml: a feature of [edges.transfer] is listed twice.",
    ),
    "the source": (
        'features = ["source"]',
        "1",
        "'source' of [edges.transfer] cannot be a feature: it is the source.",
    ),
    "with columns": (
        f"{AMOUNT}\n{NUMBER}",
        "1",
        "[edges.transfer] has both 'features' and 'columns'; use one of them.",
    ),
    "decimal comma": (
        AMOUNT,
        "3,5",
        f"{T}: '3,5' is not a number. Write 3.5, with a decimal point.",
    ),
    "thousands": (
        AMOUNT,
        "1,234.5",
        f"{T}: '1,234.5' is not a number. Write it without thousands separators, such as 1234.5.",
    ),
    "a unit": (
        AMOUNT,
        "12 EUR",
        f"{T}: '12 EUR' is not a number. Write 3.5, without units, or declare the column in "
        '[edges.transfer.columns] as "category" or "date".',
    ),
    "a gap": (
        AMOUNT,
        "",
        f"{T}: the number is missing. Fill it in, or declare the column in {SCALE}, which allows "
        "missing values.",
    ),
    "infinite": (
        AMOUNT,
        "inf",
        f"{T}: 'inf' is not a finite number. Leave the cell empty and declare the column in "
        f"{SCALE}, or correct it.",
    ),
    "no value": (AMOUNT, "NaN", f"{T}: 'NaN' is not a finite number. Leave the cell empty"),
    "a word": (
        AMOUNT,
        "yes",
        f"{T}: 'yes' is not a number. Declare the column in [edges.transfer.columns] as "
        '"flag", or write 1 and 0.',
    ),
    "too large": (
        AMOUNT,
        "1e50",
        f"{T}: '1e50' is not a finite number. It must be between -3e38 and 3e38.",
    ),
    "a category": (
        'features = ["kind"]',
        "1",
        "column 'kind': 'card' is not a number. Write 3.5, without units, or declare the column",
    ),
    "a date": ('features = ["when"]', "1", "column 'when': '2026-01-01' is not a number."),
}
COLUMNS: dict[str, Mistake] = {
    "misspelt kind": (
        'columns = { amount = "numbr" }',
        "1",
        "edges.transfer.columns.amount.kind: Input should be 'number', 'category', 'date', 'age', "
        "'flag' or 'ignored'.",
    ),
    "a list": ('columns = ["amount"]', "1", f"{E}.columns: is not understood. {LINES}"),
    "a text": ('columns = "amount"', "1", f"{E}.columns: is not understood. {LINES}"),
    "a flag": ("columns = true", "1", f"{E}.columns: is not understood. {LINES}"),
    "not there": (
        'columns = { fee = "number" }',
        "1",
        f"transfers.csv, row 1, column 'fee': {NO_COLUMN}.",
    ),
    "misspelt name": (
        'columns = { amonut = "number" }',
        "1",
        f"column 'amonut': {NO_COLUMN}. Did you mean 'amount'?",
    ),
    "the target": (
        'columns = { target = "category" }',
        "1",
        "'target' of [edges.transfer] cannot be a feature: it is the target.",
    ),
    "the source": (
        'columns = { source = "category" }',
        "1",
        "'source' of [edges.transfer] cannot be a feature: it is the source.",
    ),
    "categories of a number": (
        'columns = { amount = { kind = "number", categories = ["1"] } }',
        "1",
        "'amount' of [edges.transfer] has categories, but is a number.",
    ),
    "no kind": (
        'columns = { amount = { missing = "refuse" } }',
        "1",
        "edges.transfer.columns.amount.kind: Field required.",
    ),
    "unknown key": (
        'columns = { amount = { kind = "number", currency = "EUR" } }',
        "1",
        "edges.transfer.columns.amount.currency: there is no such key.",
    ),
    "unknown policy": (
        'columns = { amount = { kind = "number", missing = "drop" } }',
        "1",
        "edges.transfer.columns.amount.missing: Input should be 'mark' or 'refuse'.",
    ),
    "a text as number": (
        NUMBER,
        "12 EUR",
        f"{T}: '12 EUR' is not a finite number. Write 3.5, without units or thousands separators.",
    ),
    "decimal comma": (NUMBER, "3,5", f"{T}: '3,5' is not a finite number. Write 3.5,"),
    "thousands": (NUMBER, "1,234.5", f"{T}: '1,234.5' is not a finite number. Write 3.5,"),
    "infinite": (NUMBER, "inf", f"{T}: 'inf' is not a finite number. Write 3.5,"),
    "not a date": (
        'columns = { amount = "date" }',
        "31.03.2026",
        f"{T}: '31.03.2026' is not a date. Write 2026-03-31, or 2026-03-31T08:15.",
    ),
    "not a flag": (
        'columns = { amount = "flag" }',
        "maybe",
        f"{T}: 'maybe' is not a flag. Write true or false, yes or no, 1 or 0.",
    ),
    "a refused gap": (
        'columns = { amount = { kind = "number", missing = "refuse" } }',
        "",
        f"{T}: the value is missing, and this column refuses missing values.",
    ),
    "an unknown category": (
        'columns = { kind = { kind = "category", categories = ["wire"] } }',
        "1",
        "column 'kind': 'card' is not one of the categories in the TOML.",
    ),
    "with features": (
        f"{NUMBER}\n{AMOUNT}",
        "1",
        "[edges.transfer] has both 'features' and 'columns'; use one of them.",
    ),
    "absent but refusing": (
        'columns = { amount = { kind = "number", absent = "often" } }',
        "1",
        "edges.transfer.columns.amount.absent: Input should be a valid boolean",
    ),
}
WEIGHT: dict[str, Mistake] = {
    "misspelt": (
        'weight = "amout"',
        "1",
        f"transfers.csv, row 1, column 'amout': {NO_COLUMN}. Did you mean 'amount'?",
    ),
    "not there": ('weight = "w"', "1", f"transfers.csv, row 1, column 'w': {NO_COLUMN}."),
    "other case": ('weight = "AMOUNT"', "1", "Did you mean 'amount'?"),
    "a list": ('weight = ["amount"]', "1", f"{E}.weight: is not understood. {ONE}"),
    "a number": ("weight = 3", "1", f"{E}.weight: is not understood. {ONE}"),
    "a flag": ("weight = true", "1", f"{E}.weight: is not understood. {ONE}"),
    "empty": ('weight = ""', "1", f"{E}.weight: is not understood. {ONE}"),
    "a table": ('weight = { amount = "number" }', "1", f"{E}.weight: is not understood. {ONE}"),
    "the source": (
        'weight = "source"',
        "1",
        "[edges.transfer] has the ends of links as 'weight'. Name another column.",
    ),
    "the target": ('weight = "target"', "1", "has the ends of links as 'weight'."),
    "negative": (
        'weight = "amount"',
        "-3",
        f"{T}: '-3' is negative. A weight is 0 or more. Name another column as 'weight', or "
        'declare this one in [edges.TYPE.columns] as "number".',
    ),
    "a gap": ('weight = "amount"', "", f"{T}: the number is missing. Fill it in."),
    "a text": (
        'weight = "amount"',
        "much",
        f"{T}: 'much' is not a number. Write 3.5, without units.",
    ),
    "decimal comma": (
        'weight = "amount"',
        "3,5",
        f"{T}: '3,5' is not a number. Write 3.5, with a decimal point.",
    ),
    "thousands": ('weight = "amount"', "1,234.5", f"{T}: '1,234.5' is not a number. Write it"),
    "a unit": ('weight = "amount"', "5 EUR", f"{T}: '5 EUR' is not a number. Write 3.5,"),
    "infinite": (
        'weight = "amount"',
        "inf",
        f"{T}: 'inf' is not a finite number. Write a number, such as 3.5.",
    ),
    "no value": ('weight = "amount"', "nan", f"{T}: 'nan' is not a finite number. Write a number"),
    "a word": ('weight = "amount"', "yes", f"{T}: 'yes' is not a number. Write a number, such as"),
    "too large": ('weight = "amount"', "1e50", "It must be between -3e38 and 3e38."),
    "a category": ('weight = "kind"', "1", "column 'kind': 'card' is not a number. Write 3.5,"),
    "plural": (
        'weights = "amount"',
        "1",
        "edges.transfer.weights: there is no such key. Did you mean 'weight'?",
    ),
}
DIRECTED: dict[str, Mistake] = {
    **{
        str(number): (f"directed = {value}", "1", TRUE)
        for number, value in enumerate(
            (
                *('"true"', '"false"', '"yes"', '"in"', '"out"', '"both"', '""', '"source"'),
                *("1", "0", "1.0", "[]", '["in"]', "[true]", "{}", "2026-01-01"),
            )
        )
    },
    "Python": ("directed = True", "1", "site.toml: is not valid TOML"),
    "YAML": ("directed = yes", "1", "site.toml: is not valid TOML"),
    "nothing": ("directed =", "1", "site.toml: is not valid TOML"),
    "misspelt": (
        "direct = true",
        "1",
        "edges.transfer.direct: there is no such key. Did you mean 'directed'?",
    ),
    "the opposite": (
        "undirected = true",
        "1",
        "edges.transfer.undirected: there is no such key. Did you mean 'directed'?",
    ),
    "of a column": (
        'columns = { amount = { kind = "number", directed = true } }',
        "1",
        "directed: this key is not read here. It belongs in [edges.TYPE].",
    ),
}
SUM = f'{AMOUNT}\naggregate = ["sum"]'
AGGREGATE: dict[str, Mistake] = {
    "not a list": ('aggregate = "sum"', "1", f"{E}.aggregate: is not understood. {LIST}"),
    "unknown": ('aggregate = ["total"]', "1", f"{E}.aggregate: is not understood. {LIST}"),
    "largest": ('aggregate = ["max"]', "1", f"{E}.aggregate: is not understood. {LIST}"),
    "other case": ('aggregate = ["Sum"]', "1", f"{E}.aggregate: is not understood. {LIST}"),
    "a flag": ("aggregate = true", "1", f"{E}.aggregate: is not understood. {LIST}"),
    "a table": ('aggregate = { amount = "sum" }', "1", f"{E}.aggregate: is not understood."),
    "twice": (
        f'{AMOUNT}\naggregate = ["sum", "sum"]',
        "1",
        "[edges.transfer] lists the same value of 'aggregate' twice. Remove one.",
    ),
    "no numbers": (
        'aggregate = ["sum"]',
        "1",
        "[edges.transfer] has no number to aggregate. Declare a column in its 'columns' as "
        '"number", or write aggregate = ["count"].',
    ),
    "categories only": (
        'columns = { kind = "category" }\naggregate = ["mean"]',
        "1",
        "[edges.transfer] has no number to aggregate.",
    ),
    "windows without time": (
        f"{SUM}\nwindows = [7]",
        "1",
        "[edges.transfer] has 'windows' without 'time'. Name the column with the time of a link.",
    ),
    "windows without aggregate": (
        'time = "when"\nwindows = [7]',
        "1",
        "[edges.transfer] has 'windows' without 'aggregate'. Add aggregate, or remove windows.",
    ),
    "no days": (f'{SUM}\ntime = "when"\nwindows = [0]', "1", "Write numbers of days, as in"),
    "one window": (f'{SUM}\ntime = "when"\nwindows = 7', "1", "Write numbers of days, as in"),
    "windows in words": (
        f'{SUM}\ntime = "when"\nwindows = ["a week"]',
        "1",
        f"{E}.windows: is not understood. Write numbers of days, as in windows = [7, 30].",
    ),
    "windows twice": (
        f'{SUM}\ntime = "when"\nwindows = [7, 7]',
        "1",
        "lists the same value of 'windows' twice. Remove one.",
    ),
    "unknown time": (
        f'{SUM}\ntime = "date"\nwindows = [7]',
        "1",
        f"transfers.csv, row 1, column 'date': {NO_COLUMN}.",
    ),
    "a time that is none": (
        f'{SUM}\ntime = "kind"\nwindows = [7]',
        "1",
        "column 'kind': 'card' is not a date. Write 2026-03-31, or 2026-03-31T08:15.",
    ),
    "a text": (SUM, "much", f"{T}: 'much' is not a number."),
    "a gap": (SUM, "", f"{T}: the number is missing. Fill it in, or declare the column in {SCALE}"),
    "misspelt": (
        'agregate = ["count"]',
        "1",
        "edges.transfer.agregate: there is no such key. Did you mean 'aggregate'?",
    ),
    "of a column": (
        'columns = { amount = { kind = "number", aggregate = ["sum"] } }',
        "1",
        "aggregate: this key is not read here. It belongs in [edges.TYPE].",
    ),
}
EVERY = {
    f"{key}: {name}": mistake
    for key, mistakes in {
        "features": FEATURES,
        "columns": COLUMNS,
        "weight": WEIGHT,
        "directed": DIRECTED,
        "aggregate": AGGREGATE,
    }.items()
    for name, mistake in mistakes.items()
}

IN_EVERY_ROW = ("column 'kind'", "column 'when'", "is not a date", "is not a flag")
"""What is wrong with the other rows too: their amounts are numbers."""


@pytest.mark.parametrize("name", EVERY)
def test_a_mistake_says_what_to_do(tmp_path: Path, name: str) -> None:
    lines, amount, expected = EVERY[name]
    problems = reported(tmp_path, f"{TOML}{lines}\n", amount, {})
    assert problems
    assert expected in problems[0]
    assert len(problems) == (11 if any(part in expected for part in IN_EVERY_ROW) else 1)


def test_every_key_has_twenty_mistakes() -> None:
    assert min(map(len, (FEATURES, COLUMNS, WEIGHT, DIRECTED, AGGREGATE))) >= 20


ELSEWHERE: dict[str, tuple[str, str, dict[str, torch.Tensor], str]] = {
    **{
        f"{key} for link prediction": (
            LINKS,
            lines,
            {},
            f"[edges.transfer] has '{key}', {NO_LINKS}",
        )
        for key, lines in {
            "features": AMOUNT,
            "columns": NUMBER,
            "weight": 'weight = "amount"',
            "directed": "directed = true",
            "aggregate": 'aggregate = ["count"]',
        }.items()
    },
    "columns of tensors": (
        TENSORS,
        NUMBER,
        {},
        "[edges.transfer] has 'columns', which need a table instead of 'tensors'.",
    ),
    "aggregates of tensors": (
        TENSORS,
        'aggregate = ["count"]',
        {},
        "[edges.transfer] has 'aggregate', which need a table instead of 'tensors'",
    ),
    "columns of a folder": (
        FOLDER,
        NUMBER,
        {},
        "[edges.transfer] has 'columns', which need one table of all rows instead of [graphs] "
        "folder.",
    ),
    "no attributes": (
        TENSORS,
        "features = 2",
        {},
        "graph.safetensors, column 'edge_attr': is missing. Save it with the graph, or remove "
        "'features' of edges.",
    ),
    "attributes of another width": (
        TENSORS,
        "features = 2",
        {"edge_attr": torch.ones(11, 3)},
        "column 'edge_attr': has 3 columns, but 2 features are declared.",
    ),
    "attributes of other edges": (
        TENSORS,
        "features = 1",
        {"edge_attr": torch.ones(10, 1)},
        "column 'edge_attr': has 10 rows, but 'edge_index' has 11 edges.",
    ),
    "an attribute that is no number": (
        TENSORS,
        "features = 1",
        {"edge_attr": torch.ones(11, 1).index_fill(0, torch.tensor([4]), torch.nan)},
        "graph.safetensors, row 5, column 'x0': is not a finite number.",
    ),
    "a vector of attributes": (
        TENSORS,
        "features = 1",
        {"edge_attr": torch.ones(11)},
        "'edge_attr': has shape [11] and dtype torch.float32; expected one row per edge.",
    ),
    "no weights": (
        TENSORS,
        'weight = "edge_weight"',
        {},
        "column 'edge_weight': must be 11 numbers, the weights of the edges.",
    ),
    "a negative weight": (
        TENSORS,
        'weight = "edge_weight"',
        {"edge_weight": -torch.arange(11.0).eq(3).float()},
        "row 4, column 'edge_weight': -1 is not a weight: it must be 0 or more, and finite.",
    ),
    "too few weights": (
        TENSORS,
        'weight = "edge_weight"',
        {"edge_weight": torch.ones(4)},
        "column 'edge_weight': has 4 rows, but 'edge_index' has 11 edges.",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_mistake_with_tensors_or_another_task_says_what_to_do(tmp_path: Path, name: str) -> None:
    toml, lines, tensors, expected = ELSEWHERE[name]
    problems = reported(tmp_path, f"{toml}{lines}\n", "1", tensors)
    assert len(problems) == 1
    assert expected in problems[0]


def test_aggregates_do_not_fit_features_or_columns_of_their_name(tmp_path: Path) -> None:
    with_features = TOML.replace('label = "state"', 'label = "state"\nfeatures = ["age"]')
    (problem,) = reported(tmp_path / "one", f'{with_features}aggregate = ["count"]\n', "1", {})
    assert problem.endswith(
        "[nodes.account] has 'features', to which the aggregates of links cannot be added. Declare "
        'them in [nodes.account.columns] as "number".'
    )
    clash = 'label = "state"\ncolumns = { "transfer count" = "number" }'
    twice = TOML.replace('label = "state"', clash) + 'aggregate = ["count"]\n'
    (problem,) = reported(tmp_path / "other", twice, "1", {})
    assert problem.endswith("is also the name of an aggregate. Rename the column.")
