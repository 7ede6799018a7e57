"""Start a site's part of a consortium's run with what the site has of an earlier run.

The coordinator sends the shared arrays in round 1. The private ones are at the site, as are the
parts of its samples: those of the run that the coordinator names or, if the site took no part in
it, of the site's last run. So no sample is tested on which an earlier run was trained.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ramet.data.own.kept_parts import KeptParts
from ramet.engine.check import same_form
from ramet.engine.start import start_model
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.engine.store.client_state import MODEL, model_arrays
from ramet.experiment.experiment import Experiment
from ramet.experiment.site_record import save_parts
from ramet.payload import Arrays, under


def start_at_site(experiment: Experiment, site: str, states: Path) -> None:
    """Write the site's state before round 1, unless the run has begun here.

    Args:
        experiment: the run.
        site: the site's name.
        states: the folder of the run among those of the site's runs.
    """
    state, label = states / site, experiment.settings.start_from
    if label is None or Snapshots(state).steps():
        return
    before = earlier_state(states.parent, site, label.partition("@")[0])
    now = replace(experiment, kept_in=before and before.parent)
    if experiment.setting.user_defined:
        known = now.kept_parts(site) or KeptParts()
        save_parts(state, known.followed_by(now.sample_parts(site)))
    method, shape = now.method, now.method.task.shape(now.samples(site))
    own = model_arrays(start_model(method, shape, now.settings.seed, site))
    arrays = {**own, **_fitting(own, before)}
    Snapshots(state).save(Snapshot(0, {MODEL + name: one for name, one in arrays.items()}))


def earlier_state(runs: Path, site: str, named: str) -> Path | None:
    """The site's state in the run with this name, or else in the one in which it trained last."""
    of_runs = [state for state in runs.glob(f"*/{site}") if Snapshots(state).steps()]
    last = max(of_runs, key=lambda state: state.stat().st_mtime, default=None)
    return next((state for state in of_runs if state.parent.name == named), last)


def _fitting(own: Arrays, before: Path | None) -> Arrays:
    """The arrays of the earlier model that have the same name and form."""
    saved = Snapshots(before).latest_valid() if before else None
    earlier = under(MODEL, saved.arrays) if saved else {}
    return {n: one for n, one in earlier.items() if n in own and same_form(own[n], one)}
