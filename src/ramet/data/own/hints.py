"""What to do about names and cells that do not fit, as the last part of a problem's text."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from difflib import get_close_matches

_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_THOUSANDS = re.compile(r"-?\d{1,3}([,' \u00a0\u202f]\d{3})+(\.\d+)?")
_FLAG_WORDS = ("yes", "no", "true", "false", "y", "n", "t", "f")
_NO_VALUE = ("nan", "na", "n/a", "none", "null", "inf", "-inf", "+inf", "infinity", "-infinity")
OF_NODES = "[nodes.NAME.columns]"
_EXCEL = (".xls", ".xlsx", ".xlsm", ".ods")
_ONE = 'Write the name of one column, as in {} = "{}"'
_TOP_KEYS = {
    "site": 'Write a letter, and up to 63 letters, digits, - and _, as in site = "north"',
    "classes": 'Write a list of names, as in classes = ["fine", "fraud"]',
    "class_counts": "Write class_counts = true, without quotes",
    "unit": 'Write up to 40 characters, as in unit = "years"',
    "smallest_count": "Write a whole number from 1 on, as in smallest_count = 10",
}
_ROW_KEYS = {
    "id": _ONE.format("id", "number"),
    "split": _ONE.format("split", "part"),
    "time": _ONE.format("time", "date"),
}
_LABEL = (
    'Write the name of a column, as in label = "age", or of several, as in label = ["age", "risk"]'
)
_EDGE_KEYS = {
    **_ROW_KEYS,
    "source": _ONE.format("source", "payer"),
    "target": _ONE.format("target", "payee"),
    "label": _ONE.format("label", "state"),
    "features": 'Write the columns of numbers, as in features = ["amount", "fee"]',
    "columns": 'Write [edges.TYPE.columns], and below it lines such as amount = "number"',
    "weight": _ONE.format("weight", "amount"),
    "age": "Write age = true, without quotes",
    "directed": "Write directed = true, without quotes",
    "aggregate": 'Write a list of sum, mean and count, as in aggregate = ["sum", "count"]',
    "windows": "Write numbers of days, as in windows = [7, 30]",
    "unknown": 'Write unknown = "drop", or unknown = "stub"',
}
_DATE = "Write a date, as in {} = 2026-03-31"
_SPLIT_KEYS = {
    "by": 'Write [split], and below it by = "time"',
    "train_until": _DATE.format("train_until"),
    "validate_until": _DATE.format("validate_until"),
    "test_until": _DATE.format("test_until"),
    "shares": "Write the shares of training, validation and test, as in shares = [0.6, 0.2, 0.2]",
    "own": "Write own = true, without quotes",
}
_KEYS = {
    "edges": _EDGE_KEYS,
    "nodes": {**_ROW_KEYS, "label": _LABEL},
    "graphs": {**_ROW_KEYS, "label": _LABEL},
    "split": _SPLIT_KEYS,
    "": _TOP_KEYS,
}
TIME_HINT = "Fill it in, or leave the row out"
NEGATIVE_HINT = (
    ". A weight is 0 or more. Name another column as 'weight', or declare this one in "
    '[edges.TYPE.columns] as "number"'
)
SAVE_AS_CSV = "In a spreadsheet program, save the sheet as CSV in UTF-8, with commas"


def how_to_write(place: str, key: str) -> str:
    """How to write a key of a node type, an edge type, [graphs] or [split]; of "", at the top."""
    hint = _KEYS.get(place, {}).get(key)
    return f". {hint}" if hint else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name that differs in case or in a few letters; empty if there is none."""
    names = list(known)
    same = [one for one in names if one.strip().lower() == name.strip().lower()]
    near = same or get_close_matches(name, names, n=1)
    return f". Did you mean '{near[0]}'?" if near else ""


def missing_hint(place: str) -> str:
    """What to do about an empty cell; ``place`` is where its column can be declared, if it can."""
    hint = f', or declare the column in {place} as "number", which allows missing values'
    return f". Fill it in{hint if place else ''}"


def number_hint(text: str, place: str = OF_NODES) -> str:
    """How to write a number, or how to declare a column that has no numbers, in ``place``."""
    word, declare = text.strip().lower(), f"eclare the column in {place}"
    if not place and (word in _NO_VALUE or word in _FLAG_WORDS):
        return ". Write a number, such as 3.5"
    if word in _NO_VALUE:
        return f'. Leave the cell empty and d{declare} as "number", or correct it'
    if word in _FLAG_WORDS:
        return f'. D{declare} as "flag", or write 1 and 0'
    if _THOUSANDS.fullmatch(word):
        return ". Write it without thousands separators, such as 1234.5"
    if _DECIMAL_COMMA.fullmatch(word):
        return f". Write {word.replace(',', '.')}, with a decimal point"
    if re.fullmatch(r"[-+]?\d+(\.\d*)?e\+?\d+", word):
        return ". It must be between -3e38 and 3e38"
    other = f', or d{declare} as "category" or "date"' if place else ""
    return f". Write 3.5, without units{other}"


def id_hint(text: str, what: str, known: Container[str]) -> str:
    """How the id is written in the table of nodes, if it is there in another form."""
    forms = (text.removesuffix(".0"), f"{text}.0", text.lower(), text.upper(), text.lstrip("0"))
    for form in forms:
        if form != text and form in known:
            return f", but there is '{form}'. Write ids in the same way in both tables"
    add = f". Add it to the table of {what}, remove this row, or write unknown = "
    return f'{add}"drop" or "stub" in [edges.TYPE]'


def header_hint(columns: Iterable[str]) -> str:
    """For a table whose first line seems to be data."""
    if any(re.fullmatch(r"-?\d+([.,]\d+)?", column) for column in columns):
        return ". The first line must name the columns; this one has numbers"
    return ""


def format_hint(suffix: str) -> str:
    return f". {SAVE_AS_CSV}" if suffix.lower() in _EXCEL else ""
