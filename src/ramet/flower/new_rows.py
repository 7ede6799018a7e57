"""Ask sites whether they have new rows: each answers yes or no, if its policy lets it.

The site decides what it compares with, so that a coordinator cannot ask about one run after
another: the run that counts at the site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ramet.data.own.kept_parts import Arrivals
from ramet.data.own.preparation import Preparation
from ramet.engine.site.audit import INTRODUCTIONS, AuditLog
from ramet.engine.site.audit import NAME as AUDIT
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.accepted import accepted_run
from ramet.experiment.files import write_json
from ramet.experiment.site_record import load_parts
from ramet.experiment.start_at_site import earlier_state
from ramet.flower.signing import INTRODUCTION
from ramet.flower.thin_app import NEW_ROWS
from ramet.flower.wire import GridWire
from ramet.payload import Payload
from ramet.policy import Policy, PolicyError

ANSWERS = "new-rows.json"
"""The file in the folder of the run that counts with the sites' answers."""
YES, NO = "yes", "no"


def ask(wire: GridWire, run: str, sites: Sequence[str], folder: Path) -> None:
    """Ask the sites, and write what each has answered, or why it has not."""
    wire.set_run(run, {}, Preparation())
    question = Payload({}, {"round": INTRODUCTION}, {NEW_ROWS: run})
    told = {
        site: answer if isinstance(answer, str) else answer.notes.get(NEW_ROWS, NO)
        for site, answer in wire.exchange((site, question) for site in sites)
    }
    write_json(folder / ANSWERS, told)


def answer(
    experiment: Experiment, site: str, state: Path, audit: AuditLog, policy: Policy
) -> Payload:
    """At the site: whether there are as many new rows as the policy asks for."""
    if policy.new_rows is None:
        raise PolicyError(
            "`new_rows`: this site does not tell whether it has new rows. Its owner can set "
            "`new_rows` in policy.toml."
        )
    if experiment.settings.secure or experiment.settings.dp:
        raise RametError(
            "the answer whether there are new rows would leave without secure sums and noise."
        )
    is_new = _count(experiment, site, state) >= policy.new_rows
    reply = Payload(notes={"client": site, NEW_ROWS: YES if is_new else NO})
    word = "at least" if is_new else "fewer than"
    log = replace(audit, path=state / INTRODUCTIONS / AUDIT)
    log.add(INTRODUCTION, reply, "new rows", (f"new rows: {word} {policy.new_rows}",))
    return reply


def _count(experiment: Experiment, site: str, state: Path) -> int:
    """The samples that neither the run that counts here nor those before it had."""
    as_they_are = replace(experiment.reading, preparation=None)
    now = experiment.setting.sample_parts(site, as_they_are)
    before = earlier_state(state / "clients", site, accepted_run(state) or "")
    known = load_parts(before) if before else None
    return len(now.part_of) if known is None else Arrivals.between(known, now).new
