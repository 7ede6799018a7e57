"""Mistakes that people make with numbers and several labels, and what each line says to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
import pytest

from planted_targets import UNIT, molecule_site, person_site
from ramet.data.own.site import check_site


@dataclass(frozen=True)
class Mistake:
    """What is wrong in a site's TOML file or in the fourth row of its table, and the problem."""

    problem: str
    label: str = '"age"'
    cells: dict[str, str] = field(default_factory=dict)
    toml: dict[str, str] = field(default_factory=dict)
    more: str = UNIT
    task: str = "node-regression"


def of_label(label: str, problem: str) -> Mistake:
    return Mistake(problem, label=label)


def of_toml(old: str, new: str, problem: str) -> Mistake:
    return Mistake(problem, toml={old: new})


def of_top(more: str, problem: str) -> Mistake:
    return Mistake(problem, more=more)


def several(one: Mistake) -> Mistake:
    label = one.label if one.label != '"age"' else '["near", "own"]'
    more, task = one.more.replace(UNIT, ""), one.task.replace("regression", "multilabel")
    return replace(one, label=label, more=more, task=task)


LABEL = (
    'nodes.person.label: is not understood. Write the name of a column, as in label = "age", or of '
    'several, as in label = ["age", "risk"].'
)
NO_COLUMN = "there is no such column. The columns are id, a, b, age, score, near, own."
TOP = "It belongs at the top of the file, above the first line in brackets."
WORDS = 'unit: is not understood. Write up to 40 characters, as in unit = "years".'
NONE = "write none in a column that `split` names to leave a row without it."
FEATURE = "of [nodes.person] cannot be a feature: it is the label"
NUMBER = "is not a finite number. Write 3.5, without units or thousands separators."
FLAG = "is not a flag. Write true or false, yes or no, 1 or 0."


def cell(text: str, problem: str) -> Mistake:
    return Mistake(f"people.csv, row 5, column 'age': {problem}", cells={"age": text})


def flag(text: str) -> Mistake:
    shown = f"people.csv, row 5, column 'near': '{text}' {FLAG}"
    return several(Mistake(shown, cells={"near": text}))


NUMBERS = {
    **{
        f"cell {text}": cell(text, f"'{text}' {NUMBER}")
        for text in (
            *("3,5", "1,234.5", "12 years", "inf", "yes", "1e50", "2026-01-01", "forty"),
            *("40-50", ">90", "3.5.1", "1 000"),
        )
    },
    "a gap": cell("", f"the number is missing; {NONE}"),
    "no value": cell("NA", "the number is missing;"),
    "all of several missing": replace(
        cell("", "the number is missing;"),
        label='["age", "score"]',
        cells={"age": "", "score": ""},
    ),
    "not there": of_label('"years"', f"people.csv, row 1, column 'years': {NO_COLUMN}"),
    "other case": of_label('"Age"', f"column 'Age': {NO_COLUMN} Did you mean 'age'?"),
    "misspelt": of_label('"agee"', f"column 'agee': {NO_COLUMN} Did you mean 'age'?"),
    "one of several not there": of_label('["age", "nope"]', f"column 'nope': {NO_COLUMN}"),
    "the id": of_label('"id"', "[nodes.person] has 'id' as 'label' and as 'id'. Name another"),
    "twice": of_label('["age", "age"]', "'label' lists the column 'age' twice."),
    "a feature": of_label('"a"', f"'a' {FEATURE}."),
    "a feature among several": of_label('["age", "a"]', f"'a' {FEATURE} a."),
    **{
        f"label {given}": of_label(given, f"site.toml: {LABEL}")
        for given in ("3", "true", '""', "[]", '[""]', "[1]", '{ age = "number" }', '[["age"]]')
    },
    "no label": of_toml('label = "age"\n', "", "[nodes.person] lacks 'label', the column with the"),
    "misspelt key": of_toml("label =", "lable =", "there is no such key. Did you mean 'label'?"),
    "the split": of_toml('"age"', '"age"\nsplit = "age"', "has 'age' as 'label' and as 'split'."),
    "of edges": of_toml(
        'file = "links.csv"',
        'file = "links.csv"\nlabel = "age"',
        "[edges.knows] has 'label', which node-regression does not read. Remove it",
    ),
    "classes": of_top('classes = ["x", "y"]', "node-regression has no classes. Remove them;"),
    "short task": Mistake("Did you mean 'node-regression'?", task="regression"),
    "misspelt task": Mistake("Did you mean 'node-regression'?", task="node-regresion"),
    "numbers of edges": Mistake("site.toml: task: Input should be", task="edge-regression"),
}
LABELS = {
    **{f"cell {text}": flag(text) for text in ("2", "0.5", "-1", "maybe", "x", "1,0", "01", "inf")},
    "all missing": several(
        Mistake(f"row 5, column 'near': the flag is missing; {NONE}", cells={"near": "", "own": ""})
    ),
    **{
        f"label {label}": several(of_label(label, problem))
        for label, problem in {
            '"near,own"': f"column 'near,own': {NO_COLUMN} Did you mean 'near'?",
            '"near;own"': f"column 'near;own': {NO_COLUMN} Did you mean 'near'?",
            '["Near", "own"]': f"column 'Near': {NO_COLUMN} Did you mean 'near'?",
            '["nearr", "own"]': f"column 'nearr': {NO_COLUMN} Did you mean 'near'?",
            '["near", "nope"]': f"column 'nope': {NO_COLUMN}",
            '["near", "near"]': "'label' lists the column 'near' twice.",
            '["near", "a"]': f"'a' {FEATURE} a.",
            '["near", "id"]': "has 'id' as 'label' and as 'id'. Name another column.",
            '["near", 3]': LABEL,
            '{ near = "flag" }': LABEL,
            "true": LABEL,
            "[]": LABEL,
            '["near", ""]': LABEL,
        }.items()
    },
    "numbers": several(of_label('["score", "near"]', "row 2, column 'score': '2.8907")),
    "no label": several(
        of_toml('label = ["near", "own"]\n', "", "lacks 'label', the column with 0 or 1.")
    ),
    "plural": several(of_toml("label =", "labels =", "no such key. Did you mean 'label'?")),
    "a column of features": several(
        of_toml('features = ["a", "b"]', 'columns = { near = "flag" }', f"'near' {FEATURE} near.")
    ),
    "classes": several(of_top('classes = ["near"]', "node-multilabel has no classes. Remove them")),
    "as one of several classes": replace(
        several(of_top('classes = ["0", "1"]', "takes a single column as 'label'.")),
        task="node-classification",
    ),
    "a hyphen": replace(
        several(Mistake("Did you mean 'node-multilabel'?")), task="node-multi-label"
    ),
}
UNITS = {
    **{
        f"unit {given}": of_top(f"unit = {given}", f"site.toml: {WORDS}")
        for given in (
            *("3", "3.5", "true", '["years"]', '{ age = "years" }', f'"{"y" * 41}"', "2026-01-01"),
            *("[]", "{}", "08:15:00", "inf", "[[1]]"),
        )
    },
    **{
        f"unit {given}": of_top(f"unit = {given}", "site.toml: is not valid TOML")
        for given in ("years", "", "'years\"")
    },
    "plural": of_top('units = "years"', "units: there is no such key. Did you mean 'unit'?"),
    "other case": of_top('Unit = "years"', "Unit: there is no such key. Did you mean 'unit'?"),
    "of a node type": of_toml(
        'label = "age"', 'label = "age"\nunit = "years"', f"this key is not read here. {TOP}"
    ),
    "of a column": of_toml(
        'features = ["a", "b"]', 'columns = { a = { kind = "number", unit = "m" } }', TOP
    ),
    "of labels": several(
        of_top('unit = "days"', "'unit' is for numbers, and node-multilabel has none. Remove it.")
    ),
    "of classes": replace(
        of_top('unit = "days"\nclasses = ["0", "1"]', "'unit' is for numbers, and node-classific"),
        task="node-classification",
    ),
}
EVERY = {
    f"{what}: {name}": mistake
    for what, mistakes in {"numbers": NUMBERS, "labels": LABELS, "unit": UNITS}.items()
    for name, mistake in mistakes.items()
}


