"""From text to what it names: factories, one's own too, and their arguments (`--set lr=0.01`)."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from ramet.errors import RametError, unknown

Made = TypeVar("Made")
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
ProperShare: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
"""More than nothing, less than everything."""
_IN_FILE = ".py:"


def factory_named(
    name: str, known: Mapping[str, Callable[..., Made]], kind: str
) -> Callable[..., Made]:
    """A known one, or `module:factory` or `file.py:factory` for one's own."""
    if name in known:
        return known[name]
    if name.endswith(".py"):
        raise RametError(f"name the factory in the file too: {name}:FACTORY.")
    if ":" not in name:
        raise unknown(kind, name, known)
    place, _, attribute = name.rpartition(":")
    try:
        module = (
            _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except (ImportError, OSError, SyntaxError) as error:
        raise RametError(
            f"cannot load the {kind} '{name}': {error}. Give file.py:FACTORY, or module:FACTORY "
            "of an installed module."
        ) from error
    factory: Callable[..., Made] | None = getattr(module, attribute, None)
    if not callable(factory):
        raise RametError(f"{place} has no function or class '{attribute}' that makes a {kind}.")
    return factory


def source_of(text: str, known: Mapping[str, Any]) -> Path | None:
    """The file in which one's own factory lies; None for a known one."""
    name, _ = name_and_options(text)
    place = name.rpartition(":")[0]
    if name in known or not place:
        return None
    if place.endswith(".py"):
        return Path(place)
    spec = importlib.util.find_spec(place)
    return Path(spec.origin) if spec and spec.origin else None


def _load_file(path: Path) -> ModuleType:
    """Read anew each time; what lies beside the file can be imported at its top."""
    name = str(path.absolute())
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise OSError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their annotations there
    beside = str(path.absolute().parent)
    sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(beside)
    return module


def absolute_file(text: str) -> str:
    """`file.py:factory` with the file named from the root, so that every process finds it."""
    place, mark, rest = text.partition(_IN_FILE)
    return f"{Path(place).absolute()}{mark}{rest}" if mark else text


def without_folder(text: str) -> str:
    """`file.py:factory` with the file's name alone, as people are told it."""
    place, mark, rest = text.partition(_IN_FILE)
    return f"{Path(place).name}{mark}{rest}" if mark else text


def name_and_options(text: str) -> tuple[str, dict[str, str]]:
    """`restart,alpha=0.3` in two; folders and values may have commas in them."""
    place, mark, rest = text.rpartition(_IN_FILE)
    name, *pieces = rest.split(",")
    pairs: list[str] = []
    for piece in pieces:
        if "=" in piece or not pairs:
            pairs.append(piece)
        else:
            pairs[-1] += f",{piece}"
    return place + mark + name, dict(pair.partition("=")[::2] for pair in pairs)


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
    hints = _hints(factory)
    chosen: dict[str, Any] = {}
    try:
        for name, parameter in inspect.signature(factory).parameters.items():
            if name not in hints:
                raise RametError(
                    f"the argument '{name}' of {factory.__name__} has no type, and what is given "
                    f"for it is converted by its type. Write one, as in `{name}: float = 0.5`."
                )
            if is_dataclass(hints[name]):
                own = {f.name: options[f.name] for f in fields(hints[name]) if f.name in options}
                kind = type(parameter.default)
                chosen[name] = TypeAdapter(kind).validate_python(
                    {**{f.name: getattr(parameter.default, f.name) for f in fields(kind)}, **own}
                )
            elif name in options:
                chosen[name] = TypeAdapter(hints[name]).validate_python(options[name])
            elif parameter.default is parameter.empty:
                raise RametError(f"{factory.__name__} needs '{name}'. Give it: {by} {name}=…")
        return factory(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        where = first["loc"][0] if first["loc"] else name
        raise RametError(f"{by} {where}={first['input']}: {first['msg']}.") from error


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    plain_class = inspect.isclass(factory) and not is_dataclass(factory)
    return get_type_hints(factory.__init__ if plain_class else factory, include_extras=True)
