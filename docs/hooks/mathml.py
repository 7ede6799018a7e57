"""Formulas as MathML, which browsers render natively: no script, nothing from other hosts."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Convert what `pymdownx.arithmatex` has marked."""
    html = _BLOCK.sub(lambda found: _mathml(found[1], "block"), html)
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), html)


def _mathml(latex: str, display: str) -> str:
    drawn: str = convert(unescape(latex).strip(), display=display)
    return drawn
