"""The coordinator's side of Flower: the run's folder and rounds, over the grid."""

from __future__ import annotations

from collections.abc import Mapping
from logging import INFO, WARNING
from pathlib import Path

import torch
from flwr.app import Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from ramet.data.own import Schema
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.flower.records import from_run_config
from ramet.flower.signing import Keyring
from ramet.flower.wire import GridWire
from ramet.metrics import Record

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Start the run named in the run config, or go on with it if its folder holds it already."""
    settings = from_run_config(context.run_config)
    torch.set_num_threads(settings.threads)
    path = Path(str(context.run_config["folder"]) or f"runs/{context.run_id}").absolute()
    folder = RunFolder(path)
    if folder.started:
        folder.check_same(settings)
    if not folder.started or folder.summary() is None:
        experiment = Experiment(settings)
        keys = str(context.run_config.get("keys") or "")
        keyring = Keyring(Path(keys)) if keys else None
        wire = GridWire(
            grid, experiment.clients, settings.deadline, keyring=keyring, names=_names(keyring)
        )
        told = _forms(experiment, wire.forms)
        if folder.started:
            folder.check_sites(told)
        else:
            folder = RunFolder.create(path, settings, _all(experiment, told, wire))
        wire.begin(folder.run_name, folder.experiment().schemas)
        folder.execute(wire, _tell_round)
    log(INFO, "The run is done: %s", path)


def _forms(experiment: Experiment, said: Mapping[str, str]) -> dict[str, Schema]:
    """The form of each site's own graphs, as far as sites are there."""
    unfit = [site for site in experiment.clients if said.get(site) == ""]
    if unfit:
        raise RametError(
            f"the run does not start: the data of {', '.join(unfit)} have problems. There, "
            "`ramet data check` tells them all."
        )
    return {site: Schema.parse(said[site], site) for site in experiment.clients if site in said}


def _names(keyring: Keyring | None) -> dict[int, str]:
    """Beside a consortium's public keys lie Flower's numbers for them."""
    numbers = keyring.folder.glob("*.node") if keyring else ()
    return {int(path.read_text()): path.stem for path in numbers}


def _all(
    experiment: Experiment, told: Mapping[str, Schema], wire: GridWire
) -> Mapping[str, Schema] | None:
    """Before the first round every site must have told the form of its graphs."""
    if not experiment.setting.user_defined:
        return None
    silent = [site for site in experiment.clients if site not in told]
    if silent:
        raise RametError(
            "the run does not start, since not all sites' graphs could be compared. "
            f"{wire.reasons(silent)}. See `ramet deploy status` there, start the SuperNodes that "
            "are missing, or name fewer sites."
        )
    return told


def _tell_round(record: Record) -> None:
    """A line in the stream of `flwr run`."""
    means = 100 * record.mean("test"), 100 * record.mean("val")
    log(INFO, "Round %s of %s: test %.2f %%, val %.2f %%", record.round, record.rounds, *means)
    for client, reason in record.failed.items():
        log(WARNING, "Round %s went on without %s: %s", record.round, client, reason)
