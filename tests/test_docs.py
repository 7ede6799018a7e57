"""Links in the docs work on a code host too, and methods' pages agree with the code."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import pytest

from ramet.methods import METHODS, PAPER_NAMES
from ramet.options import arguments

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)[^)]*\)")


@pytest.mark.parametrize("page", [*PAGES, *SCRIPTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_files_of_the_repository(page: Path) -> None:
    targets = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.fixture(scope="module")
def method_pages() -> Iterator[ModuleType]:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "hooks")
        yield importlib.import_module("method_pages")


def test_every_method_has_one_page(method_pages: ModuleType) -> None:
    named = [name for page in method_pages.pages() for name in page.methods]
    assert sorted(named) == sorted([*METHODS, *PAPER_NAMES])


def test_a_page_lists_what_is_shared_and_what_it_costs(method_pages: ModuleType) -> None:
    (page,) = [page for page in method_pages.pages() if page.stem == "fedstar"]
    text = page.text()
    assert "**`fedstar`** shares `structure.*`." in text
    assert "| 14,592 | 8 | 57.00 KB |" in text


def test_a_page_joins_the_runs_of_all_splits(method_pages: ModuleType) -> None:
    (page,) = [page for page in method_pages.pages() if page.stem == "fedstar"]
    by_split: dict[str, list[float]] = {}
    for path in (ROOT / "results").glob("single*/fedstar-s*.json"):
        run = json.loads(path.read_text())
        if "--rounds 200" in run["command"]:
            split = re.findall(r"--split-seed (\d+)", run["command"])
            by_split.setdefault(split[0] if split else "", []).append(
                run["result"]["scores"]["test"]
            )
    runs, splits = sum(map(len, by_split.values())), len(by_split)
    assert splits > 1
    mean = 100 * fmean(map(fmean, by_split.values()))
    joined = (
        f"| `single` | `fedstar` | 200 | {runs} on {splits} splits | accuracy, % | {mean:.2f} ±"
    )
    rows = [
        line for line in page.text().splitlines() if line.startswith("| `single` | `fedstar` |")
    ]
    assert [row.startswith(joined) for row in rows] == [True]


def test_a_page_lists_extras_and_only_settings_that_the_method_runs_on(
    method_pages: ModuleType,
) -> None:
    (page,) = [page for page in method_pages.pages() if page.stem == "fedproto"]
    text = page.text()
    assert "    Extras: `prototypes`, `counts`" in text
    assert "| `fedproto` | `planted` | 2,372 | 260 | 2 | 1.02 KB |" in text  # 4 · (64 + 1) scalars
    assert "`tiny`" not in text.partition("## Options")[0]


def test_a_page_lists_options_and_defaults(method_pages: ModuleType) -> None:
    for name, factory in METHODS.items():
        listed = method_pages.arguments(name)
        assert listed.startswith(f"`ramet run {name} --set")
        for option in arguments(factory):
            assert f"`{option}=" in listed
    assert "`hidden=64`, `layers=3`, `dropout=0.5`, `lr=0.001`" in method_pages.arguments("fedstar")


def test_formulas_and_tables_of_docstrings_are_converted(method_pages: ModuleType) -> None:
    for page in method_pages.pages():
        description = page.description()
        assert ":math:" not in description
        assert "====" not in description
    fedlit = next(page for page in method_pages.pages() if page.stem == "fedlit").description()
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in fedlit
    assert "<code>kinds.centres</code>" in fedlit


def test_the_reference_names_existing_objects_and_has_no_rest_markup() -> None:
    """Checks the docstrings that the page shows, of each object and its members."""
    page = (ROOT / "docs" / "reference.md").read_text()
    blocks = re.findall(r"^::: (\S+)\n((?:    .*\n)*)", page, re.MULTILINE)
    assert len(blocks) > 30
    for path, options in blocks:
        members = re.search(r"members: \[(.*)\]", options)
        shown = _object(path)
        documented = [shown, *(getattr(shown, name) for name in vars(shown) if name[0] != "_")]
        if inspect.ismodule(shown):
            assert members, f"{path} would show all its members"
            documented = [shown, *(getattr(shown, name) for name in members[1].split(", "))]
        for text in filter(None, (item.__doc__ for item in documented)):
            assert not re.search(r":\w+:`|^====|^\.\. ", text, re.MULTILINE), f"{path}: {text}"


def _object(path: str) -> Any:
    """A module, or a member of a module."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_only_long_code_in_tables_may_break() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "hooks")
        long_code = importlib.import_module("long_code")
    code = "fedlit,grouping=common,view=fixed"
    text = f"<p><code>{code}</code></p><td><code>gcn</code> <code>{code}</code></td>"
    changed = long_code.on_page_content(text)
    broken = '<code class="long">fedlit,<wbr>grouping=common,<wbr>view=fixed</code>'
    assert changed == f"<p><code>{code}</code></p><td><code>gcn</code> {broken}</td>"


def test_links_out_of_the_docs_are_rewritten_for_the_site() -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import File, Files
    from mkdocs.structure.pages import Page

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "hooks")
        links_out = importlib.import_module("links_out")
    config = MkDocsConfig()
    config.load_dict({"site_name": "Ramet"})
    config.validate()
    names = ("a/b.md", "c.md", "methods/fedstar.md", "methods/index.md", "examples/x.md")
    pages = [File(name, "docs", "site", use_directory_urls=True) for name in names]
    page, files = Page(None, pages[0], config), Files(pages)

    def rewritten(text: str) -> str:
        markdown: str = links_out.on_page_markdown(text, page=page, config=config, files=files)
        return markdown

    assert rewritten("[x](../../src/ramet/methods/fedstar.py)") == "[x](../methods/fedstar.md)"
    assert rewritten("[x](../../src/ramet/methods/__init__.py)") == "[x](../methods/index.md)"
    assert rewritten("[x](../examples/x.py)") == "[x](../examples/x.md)"
    assert rewritten("[x](../c.md#part)") == "[x](../c.md#part)"
    assert rewritten("[the runs](../../results)") == "the runs"
    config.repo_url = "https://example.org/ramet"
    assert rewritten("[x](../../results)") == "[x](https://example.org/ramet/blob/HEAD/results)"
