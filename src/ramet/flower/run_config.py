"""Flower's run config, which is flat: all options of a run, and what the server app needs.

Each option has the name of its flag. An empty text or 0 stands for an option that is not given.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ramet.experiment import Experiment, RunSettings, checked_settings
from ramet.flower.thin_app import (
    ACCEPTED_RUN,
    APP_DEFAULTS,
    NEW_ROWS,
    OF_THE_SERVER,
    config_key,
    flat,
)
from ramet.run_options import RUN_OPTIONS, Declared


def to_run_config(settings: RunSettings, folder: Path) -> dict[str, str | int | float]:
    """Convert settings to the app's run config; values with spaces are quoted as in a shell.

    Over a SuperLink, the paths of sites' files are left out.
    """
    if settings.engine == "superlink":
        settings = Experiment(settings).public_settings()
    options = {
        config_key(name): flat(one, getattr(settings, name)) for name, one in RUN_OPTIONS.items()
    }
    return {**options, "folder": str(folder)}


def from_run_config(config: Mapping[str, Any]) -> RunSettings:
    given = {
        key.replace("-", "_"): value for key, value in config.items() if key not in OF_THE_SERVER
    }
    for name, one in RUN_OPTIONS.items():
        if name in given:
            given[name] = _parsed(one, given[name])
    return checked_settings(**given)


def asks_no_data(config: Mapping[str, Any]) -> bool:
    """Whether sites are told or asked something between runs, for which nothing is described."""
    return bool(config.get(ACCEPTED_RUN) or config.get(NEW_ROWS))


def run_config_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 of the run config as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(dict(config), sort_keys=True).encode()).hexdigest()


def _parsed(declared: Declared, value: Any) -> Any:
    """The value of an option; None if it is not given."""
    if declared.type == dict[str, str]:
        return dict(pair.split("=", 1) for pair in shlex.split(value))
    if declared.is_repeatable:
        return tuple(shlex.split(value)) or None
    is_optional = declared.default is None and declared.name not in APP_DEFAULTS
    return (value or None) if is_optional else value
