"""What a site would refuse of a run, and why, before the run starts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from ramet.data.own.preparation import Preparation
from ramet.deploy.consortium import Consortium, Invitation, read, site_options
from ramet.deploy.probes import Check
from ramet.deploy.site import STATE, Site
from ramet.engine.site.answered import NAME as ANSWERED
from ramet.engine.site.answered import answered_totals
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.ledger import Ledger
from ramet.engine.start import start_extras, start_shared
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, RunSettings, checked_settings
from ramet.flower.permission import permitted_settings, site_limit
from ramet.flower.run_config import to_run_config
from ramet.flower.terms import AgreedRun
from ramet.policy import Ceiling, Policy, Totals, training_samples
from ramet.rules.method import AssembledMethod
from ramet.tasks import Shape

_EDIT = "Edit policy.toml, or ask the coordinator for another run."


def check_run(run: Path, site: Site) -> Iterator[Check]:
    """Check a run against the site's settings and its policy; data is read only to count samples.

    Args:
        run: the folder of a run, a consortium's settings, or an invitation.
        site: the site whose policy is checked.
    """
    settings, complete = run_settings(run, site)
    terms, policy = site.settings.terms, site.policy
    try:
        config = {**to_run_config(settings, Path("runs")), "keys": ""}
        settings = permitted_settings(config, terms)
    except RametError as error:
        yield Check("site.toml", False, str(error), "Edit [allow] in site.toml.")
    else:
        yield Check("site.toml", True, "allows the run")
    experiment = Experiment(settings)
    members = len(experiment.clients) if complete else policy.members or 1
    method, code, secure = settings.method, settings.code, settings.secure
    refused = dict(policy.refusals(method, code, members, secure, settings.budget))
    for key, detail in _agreed(policy, members if complete else None).items():
        yield Check(key, key not in refused, refused.get(key, detail), _EDIT)
    if policy.privacy is not None and "privacy" not in refused:
        detail = f"{spent_privacy(site, policy.privacy)} of {policy.privacy}"
        yield Check("privacy spent so far", True, detail, _EDIT)
    yield from _totals(settings.rounds, site)
    yield _sharing(experiment, site)
    yield from _sizes(experiment, site)


def spent_privacy(site: Site, ceiling: Ceiling) -> str:
    """What the site's runs have spent, by its ledger."""
    ledger = Ledger(site.folder / STATE / LEDGER)
    if runs := ledger.uncounted(ceiling.unit):
        return f"without bound, by {runs} earlier runs with noise for another unit"
    return f"ε = {ledger.spent(ceiling.unit, ceiling.delta):.3g} at δ = {ceiling.delta:g}"


def answered_so_far(site: Site) -> Totals:
    """What the site has answered over all runs, by its record."""
    return answered_totals(site.folder / STATE / ANSWERED)


def run_settings(run: Path, site: Site) -> tuple[RunSettings, bool]:
    """The settings of a run, and whether they name all sites."""
    if run.is_dir():
        return RunFolder.open(run.absolute()).experiment().public_settings(), True
    if "sites" in _keys(run):
        return read(run, Consortium).settings(site.settings.data.parent), True
    given = read(run, Invitation)
    agreed = given.model_dump(include={*AgreedRun.model_fields})
    agreed["options"] |= site_options(given.setting, [given.site])
    settings = checked_settings(**agreed, engine="superlink", data=site.settings.data)
    return settings, False


def _keys(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RametError(
            f"cannot read {path}: {error}. Give the folder of a run, a consortium's settings, or "
            "an invitation."
        ) from error


def _agreed(policy: Policy, members: int | None) -> dict[str, str]:
    """The rules that a run keeps, in words."""
    known = "known when a run starts" if members is None else f"the run has {members} sites"
    return {
        "methods": "the method is allowed",
        "secure": "required, and the run has it" if policy.secure == "required" else "not required",
        "privacy": "not required" if policy.privacy is None else f"at most {policy.privacy}",
        "members": f"{policy.members_sentence}; {known}",
        "numbers.weight": "may leave in this run",
    }


def _totals(rounds: int, site: Site) -> Iterator[Check]:
    """The limits on all runs together that can be checked without data."""
    so_far = answered_so_far(site)
    for key, more in {"runs": 1, "rounds": rounds}.items():
        if key in site.policy.limits:
            before, limit = getattr(so_far, key), site.policy.limits[key]
            detail = f"{before} so far, {more} more in a new run; the policy allows {limit}"
            yield Check(key, before + more <= limit, detail, _EDIT)


def _sharing(experiment: Experiment, site: Site) -> Check:
    try:
        site_limit(experiment, site.settings.terms, site.policy)
    except RametError as error:
        return Check("share", False, str(error), _EDIT)
    return Check("share", True, "all parameters of the run may leave")


def _sizes(experiment: Experiment, site: Site) -> Iterator[Check]:
    policy, rounds = site.policy, experiment.settings.rounds
    if policy.samples == 1 and policy.bytes is None:
        return
    settings = experiment.settings.model_copy(update={"data": site.settings.data})
    own = Experiment(settings, agreement=Preparation())
    samples = own.samples(site.settings.site)
    if policy.samples > 1:
        count = training_samples(samples.manifest)
        detail = f"this site has {count} training samples; the policy asks for {policy.samples}"
        yield Check("samples", count >= policy.samples, detail, _EDIT)
    if policy.bytes is not None:
        shape = own.method.task.shape(samples)
        total = rounds * bytes_per_round(own.method, shape, settings.seed)
        before = answered_so_far(site).bytes
        detail = f"about {total} in {rounds} rounds, {before} so far; allowed: {policy.bytes}"
        yield Check("bytes", before + total <= policy.bytes, detail, _EDIT)


def bytes_per_round(method: AssembledMethod, shape: Shape, seed: int) -> int:
    """The bytes of all arrays and extras that a client sends in a round, before releases."""
    sent = [start_shared(method, shape, seed), *start_extras(method, shape, seed).values()]
    total = sum(array.nbytes for arrays in sent for array in arrays.values())
    return 2 * total if method.summation is not None else total
