"""From text options (`--set lr=0.01`) to a factory's arguments, converted and checked by type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ramet.errors import RametError

Made = TypeVar("Made")


def arguments(factory: Callable[..., Any]) -> dict[str, Any]:
    """What --set may set, with its default: arguments, and the fields of those with fields."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        default = parameter.default
        if is_dataclass(default):
            found |= {field.name: getattr(default, field.name) for field in fields(default)}
        else:
            found[name] = default
    return found


def made(factory: Callable[..., Made], options: Mapping[str, str], by: str = "--set") -> Made:
    """Call a factory with options given as text, converted and checked by their types.

    ``by`` is how they were given, for the error.
    """
    hints = get_type_hints(factory, include_extras=True)
    chosen: dict[str, Any] = {}
    try:
        for name, parameter in inspect.signature(factory).parameters.items():
            if is_dataclass(hints[name]):
                own = {f.name: options[f.name] for f in fields(hints[name]) if f.name in options}
                kind = type(parameter.default)
                chosen[name] = TypeAdapter(kind).validate_python(
                    {**{f.name: getattr(parameter.default, f.name) for f in fields(kind)}, **own}
                )
            elif name in options:
                chosen[name] = TypeAdapter(hints[name]).validate_python(options[name])
        return factory(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        where = first["loc"][0] if first["loc"] else name
        raise RametError(f"{by} {where}={first['input']}: {first['msg']}.") from error
