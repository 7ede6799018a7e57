"""Start a run with the models of another one.

The server starts with the other run's shared arrays, and each client with its own private ones. An
array is taken if it has the same name, shape and type; all others are drawn from the seed as usual.
Optimisers, extras and memory start empty. Columns that both runs have are prepared as in the other
run, so that features keep their meaning. Samples that both runs have stay in the same part of the
split, so that none is tested on which the other run was trained.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from ramet.data.own.kept_parts import Arrivals, KeptParts
from ramet.data.own.preparation import Preparation
from ramet.engine.check import same_form
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.start import START
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.engine.store.client_state import MODEL, model_arrays
from ramet.errors import RametError
from ramet.experiment.capabilities import chosen_by
from ramet.experiment.changed_data import has_changed
from ramet.experiment.compatibility import check_together
from ramet.experiment.experiment import Experiment
from ramet.experiment.run_folder import RunFolder
from ramet.experiment.run_models import start_model_of
from ramet.experiment.settings import RunSettings
from ramet.experiment.site_record import save_parts
from ramet.experiment.superseded import warn_if_superseded
from ramet.metrics import Summary
from ramet.payload import Array, Arrays, under

START_FILE = "start.json"
"""The file in a run's folder that says from which one it was started."""


@dataclass(frozen=True)
class Taken:
    """A run that was created from another one, and what was not taken from it."""

    folder: RunFolder
    fresh: dict[str, list[str]] = field(default_factory=dict)
    """Names of arrays that are drawn from the seed, by client; shared ones under ``server``."""
    samples: dict[str, Arrivals] = field(default_factory=dict)
    """By client: how many samples of its own data the other run knew."""
    unknown: list[str] = field(default_factory=list)
    """Clients of both runs of which it is not known what the other run was trained on."""

    def sentences(self) -> list[str]:
        """What may surprise."""
        other = "the run that this one starts from"
        return [
            *(
                f"{who} starts with new values of {len(names)} arrays, '{names[0]}' among them"
                for who, names in self.fresh.items()
                if names
            ),
            *(
                f"{one.moved:,} samples of {who} that are now for validation or test were trained "
                f"on in {other}: its own split says so"
                for who, one in self.samples.items()
                if one.moved
            ),
            *(
                f"samples that {who} now has for validation or test may have been trained on in "
                f"{other}, which had another split or did not record it"
                for who in self.unknown
            ),
        ]

    def notes(self) -> list[str]:
        """What is new, which is expected."""
        return [
            f"{who}: {one.new:,} new samples; {one.kept:,} known ones keep their part of the split"
            + (f", {one.known - one.kept:,} are in another" if one.kept < one.known else "")
            for who, one in self.samples.items()
        ]


def create_from(other: Path, path: Path, settings: RunSettings) -> Taken:
    """Create the folder of a run that starts with the models of the finished run in ``other``."""
    source = Source.open(other)
    warn_if_superseded(source.folder.path)
    settings = settings.model_copy(update={"start_from": source.label})
    check_together(chosen_by(settings))
    agreement = source.preparation(Experiment(settings).preparation)
    taken = Taken(RunFolder(path))

    def write_start(folder: RunFolder, experiment: Experiment) -> None:
        taken.fresh.update(_write_start(source, folder, experiment))
        for client in experiment.clients:
            _keep_parts(source, folder, experiment, client, taken)
        samples = {client: asdict(one) for client, one in taken.samples.items()}
        folder.write(START_FILE, {**source.provenance, "fresh": taken.fresh, "samples": samples})

    kept_in = source.folder.clients
    experiment = Experiment(settings, None, agreement, kept_in)
    RunFolder.create(path, experiment, before_start=write_start)
    return taken


def _write_start(source: Source, folder: RunFolder, experiment: Experiment) -> dict[str, list[str]]:
    """Write the states before round 1; return the names of the arrays that are new."""
    drawn = experiment.sizes.shared_start()
    shared, new = source.write_shared(folder, experiment)
    fresh = {"server": new}
    for client in experiment.clients:
        own = model_arrays(start_model_of(experiment, client))
        private = {name: array for name, array in own.items() if name not in drawn}
        taken, fresh[client] = _replaced(private, source.arrays_of(client))
        arrays = {MODEL + name: array for name, array in {**own, **shared, **taken}.items()}
        Snapshots(folder.clients / client).save(Snapshot(0, arrays))
    return fresh


