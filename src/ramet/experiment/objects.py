"""Methods that are given as Python objects instead of by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from ramet.errors import RametError
from ramet.methods import METHODS
from ramet.rules.method import Method

_OBJECT = "object:"
_given: dict[str, Method] = {}
"""The objects that this process was given, by the names of their runs' methods."""


def method_name(method: str | Method) -> str:
    """The name of a method; of an object, a name that only this process knows.

    An object that a built-in factory returns without arguments has the name of that method.
    """
    if isinstance(method, str):
        return method
    if not isinstance(method, Method):
        raise RametError(
            f"the method is of type {type(method).__name__}. Give a name from `ramet list "
            "methods`, file.py:FACTORY, or a Method, such as ramet.fedavg()."
        )
    built_in = METHODS.get(method.name)
    if built_in is not None and _same(built_in(), method):
        return method.name
    known = next((name for name, one in _given.items() if one is method), None)
    if known is None:
        others = [one for one in _given.values() if one.name == method.name]
        known = f"{_OBJECT}{method.name}{f'-{len(others) + 1}' if others else ''}"
        _given[known] = method
    return known


def is_object(name: str) -> bool:
    """Whether the method was given as an object, which other processes do not have."""
    return name.startswith(_OBJECT)


def object_factory(name: str) -> Callable[[], Method]:
    """Returns the object; an error in any other process than the one that it was given to."""
    if name not in _given:
        raise RametError(
            f"the method '{name}' was given as an object, which is in the memory of the process "
            "that started the run. To continue a run, or to use other engines, put a function that "
            "returns the method into a file, and name it: file.py:FACTORY."
        )
    return lambda: _given[name]


def _same(one: Any, other: Any) -> bool:
    """Whether two parts of methods are equal, also if they are partial functions."""
    if type(one) is not type(other):
        return False
    if isinstance(one, partial):
        return _same(
            (one.func, one.args, sorted(one.keywords.items())),
            (other.func, other.args, sorted(other.keywords.items())),
        )
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_dataclass(one):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)
