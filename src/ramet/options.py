"""Find built-in and user-defined factories by name, and call them with `--set` options."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from ramet.errors import RametError, unknown
from ramet.user_code import allow, check_allowed

Built = TypeVar("Built")
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
ProperShare: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
"""Strictly between 0 and 1."""
_PY, _IN_FILE = ".py", ".py:"


def factory_named(
    name: str, known: Mapping[str, Callable[..., Built]], kind: str
) -> Callable[..., Built]:
    """A built-in factory by its name, or a user's `module:factory` or `file.py:factory`."""
    if name in known:
        return known[name]
    if name.endswith(".py"):
        raise RametError(f"name the factory in the file too: {name}:FACTORY.")
    if not is_user_defined(name):
        raise unknown(kind, name, known)
    source, _, attribute = name.rpartition(":")
    try:
        check_allowed(name, kind)
        module = (
            _load_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
        )
    except (ImportError, OSError, SyntaxError) as error:
        raise RametError(
            f"cannot load the {kind} '{name}': {error}. Give file.py:FACTORY, or module:FACTORY "
            "of an installed module."
        ) from error
    factory: Callable[..., Built] | None = getattr(module, attribute, None)
    if not callable(factory):
        raise RametError(f"{source} has no function or class '{attribute}' that returns a {kind}.")
    return factory


def is_user_defined(name: str) -> bool:
    """Whether this is `module:factory` or `file.py:factory`, and not a built-in name."""
    return ":" in name


def allow_code(*texts: object, remember: bool = True) -> None:
    """Let the user-defined code run that the user names in these texts, some of which may be None.

    Without ``remember``, only in this process and its children.
    """
    for text in texts:
        name, _ = name_and_options(text if isinstance(text, str) else "")
        if is_user_defined(name):
            allow(absolute_file(name), remember)


_imported_beside: set[str] = set()
"""The modules that the last user-defined file has imported from its folder."""


def _load_file(path: Path) -> ModuleType:
    """Load a file and, at its top level, modules next to it.

    Nothing is cached: files change, and modules in two folders may have the same name.
    """
    name = str(path.absolute())
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise OSError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up annotations there
    for other in _imported_beside:
        sys.modules.pop(other, None)
    loaded, folder = set(sys.modules), path.absolute().parent
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
        _imported_beside.clear()
        _imported_beside.update(_modules_in(folder, set(sys.modules) - loaded))
    return module


def _modules_in(folder: Path, names: set[str]) -> set[str]:
    """Those of the modules whose top-level package or file stands directly in the folder."""
    tops = {name for name in names if "." not in name and _is_in(folder, sys.modules[name])}
    return {name for name in names if name.partition(".")[0] in tops}


def _is_in(folder: Path, module: ModuleType) -> bool:
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    return any(Path(place).parent == folder for place in places)


def absolute_file(text: str) -> str:
    """`file.py:factory` with the file's absolute path, so that every process finds it."""
    path, separator, rest = text.rpartition(_IN_FILE)
    return f"{Path(path).absolute()}{separator}{rest}" if separator else text


def without_folder(text: str) -> str:
    """`file.py:factory` with the file's name only, for output."""
    path, separator, rest = text.rpartition(_IN_FILE)
    return f"{Path(path).name}{separator}{rest}" if separator else text


def folder_name(text: str) -> str:
    """The name, or that of `file.py:factory`, as a folder can have it on every system."""
    return without_folder(text).replace(":", "_")


def relative_file(text: str) -> str:
    """`file.py:factory` as seen from the current folder; of a file elsewhere, the name only."""
    path, separator, rest = text.rpartition(_IN_FILE)
    file = Path(os.path.normpath(f"{Path(path).absolute()}{_PY}"))
    if not separator or not file.is_relative_to(Path.cwd()):
        return without_folder(text)
    return f"{file.relative_to(Path.cwd()).as_posix()}:{rest}"


def name_and_options(text: str) -> tuple[str, dict[str, str]]:
    """Split `restart,alpha=0.3` into name and options; folders and values may contain commas."""
    path, separator, rest = text.rpartition(_IN_FILE)
    name, *pieces = rest.split(",")
    pairs: list[str] = []
    for piece in pieces:
        if "=" in piece or not pairs:
            pairs.append(piece)
        else:
            pairs[-1] += f",{piece}"
    return path + separator + name, dict(pair.partition("=")[::2] for pair in pairs)


def arguments(factory: Callable[..., Any], given: Sequence[str] = ()) -> dict[str, Any]:
    """The options of a factory and their defaults: its arguments, with dataclasses flattened.

    ``given`` are arguments that are not options, because the caller provides them.
    """
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if name in given:
            continue
        default = parameter.default
        if is_dataclass(default):
            defaults |= {field.name: getattr(default, field.name) for field in fields(default)}
        else:
            defaults[name] = default
    return defaults


def build(factory: Callable[..., Built], options: Mapping[str, str], by: str = "--set") -> Built:
    """Call a factory with options given as text, which are converted and checked by type.

    ``by`` is the command-line option that gave them, for error messages.
    """
    chosen = converted(factory, options, by)
    try:
        return factory(**chosen)
    except ValidationError as error:
        raise _invalid(error, by) from error


def converted(
    factory: Callable[..., Any],
    options: Mapping[str, str],
    by: str = "--set",
    given: Sequence[str] = (),
) -> dict[str, Any]:
    """The arguments of a factory, converted from text and checked by type.

    ``given`` are arguments that the caller provides.
    """
    hints = _hints(factory)
    chosen: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if name in given:
            continue
        if name not in hints:
            raise RametError(
                f"the argument '{name}' of {factory.__name__} has no type, which is needed to "
                f"convert its value. Add one, as in `{name}: float = 0.5`."
            )
        try:
            if is_dataclass(hints[name]):
                chosen[name] = _converted_fields(parameter.default, options)
            elif name in options:
                chosen[name] = TypeAdapter(hints[name]).validate_python(options[name])
            elif parameter.default is parameter.empty:
                raise RametError(f"{factory.__name__} needs '{name}'. Give it: {by} {name}=…")
        except ValidationError as error:
            raise _invalid(error, by, name) from error
    return chosen


def _converted_fields(default: Any, options: Mapping[str, str]) -> Any:
    """A copy of a dataclass with some of its fields replaced."""
    names = [field.name for field in fields(default)]
    values = {name: options.get(name, getattr(default, name)) for name in names}
    return TypeAdapter(type(default)).validate_python(values)


def _invalid(error: ValidationError, by: str, name: str = "") -> RametError:
    first = error.errors()[0]
    where = first["loc"][0] if first["loc"] else name
    return RametError(f"{by} {where}={first['input']}: {first['msg']}.")


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    plain_class = inspect.isclass(factory) and not is_dataclass(factory)
    return get_type_hints(factory.__init__ if plain_class else factory, include_extras=True)
