"""Pages say what the kept runs say: generated parts are up to date, and verdicts agree."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ramet.papers.ledger import ledger
from ramet.papers.ledger_tables import totals
from ramet.papers.wanted import kept_by_folder

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = re.compile(r"<!-- [^>]+ -->\n.*?<!-- end -->", re.DOTALL)
VERDICT = re.compile(r"\*\*(holds|undecided|fails)\*\*(?:<!-- (\S+) > (\S+) on (\S+) -->)?")
LOOSE = re.compile(r"\b(is|are|not) shown\b|\bmeets the claim\b|\bdoes not hold\b|\border holds\b")
INTERVAL = re.compile(r"\[[−+-]?\d+\.\d+,\s[−+-]?\d+\.\d+\]")
TEXTS = {page: GENERATED.sub("", page.read_text()) for page in PAGES}


@pytest.fixture(scope="module")
def pages() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "results")
        yield importlib.import_module("pages")


def test_generated_parts_are_up_to_date(pages: ModuleType) -> None:
    """Otherwise run `make pages`."""
    stale = [page.name for page, text in pages.pages().items() if page.read_text() != text]
    assert not stale, "run `make pages`"


def test_a_stale_part_is_noticed(pages: ModuleType) -> None:
    page = "a\n<!-- x -->\n**holds**\n<!-- end -->\nb"
    assert pages.filled(page, "x", "**fails**") == "a\n<!-- x -->\n**fails**\n<!-- end -->\nb"
    with pytest.raises(SystemExit, match="0 places marked y"):
        pages.filled(page, "y", "")


def test_the_ledger_page_repeats_the_totals(pages: ModuleType) -> None:
    text = pages.pages()[ROOT / "docs" / "ledger.md"]
    assert totals(ledger(ROOT / "results")) in text
    assert "### feddense table2" in text


@pytest.fixture(scope="module")
def statuses(pages: ModuleType) -> dict[tuple[str, str, str], set[str]]:
    """By both methods and the folder."""
    runs = kept_by_folder(ROOT / "results")
    found: dict[tuple[str, str, str], set[str]] = {}
    for claim in pages.claims():
        key = (claim.better, claim.than, claim.folder)
        found.setdefault(key, set()).add(pages.outcome(claim, runs).status)
    return found


def test_every_verdict_in_the_text_is_that_of_its_claim(
    statuses: dict[tuple[str, str, str], set[str]],
) -> None:
    found = [
        (page.name, *match.groups())
        for page, text in TEXTS.items()
        for match in VERDICT.finditer(text)
    ]
    assert len(found) > 10
    wrong = [one for one in found if statuses.get((one[2], one[3], one[4])) != {one[1]}]
    assert not wrong, "each verdict names its claim: **holds**<!-- BETTER > THAN on FOLDER -->"


def test_claims_are_not_worded_in_other_ways() -> None:
    loose = [
        (page.name, match.group())
        for page, text in TEXTS.items()
        if page.name.startswith(("README", "results", "reproducing", "choosing"))
        for match in LOOSE.finditer(text)
    ]
    assert not loose


def test_intervals_of_results_are_computed() -> None:
    typed = [
        (page.name, match.group())
        for page, text in TEXTS.items()
        if page.name.startswith(("results", "reproducing", "board", "ledger"))
        for match in INTERVAL.finditer(text)
    ]
    assert not typed
