"""The table of `benchmarks/openfgl.py`: the same jobs in Ramet and in OpenFGL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from hospitals_study import words

from ramet.report.text import markdown_table
from ramet.studies.finished_run import Draw
from ramet.studies.gains import paired_gain

LINES = Path(__file__).parent / "beside-openfgl.jsonl"
TEST_TO_TRAIN = 2.0
HEADER = (
    "method",
    "splits",
    "model",
    "OpenFGL, %",
    "Ramet, %",
    "difference, points",
    "CPU time",
    "memory",
)
"""The last two are ours relative to theirs."""
Line = Mapping[str, Any]


def table() -> str:
    lines = sorted(map(json.loads, LINES.read_text().splitlines()), key=lambda one: one["method"])
    rows = [
        row
        for method, own in groupby(lines, key=lambda one: str(one["method"]))
        for row in _rows(method, [*own])
    ]
    return markdown_table(HEADER, rows)


def _rows(method: str, lines: Sequence[Line]) -> list[list[str]]:
    by_side = {
        side: {line["split"]: line for line in lines if line["side"] == side}
        for side in ("OpenFGL", "Ramet")
    }
    theirs, ours = by_side["OpenFGL"], by_side["Ramet"]
    splits = sorted(theirs.keys() & ours.keys())
    if not splits:
        return []

    def relative(what: str) -> str:
        ratio = fmean(ours[s][what] for s in splits) / fmean(theirs[s][what] for s in splits)
        return f"{ratio:.2f}"

    found = []
    for model in ("merged", "trained"):
        if model in ours[splits[0]]:
            differences = {Draw(s, 1): ours[s][model] - theirs[s][model] for s in splits}
            gain = paired_gain(differences, TEST_TO_TRAIN)
            means = [f"{100 * fmean(one[s][model] for s in splits):.1f}" for one in (theirs, ours)]
            found.append(
                [
                    f"`{method}`",
                    str(len(splits)),
                    model,
                    *means,
                    words(gain),
                    relative("seconds"),
                    relative("memory"),
                ]
            )
    return found
