"""Hashes of what the clients of a run agree on, besides their data."""

from __future__ import annotations

import hashlib
import json

from ramet.experiment.experiment import Experiment
from ramet.run_options import RUN_OPTIONS

_AGREED = {name for name, one in RUN_OPTIONS.items() if one.option.concerns_clients}
"""The settings that the members of a secure sum must have in common."""


def agreed_digest(experiment: Experiment) -> str:
    """SHA-256 of everything that decides what a client sends, besides its data."""
    return _digest(experiment, _AGREED)


def terms_digest(experiment: Experiment) -> str:
    """SHA-256 of what may not change in a run, also if it gets more rounds."""
    return _digest(experiment, _AGREED - {"rounds"} | {"secure"})


def _digest(experiment: Experiment, names: set[str]) -> str:
    settings = experiment.public_settings().model_dump(mode="json", include=names)
    settings["options"].pop("task", None)  # decided by the method; not all sites know it
    is_prepared = experiment.setting.user_defined
    prepared = experiment.preparation.model_dump(mode="json") if is_prepared else {}
    text = json.dumps([settings, prepared], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
