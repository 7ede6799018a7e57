"""The coordinator's ServerApp: creates or resumes a run's folder and runs the rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from logging import INFO, WARNING
from pathlib import Path

import torch
from flwr.app import Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp

from ramet.data.own.preparation import Preparation, agreed, distant_sums
from ramet.data.own.schema import Schema
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, RunSettings
from ramet.experiment.chain_parts import read_charter
from ramet.experiment.code import BUILT_IN
from ramet.experiment.continuing import check_same, check_sites
from ramet.experiment.executing import execute
from ramet.experiment.gate import ANY, judged
from ramet.experiment.start_from import Source
from ramet.flower.charters import begin, save_envelopes, sign_charter
from ramet.flower.file_drop import RUN_CONFIG, FileDrop, folders_of
from ramet.flower.new_rows import ask
from ramet.flower.patches import applied
from ramet.flower.releases import tell
from ramet.flower.run_config import from_run_config
from ramet.flower.signing import CoordinatorKey, Keyring
from ramet.flower.thin_app import ACCEPTED_RUN, NEW_ROWS
from ramet.flower.wire import CONNECT_TIMEOUT, GridWire
from ramet.metrics import Record
from ramet.options import allow_code

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Start the run that the run config describes, or resume it if its folder exists.

    If the run config names a run that counts, only tell or ask sites about it.
    """
    applied("quick-server-objects")
    if CoordinatorKey.of_this_process() is None:  # whoever started the run has named its code
        allow_code(*(context.run_config.get(kind) for kind in BUILT_IN), remember=False)
    settings = from_run_config(context.run_config)
    torch.set_num_threads(settings.threads)
    path = Path(str(context.run_config["folder"]) or f"runs/{context.run_id}").absolute()
    for key, exchange in {ACCEPTED_RUN: tell, NEW_ROWS: ask}.items():
        if _text(context, key):
            run, *sites = _text(context, key).split()
            exchange(_wire(grid, sites, settings.deadline, context), run, sites, path)
            return
    folder, is_new = RunFolder(path), not RunFolder(path).started
    if folder.started:
        check_same(folder, settings)
    if not folder.started or folder.summary() is None:
        experiment = Experiment(settings)
        wire = _wire(grid, experiment.clients, settings.deadline, context)
        schemas = _schemas(experiment, wire.sites.schema_texts)
        if folder.started:
            check_sites(folder, schemas)
        else:
            reported = _checked_complete(experiment, schemas, wire)
            agreement = _agreement(wire, Experiment(settings, reported, Preparation()))
            source = _source(settings, context)
            agreement = source.preparation(agreement) if source else agreement
            experiment = Experiment(settings, reported, agreement)
            folder = _created(path, experiment, wire, context, source)
        started = folder.experiment()
        wire.set_run(folder.run_name, started.raw_schemas, started.preparation)
        if folder.is_agreed:
            begin(wire, path, read_charter(path), settings.deadline, is_new)
        sends_start = bool(_text(context, "keys")) and settings.start_from is not None
        execute(folder, wire, _log_round, sends_start=sends_start)
        gate = _text(context, "gate")
        if gate and judged(folder, None if gate == ANY else float(gate)).accepted:
            tell(wire, folder.run_name, experiment.clients, path)
    log(INFO, "The run has ended: %s", path)


def _agreement(wire: GridWire, experiment: Experiment) -> Preparation:
    """How all sites prepare their columns; in a run with secure sums, from sums under masks."""
    told, settings = wire.sites.sums, experiment.settings
    if settings.secure and experiment.setting.user_defined and not settings.dp:
        from ramet.flower.masked_columns import summed_columns  # needs an extra

        return agreed(told, summed_columns(wire, experiment))
    for sentence in distant_sums(told):
        log(WARNING, "%s.", sentence)
    return agreed(told)


def _text(context: Context, key: str) -> str:
    return str(context.run_config.get(key) or "")


def _source(settings: RunSettings, context: Context) -> Source | None:
    """The run that this one starts from, if it does."""
    folder = _text(context, "from-folder")
    if not folder:
        return None
    source = Source.open(Path(folder))
    if source.label_for_sites != settings.start_from:
        raise RametError(f"{folder} is not the run {settings.start_from}. Start it again.")
    return source


def _created(
    path: Path, experiment: Experiment, wire: GridWire, context: Context, source: Source | None
) -> RunFolder:
    """The folder of a new run; in a consortium that verifies, once all sites have signed."""
    keys = _text(context, "keys")
    if not (experiment.settings.verified and keys):
        return RunFolder.create(path, experiment, source.write_start if source else None)
    wire.set_run("", experiment.raw_schemas, experiment.preparation)
    public = Keyring(Path(keys)).texts(experiment.clients)
    signed, envelopes = sign_charter(wire, experiment, public, experiment.settings.deadline)
    settings = experiment.settings.model_copy(update={"seed": signed.seed})
    agreed = Experiment(settings, experiment.reported, experiment.agreement)
    return RunFolder.create(
        path, agreed, lambda folder, _: save_envelopes(folder.path, envelopes), signed
    )


def _wire(grid: Grid, clients: Iterable[str], deadline: float, context: Context) -> GridWire:
    """The wire to clients, which have to sign their replies if the run names keys."""
    keys = _text(context, "keys")
    keyring = Keyring(Path(keys)) if keys else None
    # Without keys, the SuperNodes were started together with the run, and all of them will connect.
    patience = CONNECT_TIMEOUT if keyring else max(CONNECT_TIMEOUT, deadline)
    signer = CoordinatorKey.of_this_process()
    folders = folders_of(keyring.folder) if keyring else {}
    common = {RUN_CONFIG: json.dumps({**context.run_config}, sort_keys=True)} if folders else {}
    carrier = FileDrop(grid, folders) if folders else grid
    return GridWire(carrier, clients, deadline, patience, keyring, _names(keyring), signer, common)


def _schemas(experiment: Experiment, texts: Mapping[str, str]) -> dict[str, Schema]:
    """The schemas of the graphs of the connected sites."""
    unfit = [site for site in experiment.clients if texts.get(site) == ""]
    if unfit:
        raise RametError(
            f"the run cannot start: the data of {', '.join(unfit)} has problems. Run "
            "`ramet data check` there to list them."
        )
    return {site: Schema.parse(texts[site], site) for site in experiment.clients if site in texts}


def _names(keyring: Keyring | None) -> dict[int, str]:
    """Clients by Flower's node id; a consortium stores the ids next to its public keys."""
    files = keyring.folder.glob("*.node") if keyring else ()
    return {int(path.read_text()): path.stem for path in files}


def _checked_complete(
    experiment: Experiment, schemas: Mapping[str, Schema], wire: GridWire
) -> Mapping[str, Schema] | None:
    """Check that every site has sent the schema of its graphs; None for built-in datasets."""
    if not experiment.setting.user_defined:
        return None
    missing = [site for site in experiment.clients if site not in schemas]
    if missing:
        raise RametError(
            "the run cannot start, because not all sites' graphs could be compared. "
            f"{wire.sites.reasons(missing)}. Start the missing sites (`ramet deploy start` "
            "there), which `ramet deploy status` at the coordinator lists, or name fewer sites."
        )
    return schemas


def _log_round(record: Record) -> None:
    """Log a line that `flwr run` streams."""
    means = record.shown("test"), record.shown("val")
    log(INFO, "Round %s of %s: test %s, val %s", record.round, record.rounds, *means)
    for client, reason in record.failed.items():
        log(WARNING, "Round %s continued without %s: %s", record.round, client, reason)
