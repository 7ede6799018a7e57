"""Rewrite links out of `docs/`, which are written for a code host, for the site.

A link to a method's file, a tutorial's script or an example becomes a link to its page. A link to
any other file of the repository becomes one to the code host in `repo_url`; without `repo_url` only
the text remains.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")
_PAGES = {
    "docs/examples": "examples",
    "docs/tutorials": "tutorials",
    "src/ramet/methods": "methods",
}


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files, **_: Any
) -> str:
    here = dirname(page.file.src_uri)

    def turned(link: re.Match[str]) -> str:
        path = PurePosixPath(normpath(f"docs/{here}/{link['target']}"))
        stem = path.stem.replace("__init__", "index")
        made = f"{_PAGES.get(str(path.parent))}/{stem}.md"
        if path.suffix == ".py" and files.get_file_from_path(made):
            return f"[{link['text']}]({relpath(made, here or '.')})"
        if path.parts[0] == "docs":
            return link[0]
        if config.repo_url:
            return f"[{link['text']}]({config.repo_url.rstrip('/')}/blob/HEAD/{path})"
        return link["text"]

    return _LINK.sub(turned, markdown)
