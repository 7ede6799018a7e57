"""Attack a finished run with what its participants see, and say how far one gets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from ramet.data.own.schema import level_of
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.continuing import check_split
from ramet.leak.attacked import Attacked, Effort, FinishedRun
from ramet.leak.attacks import ATTACKS, Attack
from ramet.leak.control import Leaking, Plant
from ramet.leak.findings import Audit, Finding, View


def audit(run: RunFolder, effort: Effort = Effort()) -> Audit:  # noqa: B008 (frozen)
    """Attack the finished run in a folder. The folder itself is not changed."""
    summary = run.summary()
    if summary is None:
        raise RametError(
            f"the run in {run.path} is not finished. Finish it with `ramet resume {run.path}`."
        )
    if effort.references == 1:
        raise RametError("likelihood ratios need at least 2 shadow runs, or 0 for none.")
    experiment = run.experiment()
    _check_data(run, experiment)
    with tempfile.TemporaryDirectory(prefix="ramet-leak-") as scratch:
        attacked = FinishedRun(run, Path(scratch), effort)
        found = tuple(_findings(attacked, experiment.settings.secure))
    settings = experiment.public_settings()
    facts = {
        "seed": effort.seed,
        "references": effort.references,
        "canaries": effort.canaries,
        "clients": len(experiment.clients),
        "test": round(summary.scores.test, 4),
    }
    return Audit(settings.command, summary.sha256, protection(experiment), found, facts)


def protection(experiment: Experiment) -> str:
    """What protected the replies of a run."""
    settings = experiment.settings
    parts = ["secure sum"] if settings.secure else []
    if settings.dp:
        parts.append(f"DP {settings.dp}")
    if settings.verified:
        parts.append("verified rounds")
    return " and ".join(parts) or "none"


def _check_data(run: RunFolder, experiment: Experiment) -> None:
    away = [
        client
        for client in experiment.clients
        if experiment.setting.data_of(client, experiment.settings.data) is None
    ]
    if away:
        raise RametError(
            f"the data of {', '.join(away)} is not on this machine, so what leaks about it cannot "
            "be measured. Audit a simulation: the same command with each site's file, or a run on "
            "similar public data."
        )
    if level_of(experiment.method.task.name) in ("link", "edge"):
        raise RametError(
            "`ramet leak` audits tasks for graphs and for nodes, but this run's is "
            f"{experiment.method.task.name}."
        )
    check_split(run)


def _findings(run: Attacked, secure: bool) -> Iterator[Finding]:
    leaking = cache(lambda plant: Leaking(run, plant))
    for attack in ATTACKS:
        for view in attack.views:
            seen: View = "sums" if secure and view == "replies" else view
            yield from _judged(attack, run, seen, leaking)


def _judged(
    attack: Attack, run: Attacked, view: View, leaking: Callable[[Plant], Attacked]
) -> list[Finding]:
    """What an attack finds; if that is nothing, with what it finds where there is something."""
    found = attack.find(run, view)
    if all(one.value is None or one.leaks for one in found):
        return found
    known = attack.find(leaking(attack.control), view)
    return [
        replace(one, control=other.value, has_power=one.leaks or other.leaks)
        for one, other in zip(found, known, strict=True)
    ]
