"""Start a run with the models of another one.

The server starts with the other run's shared arrays, and each client with its own private ones. An
array is taken if it has the same name, shape and type; all others are drawn from the seed as usual.
Optimisers, extras and memory start empty. Columns that both runs have are prepared as in the other
run, so that features keep their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ramet.data.own import Preparation
from ramet.engine import Snapshot, Snapshots
from ramet.engine.check import same_form
from ramet.engine.run_state import RunState
from ramet.engine.server_rules import ServerRules
from ramet.engine.start import START
from ramet.engine.state import MODEL, model_arrays
from ramet.errors import RametError
from ramet.experiment.checks import check_start
from ramet.experiment.experiment import Experiment
from ramet.experiment.run_folder import RunFolder
from ramet.experiment.settings import RunSettings
from ramet.metrics import Summary
from ramet.payload import Array, Arrays, under

_FILE = "start.json"


@dataclass(frozen=True)
class Taken:
    """A run that was created from another one, and the arrays that were not taken from it."""

    folder: RunFolder
    fresh: dict[str, list[str]] = field(default_factory=dict)
    """Names of arrays that are drawn from the seed, by client; shared ones under ``server``."""

    def sentences(self) -> list[str]:
        return [
            f"{who} starts with new values of {len(names)} arrays, '{names[0]}' among them"
            for who, names in self.fresh.items()
            if names
        ]


def create_from(other: Path, path: Path, settings: RunSettings) -> Taken:
    """Create the folder of a run that starts with the models of the finished run in ``other``."""
    source = _Source(RunFolder.open(other.absolute()))
    settings = settings.model_copy(update={"start_from": source.label})
    check_start(settings)
    agreement = source.preparation(Experiment(settings).preparation)
    fresh: dict[str, list[str]] = {}

    def write_start(folder: RunFolder, experiment: Experiment) -> None:
        fresh.update(_write_start(source, folder, experiment))
        folder.write(_FILE, {**source.provenance, "fresh": fresh})

    folder = RunFolder.create(path, settings, agreement=agreement, before_start=write_start)
    return Taken(folder, fresh)


def _write_start(
    source: _Source, folder: RunFolder, experiment: Experiment
) -> dict[str, list[str]]:
    """Write the states before round 1; return the names of the arrays that are new."""
    drawn = experiment.sizes.shared_start()
    shared, new = _replaced(drawn, source.shared)
    Snapshots(folder.path / "server" / START).save(Snapshot(0, shared))
    fresh = {"server": new}
    for client in experiment.clients:
        own = model_arrays(experiment.start_model(client))
        private = {name: array for name, array in own.items() if name not in drawn}
        taken, fresh[client] = _replaced(private, source.arrays_of(client))
        arrays = {MODEL + name: array for name, array in {**own, **shared, **taken}.items()}
        Snapshots(folder.clients / client).save(Snapshot(0, arrays))
    return fresh


def _replaced(drawn: Arrays, other: Arrays) -> tuple[dict[str, Array], list[str]]:
    """The arrays with the values of others that fit, and the names of those without."""
    fitting = {n: other[n] for n in drawn if n in other and same_form(other[n], drawn[n])}
    return {**drawn, **fitting}, [name for name in drawn if name not in fitting]


@dataclass(frozen=True)
class _Source:
    """The run whose models are taken."""

    folder: RunFolder

    @cached_property
    def summary(self) -> Summary:
        summary = self.folder.summary()
        if summary is None:
            raise RametError(
                f"{self.folder.path} is not finished. Finish it with `ramet resume "
                f"{self.folder.path}`, then start from it."
            )
        return summary

    @property
    def label(self) -> str:
        return f"{self.folder.path.name}@{self.summary.sha256}"

    @property
    def provenance(self) -> dict[str, str]:
        """What is stored about the run."""
        return {
            "run": self.folder.run_name,
            "sha256": self.summary.sha256,
            "folder": self.folder.path.name,
            "command": self._experiment.settings.command,
        }

    @cached_property
    def shared(self) -> Arrays:
        """The shared arrays that a new client would have."""
        sizes, saved = self._experiment.sizes, Snapshots(self.folder.path / "server").latest_valid()
        if saved is None:
            return {}
        rules = ServerRules(self._experiment.method, sizes.shared_start(), sizes.start_extras())
        return rules.new_client(RunState.restored(saved).merging)

    def arrays_of(self, client: str) -> Arrays:
        """The arrays of a client's model, with the last merge; of an unknown client the merge."""
        saved = Snapshots(self.folder.clients / client).latest_valid()
        return {**(under(MODEL, saved.arrays) if saved else {}), **self.shared}

    def preparation(self, new: Preparation) -> Preparation:
        """A preparation of new data that is the same for columns that this run had too."""
        known = self._experiment.preparation.types if self._experiment.raw_schemas else {}
        return Preparation(
            types={
                node_type: {
                    name: old
                    if (old := known.get(node_type, {}).get(name))
                    and (old.kind, old.marked) == (column.kind, column.marked)
                    else column
                    for name, column in columns.items()
                }
                for node_type, columns in new.types.items()
            }
        )

    @cached_property
    def _experiment(self) -> Experiment:
        return self.folder.experiment()
