"""What the authors of a method do differently, with our values read from the code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ramet.errors import RametError
from ramet.experiment.named import NamedParts
from ramet.methods import ACTIVATIONS, AUTHORS
from ramet.methods.authors import OTHERS, Deviation
from ramet.options import arguments


class DeviationRow(NamedTuple):
    """An option with our value and the authors'."""

    option: str
    ours: str
    authors: str
    where: str


def methods_of_papers() -> list[tuple[str, ...]]:
    """Methods that have an authors' protocol, those with the same one together."""
    return [
        tuple(method for method, other in AUTHORS.items() if other is authors)
        for authors in {id(one): one for one in AUTHORS.values()}.values()
    ]


def deviations(*methods: str) -> tuple[DeviationRow, ...]:
    """What `protocol=authors` sets for methods of one paper, if any of them has the option."""
    for method in methods:
        if method not in AUTHORS:
            raise RametError(
                f"{method} has no protocol of its authors. Use one of: {', '.join(AUTHORS)}."
            )
    known = [_known_options(method) for method in methods]
    return tuple(
        DeviationRow(one.option, _text(_value(one, known)), _authors(one), one.where)
        for one in AUTHORS[methods[0]].deviations
        if any(one.option in options for options in known)
    )


def not_followed(method: str) -> tuple[str, ...]:
    """What the authors do differently and `protocol=authors` does not set."""
    return AUTHORS[method].not_followed


def _known_options(method: str) -> dict[str, Any]:
    """All options of the method on its paper's setting.

    A method that asks for parts of replies also has those of the rules that may replace its own.
    """
    parts = NamedParts(method, AUTHORS[method].setting, None, {}, Path())
    rules = ACTIVATIONS.values() if parts.bare_method.activation.asks_parts else ()
    replacing = {key: value for rule in rules for key, value in arguments(rule).items()}
    return {**replacing, **parts.defaults()}


def _value(one: Deviation, known: list[dict[str, Any]]) -> Any:
    return next(options[one.option] for options in known if one.option in options)


def _authors(one: Deviation) -> str:
    if isinstance(one.authors, Mapping):
        return ", ".join(
            f"{value} {'elsewhere' if setting == OTHERS else f'on {setting}'}"
            for setting, value in one.authors.items()
        )
    return one.authors


def _text(value: Any) -> str:
    """The value as `--set` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
