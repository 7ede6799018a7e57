"""Writes the tables and claims of the docs anew from the kept runs: `python results/pages.py`.

In each page, what stands between a mark like `<!-- cross-sim -->` and `<!-- end -->` is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import banks_page
import beside_openfgl
import hospitals_kernel
import hospitals_page
import hospitals_people
import ledger_page
import links
import partitions
import photo
import printed
import tables
from board_runs import not_followed
from catalogue import compatibility_markdown, patches_markdown, protocols_markdown
from claims import claims, claims_markdown, outcome

from ramet.papers.board import board
from ramet.papers.board_page import (
    figure_name,
    overview_markdown,
    panel_figure,
    panels_markdown,
)
from ramet.papers.ledger import Ledger, ledger
from ramet.papers.ledger_tables import totals
from ramet.papers.wanted import kept_by_folder
from ramet.report import drawing
from ramet.studies.archive import finished_runs

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
BASELINES = ("local", "fedavg", "fedprox", "fedper", "fedsage", "gcfl", "gcfl+")
METHODS = (*BASELINES, "fedstar", "feddense,width=16", "feddense,width=32")
BOARD = sorted(HERE.glob("tuned-*/"))
PARTS = ("part-07", "part-08", "part-09")
SAME_SIZE = ("local", "local,hidden=94", "fedavg", "fedavg,hidden=94", "fedstar")


def pages() -> dict[Path, str]:
    """The text of every page that is written here."""
    made = {}
    for page, blocks in _blocks(ledger(HERE)).items():
        text = page.read_text()
        for place, block in blocks.items():
            text = filled(text, place, block)
        made[page] = text
    return made


def _blocks(found: Ledger) -> dict[Path, Mapping[str, str]]:
    panels, runs = board(BOARD), kept_by_folder(HERE)
    return {
        DOCS / "board.md": {
            "not followed": not_followed("openfgl"),
            "overview": overview_markdown(panels),
            "beside openfgl": beside_openfgl.table(),
            "photo": photo.table(),
            "tables": panels_markdown(panels, "figures/"),
        },
        DOCS / "choosing.md": {
            "cannot work together": compatibility_markdown("mathematics"),
            "not written yet": compatibility_markdown("not written"),
        },
        DOCS / "flower.md": {"patches": patches_markdown()},
        DOCS / "ledger.md": {"ledger": ledger_page.ledger_markdown(found)},
        DOCS / "results.md": {
            "feddense table2": printed.table("feddense table2"),
            "fedstar table2": printed.table("fedstar table2"),
            "single": _table("single", 0.75, METHODS),
            "cross-diff": _table("cross-diff", 0.65, METHODS),
            "cross-sim": _table("cross-sim", 0.70, METHODS),
            "splits": printed.deviations("single"),
            "same size": _table("single", None, SAME_SIZE),
            "cost": tables.operations("cost-cross-diff"),
            "other methods": _others("field-single-50"),
            "8 bits": _others("field-single-8-bit"),
        },
        DOCS / "results-nodes.md": {
            f"{setting}, {name}": table
            for setting in ("planted", "acm-links")
            for name, table in partitions.tables(setting).items()
        }
        | {
            "acm-links, parts": partitions.tables("acm-links", *PARTS)["last round"],
            "fedpub": printed.table("fedpub table1"),
            "networks": "\n".join(tables.networks()),
            "other methods": _others("field-cora-10"),
            "twitch": "\n\n".join([*tables.sites("twitch")][:2]),
            "cora": "\n\n".join(tables.folder("cora")),
        },
        DOCS / "results-links.md": {**links.tables(), "other methods": _others("field-acm-hetero")},
        DOCS / "hospitals.md": {
            **hospitals_page.blocks(),
            "people": hospitals_people.table(),
            "outside": hospitals_kernel.table(),
        },
        DOCS / "banks.md": banks_page.blocks(),
        HERE.parent / "README.md": {
            "hospitals": hospitals_page.short_answer(),
            "banks": banks_page.short_answer(),
        },
        DOCS / "protocols.md": {"protocols": protocols_markdown()},
        DOCS / "reproducing.md": {
            "claims": claims_markdown([outcome(claim, runs) for claim in claims()]),
            "totals": totals(found),
        },
    }


def _table(setting: str, target: float | None, methods: tuple[str, ...]) -> str:
    runs = finished_runs([HERE / setting])
    chosen = {label: own for label, own in runs.items() if label in methods}
    return "\n\n".join(tables.of_setting(chosen, target))


def _others(folder: str) -> str:
    """Without the line above the table."""
    return [*tables.field(folder)][1]


def filled(text: str, place: str, made: str) -> str:
    """The page with the block between the marks replaced."""
    begin, end = f"<!-- {place} -->", "<!-- end -->"
    pattern = rf"{re.escape(begin)}\n.*?{end}"
    changed, count = re.subn(pattern, lambda _: f"{begin}\n{made}\n{end}", text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"the page has {count} places marked {place}, expected one.")
    return changed


def main() -> None:
    for panel in board(BOARD):
        drawing.save_as(panel_figure(panel), DOCS / "figures" / f"{figure_name(panel)}.png")
    drawing.save_as(hospitals_page.figure(), DOCS / "figures" / "hospitals.png")
    drawing.save_as(banks_page.figure(), DOCS / "figures" / "banks.png")
    for page, text in pages().items():
        page.write_text(text)
        print(page.relative_to(HERE.parent))


if __name__ == "__main__":
    main()
