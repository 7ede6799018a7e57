"""Check a run against the site's own settings, before any data is read.

A run config can only narrow what the site allows. A run that asks for anything else is refused with
the name of the setting: with another value, the results would differ from those of other sites.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ramet.data.own.problems import shown
from ramet.data.own.site import site_task
from ramet.engine.site.limit import SiteLimit
from ramet.errors import RametError
from ramet.experiment import SPLIT_SEED, Experiment, RunSettings
from ramet.experiment.named import NamedParts, setting_factory, setting_named
from ramet.flower.run_config import from_run_config
from ramet.flower.terms import SiteTerms
from ramet.options import arguments
from ramet.payload import Payload, Sharing, everything, only
from ramet.policy import NO_RULES, Policy
from ramet.privacy.budget import Budget
from ramet.rules.method import AssembledMethod

SITES, TASK, SAME_SCHEMA = "sites", "task", "same_schema"
_OWN = "own"
_POLICY = "The site's owner can change `share` in its policy.toml."
_NEW_INVITATION = "This needs a new invitation, with which the site reruns `ramet deploy join`."


class NotAllowedError(RametError):
    """A run asks for something that the site's own settings do not allow."""


def permitted_settings(config: Mapping[str, Any], terms: SiteTerms) -> RunSettings:
    """The run's settings with the site's data, or a NotAllowedError."""
    _check_names(config, terms)
    try:
        options = dict(pair.split("=", 1) for pair in shlex.split(config["options"]))
        _check_data_options(options, terms)
        settings = from_run_config({**config, "data": str(terms.data), "folder": "", "keys": ""})
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise RametError(
            f"this site cannot read the run config ({type(error).__name__})."
        ) from error
    _check_limits(settings, terms)
    _check_options(settings, terms)
    return settings


def check_policy(experiment: Experiment, policy: Policy) -> None:
    """Raise a PolicyError if the site's policy does not allow the run."""
    settings = experiment.settings
    members = len(experiment.clients)
    policy.check(settings.method, settings.code, members, settings.secure, settings.budget)


def site_limit(
    experiment: Experiment, terms: SiteTerms | None, policy: Policy = NO_RULES
) -> SiteLimit | None:
    """What may leave in a run that the site's settings permit, or a NotAllowedError.

    By default this is what the method shares by itself, both with the site's options and with the
    run's; `share` in the site's settings replaces it. The policy's `share` narrows both. None for
    all that the run shares.
    """
    settings = experiment.settings
    if terms is None and policy.share is None:
        return None
    own = Experiment(settings.model_copy(update={"share": None})).method
    limit = SiteLimit(own, (*_sharing(own, settings, terms), *_policy_sharing(policy)))
    plain = experiment.sizes.plain_shape()
    outside = limit.outside(experiment.method, plain, settings.seed)
    if outside:
        raise _refused(
            "share",
            f"{len(outside)} arrays of this run to leave, '{outside[0]}' among them",
            f"{limit.sharing[-1]} in a run of {settings.method}",
            _allow("share") if policy.share is None else _POLICY,
        )
    return limit


def _sharing(
    own: AssembledMethod, settings: RunSettings, terms: SiteTerms | None
) -> tuple[Sharing, ...]:
    """The sharing of the site's settings, or of the method itself."""
    if terms is None:
        return (everything,)
    if terms.patterns is not None:
        return (only(*terms.patterns),)
    with_own_options = Experiment(_site_settings(settings, terms)).method
    return own.shared, with_own_options.shared


def _policy_sharing(policy: Policy) -> tuple[Sharing, ...]:
    return () if policy.share is None else (only(*policy.share),)


def check_round(request: Payload, settings: RunSettings) -> int:
    """The number of the round, which must be one of the run's, or the closing evaluation."""
    number, train = request.numbers.get("round"), request.numbers.get("train")
    last = settings.rounds + (not train)
    if not isinstance(number, int) or train not in (0, 1) or not 1 <= number <= last:
        raise NotAllowedError(
            f"this site refuses round {shown(str(number))}: the run has {settings.rounds} rounds."
        )
    return number


