"""Find methods, settings and rules by name, or in a user's file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from ramet.errors import RametError, unknown
from ramet.experiment.settings import RunSettings
from ramet.methods import ACTIVATIONS, MERGES, METHODS, Method
from ramet.methods.activation import Activation
from ramet.methods.base import with_merging
from ramet.methods.merging import Merging
from ramet.options import (
    Built,
    arguments,
    build,
    factory_named,
    name_and_options,
    source_of,
    without_folder,
)
from ramet.partition import SETTINGS, Setting
from ramet.payload import only

Rule = TypeVar("Rule")


def method_named(
    method: str,
    options: Mapping[str, str],
    share: tuple[str, ...] | None = None,
    activation: str | None = None,
    merge: str | None = None,
) -> Method:
    """A method with its options and with replaced parts."""
    returned = build(method_factory(method), options)
    hint = "Return `Method(…)` or `replace(fedstar(), …)`."
    built = _checked_type(returned, Method, method, hint)
    if share is not None:
        built = replace(built, shared=only(*share))
    if activation:
        built = replace(built, activation=activation_from(activation))
    if merge:
        built = with_merging(built, merging_from(merge), merge)
    return built


def method_of(settings: RunSettings) -> Method:
    return method_named(
        settings.method,
        split_options(settings.method, settings.setting, settings.options)["method"],
        settings.share,
        settings.activation,
        settings.merge,
    )


def setting_of(method: str, setting: str, options: Mapping[str, str]) -> Setting:
    """The setting of a run; an option that neither it nor the method accepts is an error."""
    return setting_named(setting, split_options(method, setting, options)["setting"])


def setting_named(name: str, options: Mapping[str, str]) -> Setting:
    return build(setting_factory(name), options)


def setting_ignoring_unknown(name: str, options: Mapping[str, str]) -> Setting:
    """The setting with those of a run's options that it accepts; others are ignored."""
    accepted = arguments(setting_factory(name))
    return setting_named(name, {key: value for key, value in options.items() if key in accepted})


def split_options(
    method: str, setting: str, options: Mapping[str, str]
) -> dict[Literal["method", "setting"], dict[str, str]]:
    """Split a run's options between method and setting; one that neither accepts is an error."""
    accepted: dict[Literal["method", "setting"], dict[str, Any]] = {
        "method": arguments(method_factory(method)),
        "setting": arguments(setting_factory(setting)),
    }
    known = {**accepted["method"], **accepted["setting"]}
    for key in options:
        if key not in known:
            raise unknown("option", key, known)
    return {
        owner: {key: value for key, value in options.items() if key in names}
        for owner, names in accepted.items()
    }


def method_factory(name: str) -> Callable[..., Method]:
    """A built-in method by its name, or `module:factory` or `file.py:factory`."""
    return factory_named(name, METHODS, "method")


def setting_factory(name: str) -> Callable[..., Setting]:
    if name not in SETTINGS:
        raise unknown("setting", name, SETTINGS)
    return SETTINGS[name]


def activation_from(text: str) -> Activation:
    """Build a rule such as `restart,alpha=0.3` or `file.py:Rule,alpha=0.3`."""
    rule = _rule_from(text, ACTIVATIONS, "activation")
    return _checked_type(
        rule, Activation, text, "It needs `ask`, `score` and `settle`, `keep_own` and `asks_parts`."
    )


def merging_from(text: str) -> Merging:
    """Build a rule such as `trimmed-mean,share=0.3` or `file.py:Rule,share=0.3`."""
    rule = _rule_from(text, MERGES, "merge")
    return _checked_type(rule, Merging, text, "It needs `start`, `ask` and `merge`.")


def _rule_from(text: str, rules: Mapping[str, Callable[..., Rule]], kind: str) -> Rule:
    name, options = name_and_options(text)
    factory = factory_named(name, rules, kind)
    known = arguments(factory)
    if options and not known:
        raise RametError(f"{without_folder(name)} takes no options. Write --{kind} {name}.")
    for key in options:
        if key not in known:
            raise unknown(f"option of {without_folder(name)}", key, known)
    return build(factory, options, by=f"--{kind}")


def _checked_type(built: Built, kind: type[Any], name: str, hint: str) -> Built:
    """Check the type of what a user's factory returned."""
    if not isinstance(built, kind):
        raise RametError(
            f"{without_folder(name)} returned {type(built).__name__} instead of {kind.__name__}. "
            f"{hint}"
        )
    return built


def user_files(settings: RunSettings) -> dict[str, Path]:
    """The files of a user-defined method and of user-defined rules."""
    sources = {
        "method": source_of(settings.method, METHODS),
        "activation": source_of(settings.activation or "", ACTIVATIONS),
        "merge": source_of(settings.merge or "", MERGES),
    }
    return {kind: source for kind, source in sources.items() if source}


def code_sha256(settings: RunSettings) -> str | None:
    """SHA-256 of the user-defined file, or of the hashes of several; None if all is built in."""
    files = user_files(settings).values()
    hashes = [hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.is_file()]
    if len(hashes) > 1:
        return hashlib.sha256("".join(hashes).encode()).hexdigest()
    return hashes[0] if hashes else None


def check_code(settings: RunSettings) -> None:
    """Refuse user-defined code that has changed since the run started."""
    if settings.code is not None and settings.code != code_sha256(settings):
        files = ", ".join(map(str, user_files(settings).values()))
        raise RametError(
            f"{files} has changed since this run started: its SHA-256 was {settings.code[:12]}…. "
            "Restore the file, or start a new run in another folder with --out."
        )