def _keep_parts(
    source: Source, folder: RunFolder, experiment: Experiment, client: str, taken: Taken
) -> None:
    """Write down what is known of a client's samples after this run, and what was known before."""
    if not experiment.setting.user_defined:
        if source.has_other_split(client, experiment):
            taken.unknown.append(client)
        return
    known, now = experiment.kept_parts(client), experiment.sample_parts(client)
    before = known or KeptParts()
    save_parts(folder.clients / client, before.followed_by(now))
    if known is not None:
        taken.samples[client] = Arrivals.between(known, now)
    elif client in source.clients:
        taken.unknown.append(client)


def _replaced(drawn: Arrays, other: Arrays) -> tuple[dict[str, Array], list[str]]:
    """The arrays with the values of others that fit, and the names of those without."""
    fitting = {n: other[n] for n in drawn if n in other and same_form(other[n], drawn[n])}
    return {**drawn, **fitting}, [name for name in drawn if name not in fitting]


@dataclass(frozen=True)
class Source:
    """The run whose models are taken."""

    folder: RunFolder

    @staticmethod
    def open(path: Path) -> Source:
        return Source(RunFolder.open(path.absolute()))

    def write_start(self, folder: RunFolder, experiment: Experiment) -> None:
        """Write what a coordinator has of the state before round 1; sites have the rest."""
        _, new = self.write_shared(folder, experiment)
        folder.write(START_FILE, {**self.provenance, "fresh": {"server": new}, "samples": {}})

    def write_shared(
        self, folder: RunFolder, experiment: Experiment
    ) -> tuple[dict[str, Array], list[str]]:
        """Write the shared arrays before round 1; return them, and the names of those drawn."""
        shared, new = _replaced(experiment.sizes.shared_start(), self.shared)
        Snapshots(folder.path / "server" / START).save(Snapshot(0, shared))
        return shared, new

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
    def label_for_sites(self) -> str:
        """The run by the name that sites know it by."""
        return f"{self.folder.run_name}@{self.summary.sha256}"

    @property
    def provenance(self) -> dict[str, str]:
        """What is stored about the run."""
        return {
            "run": self.folder.run_name,
            "sha256": self.summary.sha256,
            "folder": self.folder.path.name,
            "command": self._experiment.settings.command,
        }

    @property
    def clients(self) -> tuple[str, ...]:
        return self._experiment.clients

    def has_other_split(self, client: str, experiment: Experiment) -> bool:
        """Whether a client of the same setting had other samples, or the same in other parts."""
        same_setting = self._experiment.settings.setting == experiment.settings.setting
        return same_setting and has_changed(self.folder, client, experiment)

    @cached_property
    def shared(self) -> Arrays:
        """The shared arrays that a new client would have."""
        sizes, saved = self._experiment.sizes, Snapshots(self.folder.path / "server").latest_valid()
        if saved is None:
            return {}
        rules = ServerRules(self._experiment.method, sizes.shared_start(), sizes.start_extras())
        return rules.new_client(RunState.restored(saved)[MERGING])

    def arrays_of(self, client: str) -> Arrays:
        """The arrays of a client's model, with the last merge; of an unknown client the merge."""
        saved = Snapshots(self.folder.clients / client).latest_valid()
        return {**(under(MODEL, saved.arrays) if saved else {}), **self.shared}

    def preparation(self, new: Preparation) -> Preparation:
        """A preparation of new data that is the same for columns that this run had too.

        So is the metric, if this run had one for rare classes.
        """
        earlier = self._experiment.preparation if self._experiment.raw_schemas else Preparation()
        known = earlier.types
        return Preparation(
            metric=earlier.metric or new.metric,
            types={
                node_type: {
                    name: old
                    if (old := known.get(node_type, {}).get(name))
                    and (old.kind, old.marked) == (column.kind, column.marked)
                    else column
                    for name, column in columns.items()
                }
                for node_type, columns in new.types.items()
            },
        )

    @cached_property
    def _experiment(self) -> Experiment:
        return self.folder.experiment()