def _check_names(config: Mapping[str, Any], terms: SiteTerms) -> None:
    choices: dict[str, tuple[Iterable[Any], str]] = {
        "method": (terms.methods, _allow("methods")),
        "network": (terms.networks, _allow("networks")),
        "setting": ((terms.setting,), _NEW_INVITATION),
        "device": ((terms.allow.device,), _allow("device")),
        "split-seed": ((SPLIT_SEED,), "Leave it out of the run config."),
    }
    for name, (allowed, remedy) in choices.items():
        if config.get(name) not in allowed:
            listed = ", ".join(str(choice) or "none" for choice in allowed)
            raise _refused(name, f"the {name} {shown(str(config.get(name)))}", listed, remedy)


def _check_data_options(options: Mapping[str, str], terms: SiteTerms) -> None:
    """Options of the setting, which decide what data is read, must have the site's values."""
    if terms.setting == _OWN:
        _check_sites(options, terms)
    defaults = arguments(setting_factory(terms.setting))
    own = {**terms.options, TASK: site_task(terms.data)} if terms.setting == _OWN else terms.options
    for name in defaults.keys() - {SITES, SAME_SCHEMA}:
        expected = own.get(name, str(defaults[name]))
        given = options.get(name, expected if name == TASK else str(defaults[name]))
        if given != expected:
            value = f"the option {name}={shown(given)}"
            raise _refused(name, value, f"{name}={expected}", _NEW_INVITATION)


def _check_sites(options: Mapping[str, str], terms: SiteTerms) -> None:
    """`sites` may hold names of sites, this one among them, and no paths."""
    names = shlex.split(options.get(SITES, ""))
    if terms.site not in names or any("." in name or "/" in name for name in names):
        value = f"the option {SITES}={shown(options.get(SITES, ''))}"
        raise _refused(SITES, value, f"names of sites, {terms.site} among them", "Give no paths.")


def _check_limits(settings: RunSettings, terms: SiteTerms) -> None:
    rounds = terms.largest_rounds or setting_named(terms.setting, {}).rounds
    if settings.rounds > rounds:
        raise _refused("rounds", f"{settings.rounds} rounds", f"at most {rounds}", _allow("rounds"))
    threads = terms.allow.threads
    if settings.threads > threads:
        value = f"{settings.threads} threads"
        raise _refused("threads", value, f"at most {threads}", _allow("threads"))
    if terms.secure and not settings.secure:
        raise _refused("secure", "a run without secure sums", "secure sums only", _NEW_INVITATION)
    if terms.verified and not settings.verified:
        value = "a run without a charter"
        raise _refused("verified", value, "verified rounds only", _NEW_INVITATION)
    if terms.dp and settings.budget != Budget.parse(terms.dp):
        value = f"a run with --dp {settings.dp}" if settings.dp else "a run without --dp"
        raise _refused("dp", value, terms.dp, _NEW_INVITATION)
    if terms.release is not None and settings.release != terms.release:
        value = f"the release {shown(str(settings.release))}"
        raise _refused("release", value, terms.release, _NEW_INVITATION)


def _check_options(settings: RunSettings, terms: SiteTerms) -> None:
    """Options that are not a run's choice must have the invitation's values, or the defaults."""
    defaults = NamedParts.of(settings).defaults()
    free = terms.allow.options
    fixed = defaults.keys() if free is not None else defaults.keys() & terms.options.keys()
    of_data = arguments(setting_factory(terms.setting)).keys()
    for name in sorted(fixed - of_data - {*(free or ())}):
        expected = terms.options.get(name, str(defaults[name]))
        given = settings.options.get(name, str(defaults[name]))
        if given != expected:
            value = f"the option {name}={shown(given)}"
            raise _refused(name, value, f"{name}={expected}", _allow("options"))


def _site_settings(settings: RunSettings, terms: SiteTerms) -> RunSettings:
    """The run's method and network with the site's own options."""
    known = NamedParts.of(settings).defaults()
    own = {name: value for name, value in terms.options.items() if name in known}
    if terms.setting == _OWN:
        own |= {SITES: settings.options[SITES], TASK: site_task(terms.data)}
    return settings.model_copy(update={"options": own, "share": None})


def _allow(key: str) -> str:
    return f"The site's owner can change `{key}` under [allow] in its folder's site.toml."


def _refused(setting: str, value: str, allowed: str, remedy: str) -> NotAllowedError:
    return NotAllowedError(
        f"`{setting}`: this site does not allow {value}; it allows {allowed}. {remedy}"
    )
