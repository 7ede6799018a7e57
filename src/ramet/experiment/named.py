"""Find methods, settings, networks and rules by name, or in a user's file."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial, wraps
from inspect import isclass, signature
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_type_hints

from torch import nn

from ramet.errors import RametError, unknown
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import check_together, names_of
from ramet.experiment.named_tasks import built_task, checked_type, task_factory, task_named
from ramet.experiment.objects import is_object, object_factory
from ramet.experiment.settings import RunSettings
from ramet.methods import ACTIVATIONS, AUTHORS, MERGES, METHODS, PAPER_NAMES, RELEASES, SUMMATIONS
from ramet.methods.authors import Protocol
from ramet.models.networks import DEFAULT_NETWORKS, NETWORKS
from ramet.models.shape import FIRST_TASKS, SHAPES, GraphShape
from ramet.options import (
    arguments,
    build,
    converted,
    factory_named,
    name_and_options,
    without_folder,
)
from ramet.partition import SETTINGS, Setting
from ramet.partition.checked import check_complete, check_setting
from ramet.payload import only
from ramet.rules.activation import Activation
from ramet.rules.fixed_point import FixedPoint
from ramet.rules.merging import Merging, WeightedMean
from ramet.rules.method import AssembledMethod, Method, assembled
from ramet.rules.release import Release
from ramet.tasks import (
    TASKS,
    Task,
    TaskName,
)
from ramet.training.local import DEFAULT_TRAINING, LocalTraining, Training

Owner: TypeAlias = Literal["method", "setting", "task", "network", "training"]
"""A part of a run that has options."""
PROTOCOL = "protocol"
"""The option that sets what the authors of a method do differently."""
SHAPE = ("shape",)
"""The argument of networks that is not an option."""
Rule = TypeVar("Rule")


@dataclass(frozen=True)
class NamedParts:
    """The parts of a run by name, and the options, each of which belongs to one or more parts."""

    method: str
    setting_name: str
    network: str | None
    options: Mapping[str, str]
    data: Path
    task: str | None = None

    @staticmethod
    def of(settings: RunSettings) -> NamedParts:
        return NamedParts(
            settings.method,
            settings.setting,
            settings.network,
            settings.options,
            settings.data,
            settings.task,
        )

    @cached_property
    def accepted(self) -> dict[Owner, dict[str, Any]]:
        """The options that each part accepts, with their defaults.

        A method that brings its own network, training or task accepts no options of others.
        """
        protocol = {PROTOCOL: get_args(Protocol)[0]} if self.method in AUTHORS else {}
        accepted: dict[Owner, dict[str, Any]] = {
            "method": {**protocol, **arguments(method_factory(self.method))},
            "setting": arguments(setting_factory(self.setting_name)),
        }
        bare = self.bare_method
        if bare.task is None:
            accepted["task"] = arguments(self._task_factory)
        if bare.model is None or self._network_name:  # the name is an error if there is a model
            accepted["network"] = arguments(self.network_factory, given=SHAPE)
        if bare.training is None:
            accepted["training"] = asdict(DEFAULT_TRAINING[self.task_name])
        return accepted

    def defaults(self) -> dict[str, Any]:
        """All options of the run's parts, with their defaults."""
        return {key: value for names in self.accepted.values() for key, value in names.items()}

    @cached_property
    def of_authors(self) -> dict[str, str]:
        """The options that the authors' protocol sets; empty under our own."""
        protocol = self.options.get(PROTOCOL, get_args(Protocol)[0])
        if self.method not in AUTHORS:
            return {}
        if protocol not in get_args(Protocol):
            raise unknown(PROTOCOL, protocol, get_args(Protocol))
        return AUTHORS[self.method].options(self.setting_name) if protocol == "authors" else {}

    @cached_property
    def _chosen(self) -> dict[str, str]:
        """The options, with the authors' where none is given."""
        return {**self.of_authors, **self.options}

    @cached_property
    def setting(self) -> Setting:
        """The setting; an option that no part of the run accepts is an error."""
        self._check_options()
        return self._setting

    @cached_property
    def bare_method(self) -> Method:
        """The method as its factory returns it."""
        factory = method_factory(self.method)
        returned = build(factory, _restricted(self._chosen, arguments(factory)))
        hint = "Return `Method(…)` or `replace(fedstar(), …)`."
        return checked_type(returned, Method, self.method, hint)

    def assembled(
        self,
        share: tuple[str, ...] | None = None,
        activation: str | None = None,
        merge: str | None = None,
        release: str | None = None,
        secure: bool = False,
    ) -> AssembledMethod:
        """The method with its network, task and training, and with replaced rules."""
        self._check_options()
        method = self.bare_method
        if share is not None:
            method = replace(method, shared=only(*share))
        if activation:
            rule = activation_from(activation, self.of_authors)
            method = replace(method, activation=rule)
        if merge:
            method = with_merge(method, merge)
        if release:
            method = replace(method, release=(*method.release, release_from(release)))
        if secure and method.summation is None:
            method = replace(method, summation=FixedPoint())
        return assembled(
            method,
            self._built_task,
            None if method.model else self._bound_network(),
            None if method.training else self._training(),
            self.same_schema,
        )

    @cached_property
    def task_name(self) -> TaskName:
        """The task of the method or the run, or of the setting, or the only one of the network."""
        if self.bare_method.task is not None:
            return self.bare_method.task.name
        if self.task is not None:
            return task_named(self.task).name
        task = self._setting.task_in(self.data)
        if task is not None:
            return task
        known = NETWORKS.get(self._network_name or "", {})
        if len(known) == 1:
            (shape,) = known
            return FIRST_TASKS[shape]
        raise RametError(
            f"{self.bare_method.name} runs on any task, and no site's file on this machine says "
            f"which. Set the option `task` to {' or '.join(TASKS)}."
        )

    @property
    def _task_factory(self) -> Callable[..., Task]:
        return task_factory(self.task or self.task_name)

    @property
    def _built_task(self) -> Task:
        if self.task and self.bare_method.task is not None:
            raise RametError(f"{self.bare_method.name} has a task of its own. Omit --task.")
        return built_task(self._task_factory, self._options_of("task"), self.task or self.task_name)

    @cached_property
    def network_factory(self) -> Callable[..., nn.Module]:
        """The network that the run names, or the default of its task."""
        shape = SHAPES[self.task_name]
        name = self._network_name or DEFAULT_NETWORKS[shape]
        if name in NETWORKS:
            if shape not in NETWORKS[name]:
                suited = [key for key, by_shape in NETWORKS.items() if shape in by_shape]
                raise RametError(
                    f"the network {name} is not for {self.task_name}. Use {', '.join(suited)}, or "
                    "file.py:NETWORK."
                )
            return NETWORKS[name][shape]
        return user_network(name, shape, self.task_name)

    @property
    def _network_name(self) -> str | None:
        """The network that is given, or that a paper's name for the method stands for."""
        if self.network and self.bare_method.model is not None:
            check_together({Can.OWN_NETWORK, Can.NETWORK}, names_of(self.bare_method))
        paper = PAPER_NAMES.get(self.method)
        if paper and self.network not in (None, paper.network):
            raise RametError(
                f"{self.method} is {paper.method} with the network {paper.network}. For another "
                f"network, write {paper.method} --network {self.network}."
            )
        return paper.network if paper else self.network

    @cached_property
    def _setting(self) -> Setting:
        return setting_ignoring_unknown(self.setting_name, self._chosen)

    @property
    def same_schema(self) -> bool:
        declared = self._setting.same_schema
        return SHAPES[self.task_name] is not GraphShape if declared is None else declared

    def _bound_network(self) -> Callable[[Any], nn.Module]:
        network = self.network_factory
        return partial(network, **converted(network, self._options_of("network"), given=SHAPE))

    def _training(self) -> Training:
        default = DEFAULT_TRAINING[self.task_name]

        def training(chosen: LocalTraining = default) -> LocalTraining:
            return chosen

        return build(training, self._options_of("training"))

    def _options_of(self, owner: Owner) -> dict[str, str]:
        return _restricted(self._chosen, self.accepted.get(owner, {}))

    def _check_options(self) -> None:
        known = self.defaults()
        for key in self.options:
            if key == PROTOCOL and key not in known:
                raise RametError(
                    f"{without_folder(self.method)} has no protocol of its authors. Omit the "
                    f"protocol, or use {', '.join(AUTHORS)}."
                )
            if key not in known:
                raise unknown("option", key, known)


