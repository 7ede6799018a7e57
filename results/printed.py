"""A paper's table next to ours: `python results/printed.py 'fedpub table1'`.

Each cell has our mean over splits, or over the seeds of one, with its standard deviation, the
printed figure in brackets, and the status: whether the 95 % interval of our mean is within two
points of the printed one.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from ramet.experiment import MethodSpec
from ramet.papers.claims import RunsByFolder, kept_by_folder
from ramet.papers.printed import Printed, tables
from ramet.papers.reproduction import ReproducedCell, cell_from_runs

HERE = Path(__file__).parent
NBSP = "\u00a0"


def main() -> None:
    print(table(sys.argv[1]))


def table(name: str) -> str:
    """A row per method, a column per setting."""
    cells, kept = tables()[name], _kept()
    groups = list(dict.fromkeys(cell.group for cell in cells))
    lines = ["| method | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for cell in cells:
        key = (cell.method, str(MethodSpec(cell.method, cell.options, activation=cell.activation)))
        rows.setdefault(key, {})[cell.group] = in_words(measured(cell, kept))
    methods = [method for method, _ in rows]
    for (method, with_options), row in rows.items():
        label = method if methods.count(method) == 1 else with_options
        lines.append(f"| `{label}` | " + " | ".join(row.get(one, "–") for one in groups) + " |")
    return "\n".join(lines)


@cache
def _kept() -> RunsByFolder:
    return kept_by_folder(HERE)


def measured(cell: Printed, kept: RunsByFolder) -> ReproducedCell:
    options = {**cell.setting_options, **cell.options}
    label = str(MethodSpec(cell.method, options, activation=cell.activation))
    return cell_from_runs(cell, kept.get(cell.group, {}).get(label, {}))


def in_words(cell: ReproducedCell) -> str:
    printed = f"({cell.printed.value:.2f})"
    if cell.mean is None:
        return f"not run {printed}"
    spread = "" if cell.spread is None else f"{NBSP}±{NBSP}{cell.spread:.2f}"
    return f"{cell.mean:.2f}{spread} {printed}, {cell.status}"


if __name__ == "__main__":
    main()
