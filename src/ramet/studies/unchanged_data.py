"""Whether the data on this machine is still that of runs which were done before."""

from __future__ import annotations

from collections.abc import Iterable

from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.changed_data import changed_clients
from ramet.experiment.run_facts import DATA, hash_of_all
from ramet.partition.own import OwnSetting
from ramet.studies.finished_run import FinishedRun
from ramet.studies.sweep import Sweep


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
        changed = changed_clients(folder, self.hashes(folder.experiment()))
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


def check_data(sweep: Sweep, folders: Iterable[RunFolder] | None = None) -> None:
    """Raise an error if data has changed since a run started, or if all splits are the same.

    Args:
        sweep: the runs that are about to be started or continued.
        folders: runs that have started; default: those of the sweep.
    """
    current = CurrentData()
    started = (folder for pair in sweep.pairs() if (folder := sweep.run_folder(*pair)).started)
    for folder in started if folders is None else folders:
        current.check(folder)
    first = sweep.experiment(sweep.methods[0])
    if not first.setting.user_defined:
        return  # kept runs do without built-in data, which is always split by the seed
    for method, draw in sweep.pairs():
        kept = sweep.kept_run(method, draw)
        if kept is not None:
            current.check_kept(kept, Experiment(sweep.settings(method, draw)))
    if sweep.splits > 1 and sites_with_own_split(sweep) == [*first.clients]:
        raise RametError(
            f"every site gives its own split, so --splits {sweep.splits} would repeat the same "
            "runs. Leave out --splits; more --seeds show how much training varies."
        )


def sites_with_own_split(sweep: Sweep) -> list[str]:
    """The sites whose files give the split, so that it is the same for every split seed."""
    first = sweep.experiment(sweep.methods[0])
    setting, data = first.setting, first.settings.data
    if not isinstance(setting, OwnSetting):
        return []
    return [site for site in setting.clients if setting.gives_split(site, data)]