def _restricted(options: Mapping[str, str], accepted: Container[str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key in accepted}


def setting_named(name: str, options: Mapping[str, str]) -> Setting:
    """The setting with these options; what a user's file returns is checked."""
    factory = setting_factory(name)
    if name in SETTINGS:
        return build(factory, options)
    check_complete(factory, without_folder(name))
    hint = "Derive it from ramet.Setting."
    setting: Setting = checked_type(build(factory, options), Setting, name, hint)
    check_setting(setting, without_folder(name))
    return setting


def setting_ignoring_unknown(name: str, options: Mapping[str, str]) -> Setting:
    """The setting with those of a run's options that it accepts; others are ignored."""
    return setting_named(name, _restricted(options, arguments(setting_factory(name))))


def method_factory(name: str) -> Callable[..., Method]:
    """A built-in method by its name, or `module:factory` or `file.py:factory`."""
    if is_object(name):
        return object_factory(name)
    if name not in PAPER_NAMES:
        return factory_named(name, METHODS, "method")
    paper = PAPER_NAMES[name]
    factory = METHODS[paper.method]

    @wraps(factory)
    def renamed(**options: Any) -> Method:
        return replace(factory(**options), name=name, paper=paper.paper)

    return renamed


def network_rows(only: str | None = None) -> list[tuple[str, str, str, str]]:
    """Name, task, summary and options of each network; `*` marks the default of a task."""
    if only is not None and only not in NETWORKS:
        raise unknown("network", only, NETWORKS)
    return [
        (
            f"{name}{'*' if DEFAULT_NETWORKS[shape] == name else ''}",
            task,
            (network.__doc__ or "").partition("\n")[0],
            " ".join(f"{key}={value}" for key, value in arguments(network, given=SHAPE).items()),
        )
        for shape, task in FIRST_TASKS.items()
        for name, by_shape in NETWORKS.items()
        if only in (None, name) and (network := by_shape.get(shape)) is not None
    ]


def user_network(name: str, shape: type[Any], task: TaskName) -> Callable[..., nn.Module]:
    """A network from a user's file: a callable that takes a client's ``shape`` and options."""
    network = factory_named(name, dict.fromkeys(NETWORKS, nn.Module), "network")
    arguments_of = signature(network).parameters
    if [*arguments_of][:1] != [*SHAPE]:
        raise RametError(
            f"the network {without_folder(name)} takes ({', '.join(arguments_of)}), but its first "
            "argument must be `shape`, the sizes of a client's data."
        )
    declared = get_type_hints(network.__init__ if isclass(network) else network).get(SHAPE[0])
    if isclass(declared) and declared in SHAPES.values() and declared is not shape:
        raise RametError(
            f"the network {without_folder(name)} takes a {declared.__name__}, but {task} has a "
            f"{shape.__name__}. Use a network for {task}."
        )
    return network


def setting_factory(name: str) -> Callable[..., Setting]:
    """A built-in setting by its name, or `module:factory` or `file.py:factory`."""
    return factory_named(name, SETTINGS, "setting")


def activation_from(text: str, otherwise: Mapping[str, str] | None = None) -> Activation:
    """Build a rule such as `restart,alpha=0.3` or `file.py:Rule,alpha=0.3`.

    ``otherwise`` has values of options that the text does not give; others are ignored.
    """
    rule = _rule_from(text, ACTIVATIONS, "activation", otherwise)
    return checked_type(
        rule, Activation, text, "It needs `ask`, `score` and `settle`, `keep_own` and `asks_parts`."
    )


def merging_from(text: str) -> Merging:
    """Build a rule such as `trimmed-mean,share=0.3` or `file.py:Rule,share=0.3`."""
    rule = _rule_from(text, MERGES, "merge")
    return checked_type(rule, Merging, text, "It needs `start`, `send` and `merge`.")


def with_merge(method: Method, text: str) -> Method:
    """The method with another rule, or with another way to compute its own sum."""
    if name_and_options(text)[0] in SUMMATIONS:
        return replace(method, summation=_rule_from(text, SUMMATIONS, "merge"))
    merging = merging_from(text)
    if type(method.merging) is not WeightedMean:
        check_together({Can.OWN_SUM, Can.ROBUST}, names_of(method))
    return replace(method, merging=merging)


def release_from(text: str) -> Release:
    """Build a release such as `8-bit` or `file.py:Release,share=0.3`."""
    rule = _rule_from(text, RELEASES, "release")
    return checked_type(rule, Release, text, "It needs `leave`, `form` and `arrive`.")


def _rule_from(
    text: str,
    rules: Mapping[str, Callable[..., Rule]],
    kind: str,
    otherwise: Mapping[str, str] | None = None,
) -> Rule:
    name, options = name_and_options(text)
    factory = factory_named(name, rules, kind)
    known = arguments(factory)
    if options and not known:
        raise RametError(f"{without_folder(name)} takes no options. Write --{kind} {name}.")
    for key in options:
        if key not in known:
            raise unknown(f"option of {without_folder(name)}", key, known)
    return build(factory, {**_restricted(otherwise or {}, known), **options}, by=f"--{kind}")
