"""Hashes of what the clients of a run agree on, besides their data."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ramet.experiment.experiment import Experiment
from ramet.run_options import RUN_OPTIONS
from ramet.version import __version__

_AGREED = {name for name, one in RUN_OPTIONS.items() if one.option.concerns_clients}
"""The settings that the members of a secure sum must have in common."""


def agreed_digest(experiment: Experiment) -> str:
    """SHA-256 of everything that decides what a client sends, besides its data."""
    return _digest(experiment, _AGREED)


def terms_digest(experiment: Experiment) -> str:
    """SHA-256 of what may not change in a run, also if it gets more rounds."""
    return _digest(experiment, _AGREED - {"rounds"} | {"secure"})


def agreed_facts(experiment: Experiment) -> dict[str, Any]:
    """Everything that all sites agree on, as JSON values: what a charter says of a run."""
    settings, prepared = _facts(
        experiment, _AGREED | {"secure", "quorum", "patience", "norm_bound"}
    )
    return {"settings": settings, "preparation": prepared, "version": __version__}


def _digest(experiment: Experiment, names: set[str]) -> str:
    text = json.dumps([*_facts(experiment, names)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _facts(experiment: Experiment, names: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = experiment.public_settings().model_dump(mode="json", include=names)
    settings["options"].pop("task", None)  # decided by the method; not all sites know it
    is_prepared = experiment.setting.user_defined
    prepared = experiment.preparation.model_dump(mode="json") if is_prepared else {}
    return settings, prepared
