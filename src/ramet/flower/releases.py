"""Tell sites which run counts: the one whose model they are to use.

Nothing of a site's data is asked for. A site refuses a run of which it has no final model.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import INFO
from pathlib import Path

from ramet.data.own.preparation import Preparation
from ramet.engine.site.kept_models import has_final_model
from ramet.errors import RametError
from ramet.events import log_event
from ramet.experiment.accepted import keep_accepted
from ramet.experiment.files import write_json
from ramet.flower.signing import INTRODUCTION
from ramet.flower.wire import GridWire
from ramet.payload import Payload

RELEASE = "release"
"""The note of a message with the name of the run that counts."""
TOLD = "told.json"
"""The file in the run's folder with the sites' answers."""


def tell(wire: GridWire, run: str, sites: Sequence[str], folder: Path) -> None:
    """Tell the sites, and write what each has answered: nothing if it uses the run now."""
    wire.set_run(run, {}, Preparation())
    message = Payload({}, {"round": INTRODUCTION}, {RELEASE: run})
    answers = wire.exchange((site, message) for site in sites)
    told = {site: answer if isinstance(answer, str) else "" for site, answer in answers}
    write_json(folder / TOLD, told)


def use(run: str, site: str, state: Path, states: Path) -> Payload:
    """At the site: use this run from now on."""
    if not has_final_model(states / site):
        raise RametError(f"{site} has no final model of the run {run}.")
    keep_accepted(state, run)
    log_event(INFO, "run accepted", run=run)
    return Payload(notes={"client": site, RELEASE: run})
