"""Whether clients still have the data that a run started with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from ramet.errors import RametError, RametWarning
from ramet.experiment.experiment import Experiment
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import DATA_SHA256, SPLIT
from ramet.experiment.run_folder import RunFolder


def check_data(folder: RunFolder, client: str, experiment: Experiment) -> None:
    """Warn if a client's data on this machine have changed since the run started.

    The warning points to the caller of the function that calls this one.
    """
    try:
        changed = has_changed(folder, client, experiment)
    except RametError as error:
        text = f"the data of {client} cannot be compared with those of the run: {error}"
        warnings.warn(text, RametWarning, stacklevel=3)
        return
    if changed:
        text = (
            f"the data of {client} has changed since the run in {folder.path} started, so rows "
            "that it was trained on may be among those that are evaluated."
        )
        warnings.warn(text, RametWarning, stacklevel=3)


def has_changed(folder: RunFolder, client: str, experiment: Experiment) -> bool:
    """Whether a client's data differ from the hash in the run's folder, if there is one."""
    return bool(changed_clients(folder, {client: experiment.data_sha256(client)}))


def changed_clients(folder: RunFolder, current: Mapping[str, str | None]) -> list[str]:
    """The clients whose data differ from the hash in the run's folder, if both are known."""
    clients = read_json(folder.path / SPLIT)["clients"]
    stored = {client: clients.get(client, {}).get(DATA_SHA256) for client in current}
    return [
        client
        for client, sha256 in current.items()
        if None not in (sha256, stored[client]) and sha256 != stored[client]
    ]
