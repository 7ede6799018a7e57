"""Whether the data on this machine is still that of runs which were done before."""

from __future__ import annotations

from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.run_folder import DATA, hash_of_all
from ramet.studies.finished_run import FinishedRun


class CurrentData:
    """Hashes of the data on this machine, computed once for all runs that use the same."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str | None]] = {}

    def hashes(self, experiment: Experiment) -> dict[str, str | None]:
        """By client; None for one whose data is on another machine."""
        prepared = experiment.preparation if experiment.setting.user_defined else None
        settings = experiment.settings
        key = repr((experiment.setting, settings.data, settings.split_seed, prepared))
        known = self._known.setdefault(key, {})
        for client in experiment.final_clients:
            if client not in known:
                known[client] = experiment.data_sha256(client)
        return {client: known[client] for client in experiment.final_clients}

    def check(self, folder: RunFolder) -> None:
        """Raise an error that names the clients whose data has changed since the run started."""
        changed = folder.changed_clients(self.hashes(folder.experiment()))
        if changed:
            raise RametError(
                f"the data of {', '.join(changed)} has changed since the run in {folder.path} "
                "started, so its result is of other data. Choose another folder with --out, or "
                "restore the data."
            )

    def check_kept(self, run: FinishedRun, experiment: Experiment) -> None:
        """Raise an error if the data has changed since a kept run."""
        stored, current = run.versions.get(DATA), hash_of_all(self.hashes(experiment))
        if stored is not None and current not in (None, stored):
            raise RametError(
                f"the data has changed since the kept result of {run.label}, seed {run.seed}, of "
                f"{run.date}. Give another folder with --keep, or restore the data."
            )
