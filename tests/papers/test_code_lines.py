"""Lines of code are those without comments, docstrings and blank lines."""

from __future__ import annotations

from ramet.papers.code_lines import code_lines

SOURCE = '''"""A method.

With a docstring."""

# a comment
from math import (
    sqrt,
)


def half(x):  # of a number
    """Half of it."""
    return """
two lines""" if x else sqrt(x)
'''


def test_only_lines_with_code_count() -> None:
    assert code_lines(SOURCE) == 3 + 1 + 2
    assert code_lines("") == 0
