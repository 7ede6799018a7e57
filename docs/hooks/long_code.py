"""Lets long code in tables break after commas, such as a method with its options."""

from __future__ import annotations

import re
from typing import Any

_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_LONG = re.compile(r"<code>([^<\s]{28,})</code>")


def on_page_content(html: str, **_: Any) -> str:
    return _CELL.sub(lambda cell: _LONG.sub(_breakable, cell[0]), html)


def _breakable(code: re.Match[str]) -> str:
    return f'<code class="long">{code[1].replace(",", ",<wbr>")}</code>'
