"""What a run can have, and how it is recognised in the run's method and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ramet.experiment.objects import is_object
from ramet.experiment.settings import RunSettings
from ramet.options import is_user_defined
from ramet.rules.activation import Everyone
from ramet.rules.extras import Extras
from ramet.rules.merging import WeightedMean, sums_only
from ramet.rules.method import AssembledMethod, declared_extras, switchable_arrays
from ramet.rules.robust import RobustMerging
from ramet.training.local import LocalTraining

MethodHas: TypeAlias = Callable[[AssembledMethod], bool]
SettingsHave: TypeAlias = Callable[[RunSettings], bool]


class Can(StrEnum):
    """The capabilities, as pages call them."""

    SOME_CLIENTS = "some clients in a round"
    PARTS = "parts of replies"
    ROBUST = "robust merging"
    FIXED_POINT = "sums in fixed point"
    OWN_SUM = "a sum of its own"
    COMPARING = "a rule that compares replies"
    WHOLE = "whole replies"
    SUMMED_EXTRAS = "extras that are summed"
    COMPARED_EXTRAS = "extras that are compared"
    READ_EXTRAS = "extras that the merging rule reads"
    SUMMED_STAGES = "stages that are summed"
    COMPARED_STAGES = "stages that are compared"
    RELEASE = "a release"
    PACE = "a simulated pace"
    ARRIVAL = "a pace of arrival"
    PENALTY = "a penalty"
    AFTER = "work after training"
    PERSONAL = "a personal network"
    OWN_TRAINING = "a training of its own"
    STOPPED_TRAINING = "training that stops early or forgets moments"
    NOTHING = "sharing nothing"
    EXTRAS_ONLY = "sharing extras only"
    SHARE = "other patterns of sharing"
    CLASSES = "computing with classes"
    NUMBERS = "numbers or several labels"
    TASK = "another task"
    OWN_NETWORK = "a network of its own"
    BUFFERS = "a network with buffers"
    NETWORK = "another network"
    SECURE = "secure sums"
    VERIFIED = "verified rounds"
    PRIVATE_GRAPHS = "privacy of graphs"
    PRIVATE_SITES = "privacy of sites"
    PRIVATE_LINKS = "privacy of links"
    REGIONS = "regions"
    PATIENCE = "early stop"
    FINAL_CLIENTS = "final clients"
    NORM_BOUND = "a norm bound"
    QUORUM = "a quorum"
    METRIC = "another metric"
    FROM = "models of another run"
    LOCAL = "this process"
    RAY = "Ray"
    SUPERLINK = "SuperLinks"
    WORKERS = "workers"
    OBJECT = "a method as an object"
    OWN_DATA = "own data"
    OWN_SETTING = "a setting from a file"
    CONSORTIUM = "a consortium"


@dataclass(frozen=True, kw_only=True)
class Capability:
    """How a capability is chosen.

    Args:
        option: how to ask for it on the command line; empty if it is a part of methods.
        group: alternatives, of which a run has one at most.
        method: whether a method has it; None if it does not depend on the method alone.
        settings: whether settings ask for it; None if they do not say.
        words: what messages call it; by default its option.
        instead: what to do if the method does not allow it.
    """

    option: str = ""
    group: str = ""
    method: MethodHas | None = None
    settings: SettingsHave | None = None
    words: str = ""
    instead: str = "use another method"


def _chooses_clients(method: AssembledMethod) -> bool:
    return not isinstance(method.activation, Everyone) and not method.activation.asks_parts


def _compares(method: AssembledMethod) -> bool:
    return not sums_only(method.merging) and not isinstance(method.merging, RobustMerging)


def _is_summed(extras: Extras | None) -> bool:
    return extras is not None and extras.rule is not None and sums_only(extras.rule)


def _is_compared(extras: Extras | None) -> bool:
    return extras is not None and extras.rule is not None and not sums_only(extras.rule)


def _stops_training(method: AssembledMethod) -> bool:
    own = method.training
    return isinstance(own, LocalTraining) and (own.stop_after > 0 or own.fresh_moments)


def _given(name: str) -> SettingsHave:
    """Whether a setting has a value."""
    return lambda settings: getattr(settings, name) not in (None, False)


def _unit(name: str) -> SettingsHave:
    return lambda settings: settings.budget is not None and settings.budget.unit == name


def _engine(name: str) -> SettingsHave:
    return lambda settings: settings.engine == name


_SUMS = "sums in fixed point or secure sums"
_SUMMING = (
    "use a method that needs nothing but a sum of replies, such as fedavg, fedprox, fedper, "
    "fedstar, feddense, scaffold or fedadam"
)
_NOISY = "use a method such as fedavg, fedstar or feddense"
_HOPS = "use --network hops, with a method such as fedavg"
CAPABILITIES: dict[Can, Capability] = {
    Can.SOME_CLIENTS: Capability(
        option="--activation", group="activation", method=_chooses_clients
    ),
    Can.PARTS: Capability(
        option="--activation", group="activation", method=lambda m: m.activation.asks_parts
    ),
    Can.ROBUST: Capability(option="--merge", method=lambda m: isinstance(m.merging, RobustMerging)),
    Can.FIXED_POINT: Capability(
        option="--merge fixed-point",
        method=lambda m: m.summation is not None,
        words=_SUMS,
        instead=_SUMMING,
    ),
    Can.OWN_SUM: Capability(
        group="merging",
        method=lambda m: sums_only(m.merging) and type(m.merging) is not WeightedMean,
    ),
    Can.COMPARING: Capability(group="merging", method=_compares),
    Can.WHOLE: Capability(),
    Can.SUMMED_EXTRAS: Capability(group="extras", method=lambda m: _is_summed(m.extras)),
    Can.COMPARED_EXTRAS: Capability(group="extras", method=lambda m: _is_compared(m.extras)),
    Can.READ_EXTRAS: Capability(
        group="extras", method=lambda m: m.extras is not None and m.extras.rule is None
    ),
    Can.SUMMED_STAGES: Capability(method=lambda m: any(_is_summed(s.extras) for s in m.stages)),
    Can.COMPARED_STAGES: Capability(method=lambda m: any(_is_compared(s.extras) for s in m.stages)),
    Can.RELEASE: Capability(option="--release", method=lambda m: bool(m.release)),
    Can.PACE: Capability(group="pace", method=lambda m: m.pace is not None and m.pace.simulated),
    Can.ARRIVAL: Capability(
        group="pace", method=lambda m: m.pace is not None and not m.pace.simulated
    ),
    Can.PENALTY: Capability(method=lambda m: m.penalty is not None),
    Can.AFTER: Capability(method=lambda m: m.after is not None),
    Can.PERSONAL: Capability(method=lambda m: m.personal is not None),
    Can.OWN_TRAINING: Capability(
        group="training", method=lambda m: type(m.training) is not LocalTraining
    ),
    Can.STOPPED_TRAINING: Capability(group="training", method=_stops_training),
    Can.NOTHING: Capability(group="sharing"),
    Can.EXTRAS_ONLY: Capability(group="sharing"),
    Can.SHARE: Capability(option="--share", group="sharing", settings=_given("share")),
    Can.CLASSES: Capability(method=lambda m: m.needs_classes),
    Can.NUMBERS: Capability(
        group="task",
        method=lambda m: not m.task.has_classes,
        words="a task without classes",
        instead="use a method such as fedavg, scaffold or fedstar",
    ),
    Can.TASK: Capability(option="--task", group="task", settings=_given("task")),
    Can.OWN_NETWORK: Capability(group="network"),
    Can.BUFFERS: Capability(group="network"),
    Can.NETWORK: Capability(option="--network", settings=_given("network"), instead="use fedavg"),
    Can.SECURE: Capability(
        option="--secure", settings=_given("secure"), words=_SUMS, instead=_SUMMING
    ),
    Can.VERIFIED: Capability(
        option="--verified", settings=_given("verified"), words="--verified", instead=_SUMMING
    ),
    Can.PRIVATE_GRAPHS: Capability(
        option="--dp unit=graph", group="--dp", settings=_unit("graph"), instead=_NOISY
    ),
    Can.PRIVATE_SITES: Capability(
        option="--dp unit=site", group="--dp", settings=_unit("site"), instead=_NOISY
    ),
    Can.PRIVATE_LINKS: Capability(
        option="--dp unit=link", group="--dp", settings=_unit("link"), instead=_HOPS
    ),
    Can.REGIONS: Capability(
        option="--regions", settings=_given("regions"), words="regions", instead=_SUMMING
    ),
    Can.PATIENCE: Capability(option="--patience", settings=_given("patience")),
    Can.FINAL_CLIENTS: Capability(option="--final-clients", settings=_given("final_clients")),
    Can.NORM_BOUND: Capability(option="--norm-bound", settings=_given("norm_bound")),
    Can.QUORUM: Capability(option="--quorum", settings=lambda s: s.quorum > 1),
    Can.METRIC: Capability(option="--metric", settings=_given("metric")),
    Can.FROM: Capability(option="--from", settings=_given("start_from")),
    Can.LOCAL: Capability(option="--engine local", group="--engine", settings=_engine("local")),
    Can.RAY: Capability(option="--engine ray", group="--engine", settings=_engine("ray")),
    Can.SUPERLINK: Capability(
        option="--engine superlink", group="--engine", settings=_engine("superlink")
    ),
    Can.WORKERS: Capability(option="--workers"),
    Can.OBJECT: Capability(settings=lambda s: is_object(s.method)),
    Can.OWN_DATA: Capability(option="--site", group="data"),
    Can.OWN_SETTING: Capability(
        option="--setting FILE.py:NAME", group="data", settings=lambda s: is_user_defined(s.setting)
    ),
    Can.CONSORTIUM: Capability(option="`ramet deploy`"),
}


def chosen(
    method: AssembledMethod,
    settings: RunSettings | None = None,
    shared: Collection[str] | None = None,
) -> set[Can]:
    """The capabilities of a run, as far as its method, settings and shared arrays decide them."""
    found = {can for can, one in CAPABILITIES.items() if one.method and one.method(method)}
    if settings is not None:
        found |= chosen_by(settings)
    if shared is not None and not shared:
        found.add(Can.EXTRAS_ONLY if declared_extras(method) else Can.NOTHING)
    if shared and not switchable_arrays(method, shared):
        found.add(Can.WHOLE)
    return found - {Can.FIXED_POINT} if Can.SECURE in found else found


def chosen_by(settings: RunSettings) -> set[Can]:
    """The capabilities that settings ask for."""
    return {can for can, one in CAPABILITIES.items() if one.settings and one.settings(settings)}
