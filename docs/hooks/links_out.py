"""Links that leave `docs/` are written for a code host; here they are turned for the site.

A method's file leads to its page and a tutorial's script to its page. Any other file of the
repository leads to the code host that `repo_url` names; without one, the text stays and the link
goes.
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
_PAGES = {"src/ramet/methods": "methods", "docs/tutorials": "tutorials"}


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
