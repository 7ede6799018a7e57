"""Marks long code in tables, such as a method with its options, so that the style lets it break."""

from __future__ import annotations

import re
from typing import Any

_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_LONG = re.compile(r"<code>([^<]{28,})</code>")


def on_page_content(html: str, **_: Any) -> str:
    return _CELL.sub(lambda cell: _LONG.sub(r'<code class="long">\1</code>', cell[0]), html)