def reported(path: Path, file: str, mistake: Mistake) -> list[str]:
    table = pd.read_csv(path.parent / file, dtype=str)
    for column, text in mistake.cells.items():
        table.loc[3, column] = text
    table.to_csv(path.parent / file, index=False)
    text = path.read_text()
    for old, new in mistake.toml.items():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return [str(one) for one in check_site(path).problems]


@pytest.mark.parametrize("name", EVERY)
def test_a_mistake_says_what_to_do(tmp_path: Path, name: str) -> None:
    one = EVERY[name]
    path = person_site(tmp_path / "a", 0, one.task, one.label, one.more)
    problems = reported(path, "people.csv", one)
    assert problems
    assert one.problem in problems[0]
    assert name == "labels: numbers" or len(problems) == 1


def test_each_has_twenty_mistakes() -> None:
    assert min(map(len, (NUMBERS, LABELS, UNITS))) >= 20


@pytest.mark.parametrize(
    "one",
    [
        Mistake("graphs.csv, row 5, column 'weight': 'x' is not a finite", cells={"weight": "x"}),
        Mistake("graphs.csv, row 5, column 'weight': the number is missing", cells={"weight": ""}),
        Mistake("graphs.csv, row 1, column 'label': there is no", toml={'label = "weight"': ""}),
        Mistake(f"graphs.{LABEL.removeprefix('nodes.person.')}", toml={'"weight"': "3"}),
        Mistake("[graphs] has 'id' as 'label' and as 'id'.", toml={'"weight"': '"id"'}),
        Mistake("[graphs] has 'light' as 'label' and", toml={'"weight"': '"light"\nsplit="light"'}),
    ],
    ids=lambda one: one.problem,
)
def test_a_mistake_with_graphs_says_what_to_do(tmp_path: Path, one: Mistake) -> None:
    (problem,) = reported(molecule_site(tmp_path / "a", 0), "graphs.csv", one)
    assert one.problem in problem


def test_a_missing_number_among_others_is_no_mistake(tmp_path: Path) -> None:
    one = Mistake("", cells={"age": ""})
    path = person_site(tmp_path / "a", 0, label='["age", "score"]')
    assert reported(path, "people.csv", one) == []
