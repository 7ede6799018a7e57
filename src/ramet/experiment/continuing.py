"""Continue a run: with the settings and the data that it started with, or with more rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ramet.data.own.schema import Schema
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment.changed_data import has_changed
from ramet.experiment.code import check_code
from ramet.experiment.experiment import Experiment
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import DATA_SHA256, SPLIT, manifest
from ramet.experiment.run_folder import RunFolder
from ramet.experiment.settings import RunSettings


def check_same(folder: RunFolder, settings: RunSettings) -> None:
    """Refuse to continue a run with other settings."""
    existing = folder.experiment()
    check_code(existing.settings, folder.path)
    stored, given = (
        experiment.public_settings().model_dump(exclude={"code"})
        for experiment in (existing, Experiment(settings))
    )
    if folder.is_agreed:  # the sites have agreed on the seed
        given["seed"] = stored["seed"]
    changes = [
        f"{key}={given[key]} instead of {stored[key]}"
        for key in stored
        if stored[key] != given[key]
    ]
    if changes:
        raise RametError(
            f"{folder.path} holds a run with other settings ({'; '.join(changes)}). Choose "
            "another folder with --out."
        )


def check_sites(folder: RunFolder, reported: Mapping[str, Schema]) -> None:
    """Check that the sites still have the schemas that the run started with."""
    initial = folder.experiment().raw_schemas
    for site, schema in reported.items():
        if site in initial and not schema.fits(initial[site]):
            raise RametError(
                f"the schema of {site} has changed since the run started. Restore its TOML "
                "and its data, or start a new run in another folder."
            )


def check_split(folder: RunFolder) -> None:
    """Check that the data and their split are those that the run started with."""
    experiment, stored = folder.experiment(), read_json(folder.path / SPLIT)
    check_code(experiment.settings, folder.path)
    changed = [
        client for client in experiment.final_clients if has_changed(folder, client, experiment)
    ]
    if changed:
        raise RametError(
            f"the data of {', '.join(changed)} has changed since the run started. Restore it, "
            f"or start a new run; `--from {folder.path}` starts it with this run's models."
        )
    current = json.loads(json.dumps(manifest(experiment)))
    for client, facts in current["clients"].items():
        if DATA_SHA256 not in stored["clients"].get(client, {}):  # older runs
            facts.pop(DATA_SHA256, None)
    if stored != current:
        raise RametError(
            f"the data no longer give the split of {folder.path / SPLIT}. Restore the "
            "data that the run started with, or start a new run."
        )


def continue_with(folder: RunFolder, settings: RunSettings) -> None:
    """Check that the run has these settings, and extend it if they have more rounds."""
    planned = folder.experiment().settings.rounds
    check_same(folder, settings.model_copy(update={"rounds": min(planned, settings.rounds)}))
    if settings.rounds > planned:
        extend(folder, settings.rounds)


def extend(folder: RunFolder, rounds: int) -> None:
    """Set the total number of rounds, which must be at least those that are done."""
    with folder.locked("run"):
        experiment, summary = folder.experiment(), folder.summary()
        planned, done = experiment.settings.rounds, _committed(folder, experiment)
        budget = experiment.settings.budget
        if experiment.settings.verified and rounds != planned:
            raise RametError(
                f"the charter of the run in {folder.path} says {planned} rounds, so it cannot have "
                "another number. Start a new run."
            )
        if budget is not None and budget.unit != "link" and rounds != planned:
            raise RametError(
                f"the noise of the run in {folder.path} was chosen for {planned} rounds, so it "
                "cannot have another number. Start a new run; what it spends adds up."
            )
        if summary is not None and experiment.settings.secure and rounds != planned:
            raise RametError(
                f"the run in {folder.path} is closed by its last secure sum, so it has no more "
                "rounds. Start a new run from its models with --from."
            )
        if summary is not None and summary.stopped_early:
            raise RametError(
                f"the run in {folder.path} stopped early after round {done}, so it has no more "
                "rounds. Start a new run without --patience, or from its models with --from."
            )
        if rounds < done:
            raise RametError(
                f"the run in {folder.path} has done {done} rounds already, so it cannot end "
                f"after {rounds}. Give a larger number with --rounds."
            )
        if rounds != planned:
            folder.save_settings(experiment.settings.model_copy(update={"rounds": rounds}))


def _committed(folder: RunFolder, experiment: Experiment) -> int:
    """The number of rounds of which the server has a snapshot."""
    steps = Snapshots(folder.path / "server").steps()
    return steps[-1] // (len(experiment.method.stages) + 1) if steps else 0
