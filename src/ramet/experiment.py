"""From names and options to checked, frozen settings, and from those to ready-to-run parts."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from ramet.data import Held
from ramet.data.own import Aspect, Schema, check_fit
from ramet.engine import AuditLog, Node, Overseer, Rounds, Snapshots, start_shared
from ramet.engine.audit import NAME as AUDIT
from ramet.engine.node import final_model, lay_over, state_names
from ramet.errors import RametError, unknown
from ramet.methods import ACTIVATIONS, MERGES, METHODS, Method
from ramet.methods.activation import Activation
from ramet.methods.base import check_activation, check_merging, with_merging
from ramet.methods.merging import Merging
from ramet.options import (
    Made,
    absolute_file,
    arguments,
    factory_named,
    made,
    name_and_options,
    source_of,
    without_folder,
)
from ramet.partition import SETTINGS, OwnSetting, Reading, Setting, absolute_sites
from ramet.payload import Arrays, only
from ramet.tasks import Shape

Engine = Literal["local", "ray", "superlink"]
Device = Literal["cpu", "cuda", "mps"]
Rule = TypeVar("Rule")
SPLIT_SEED = 123
SITES = "sites"
_PAUSES: dict[Engine, tuple[float, ...]] = {
    "local": (),  # the same work in the same process ends the same
    "ray": (0.0, 0.0),
    "superlink": (5.0, 65.0),  # a restarted SuperNode is refused for up to a minute
}


class RunSettings(BaseModel):
    """Everything that decides a run's numbers, and where its data lie."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    setting: str
    rounds: int = Field(ge=1)
    seed: int = Field(0, ge=0)
    engine: Engine = "local"
    device: Device = "cpu"
    data: Path
    options: dict[str, str] = {}
    share: tuple[str, ...] | None = None
    activation: str | None = None
    """Instead of the method's own: a name from `ramet activations` or file.py:rule, its options
    behind commas."""
    merge: str | None = None
    """Instead of the weighted mean, in the same way: a name from `ramet merges` or file.py:rule."""
    quorum: int = Field(1, ge=1)
    deadline: float = Field(600.0, gt=0)
    norm_bound: float | None = Field(None, gt=0)
    split_seed: int = Field(SPLIT_SEED, ge=0)
    threads: int = Field(1, ge=1)
    code: str | None = None
    """SHA-256 of the file that a method or rule of one's own lies in; None for those of Ramet."""

    @property
    def label(self) -> str:
        """The method with its options, as `ramet compare` takes it."""
        return written(self.method, self.options, self.share, self.activation, self.merge)

    @property
    def rules(self) -> dict[str, str]:
        """What stands in place of the method's own rules."""
        given = {"activation": self.activation, "merge": self.merge}
        return {kind: without_folder(text) for kind, text in given.items() if text}

    @property
    def command(self) -> str:
        """What to type to have this run again; where the data lie is each machine's own affair."""
        words = ["ramet", "run", without_folder(self.method), "--setting", self.setting]
        words += ["--rounds", str(self.rounds), "--seed", str(self.seed)]
        for name in (
            *("engine", "device", "threads", "quorum", "deadline", "norm_bound", "split_seed"),
        ):
            if getattr(self, name) != type(self).model_fields[name].default:
                words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        for key, value in self.options.items():
            words += ["--set", f"{key}={value}"]
        for pattern in self.share or ():
            words += ["--share", pattern]
        for kind, text in self.rules.items():
            words += [f"--{kind}", text]
        return shlex.join(words)


def written(
    method: str,
    options: Mapping[str, str],
    share: Sequence[str] | None = None,
    activation: str | None = None,
    merge: str | None = None,
) -> str:
    """A method with its options in one word, its merging and its activation last.

    Where sites have their files is not a matter of the method.
    """
    pairs = [f"{key}={value}" for key, value in options.items() if key != SITES]
    pairs += [f"share={' '.join(share)}"] if share is not None else []
    pairs += [f"merge={without_folder(merge)}"] if merge else []
    pairs += [f"activation={without_folder(activation)}"] if activation else []
    return ",".join([without_folder(method), *pairs])


def checked_settings(**given: Any) -> RunSettings:
    """Settings from arguments; an omitted number of rounds is the setting's own."""
    if SITES in given.get("options", {}):
        options = given["options"]
        given["options"] = {**options, SITES: absolute_sites(options[SITES])}
    files = {name: given[name] for name in ("method", "activation", "merge") if given.get(name)}
    given |= {name: absolute_file(text) for name, text in files.items()}
    if given.get("rounds") is None:
        given["rounds"] = 1
        given["rounds"] = Experiment(_validated(given)).setting.rounds
    settings = _validated(given)
    Experiment(settings).check_names()
    return settings.model_copy(update={"code": code_of(settings)})


def _validated(given: Mapping[str, Any]) -> RunSettings:
    try:
        return RunSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise RametError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def default_data() -> Path:
    """Where datasets lie unless --data says otherwise."""
    return Path(os.environ.get("RAMET_DATA") or Path.home() / ".cache" / "ramet")


@dataclass(frozen=True)
class Experiment:
    """The parts of a run, each made when it is first needed."""

    settings: RunSettings
    told: Mapping[str, Schema] | None = None
    """The form of the sites' own graphs, where they have told it."""

    @cached_property
    def method(self) -> Method:
        self.check_code()
        name = self.settings.method
        method = made(method_factory(name), self._options_of("method"))
        method = _of_kind(method, Method, name, "Return `Method(…)` or `replace(fedstar(), …)`.")
        activation, merge = self.settings.activation, self.settings.merge
        if self.settings.share is not None:
            method = replace(method, shared=only(*self.settings.share))
        if activation:
            method = replace(method, activation=activation_from(activation))
        if merge:
            method = with_merging(method, merging_from(merge), merge)
        return method

    @cached_property
    def setting(self) -> Setting:
        return made(_setting_factory(self.settings.setting), self._options_of("setting"))

    @property
    def clients(self) -> tuple[str, ...]:
        return self.setting.clients

    @property
    def own_graphs(self) -> bool:
        """Whether clients bring graphs of their own."""
        return isinstance(self.setting, OwnSetting)

    @cached_property
    def schemas(self) -> Mapping[str, Schema]:
        """The form of each site's own graphs; nothing where graphs are nobody's own."""
        if self.told is not None or not isinstance(self.setting, OwnSetting):
            return self.told or {}
        return {client: self.schema(client) for client in self.clients}

    def schema(self, client: str) -> Schema:
        """The form of one site's own graphs, from its files."""
        assert isinstance(self.setting, OwnSetting)
        return self.setting.schema(client, self.settings.data)

    def data_of(self, client: str) -> Path:
        """What a client's own machine has to know of where data lie."""
        own = self.setting.files[client] if isinstance(self.setting, OwnSetting) else None
        return own or self.settings.data

    def named(self) -> RunSettings:
        """The settings with sites' names instead of their files, which are each site's affair."""
        if not isinstance(self.setting, OwnSetting):
            return self.settings
        options = {**self.settings.options, SITES: shlex.join(self.clients)}
        return self.settings.model_copy(update={"options": options})

    def samples(self, client: str) -> Any:
        """What the client learns from, split by the split seed."""
        if client not in self._samples:
            if client not in self.setting.source_of:
                raise unknown("client", client, self.clients)
            self._samples[client] = self.method.task.samples(
                self.setting.held(client, self._reading)
            )
        return self._samples[client]

    def node(self, client: str, states: Path) -> Node:
        """A client whose state lies in a folder that has the run's name."""
        return Node(
            client=client,
            method=self.method,
            samples=self.samples(client),
            seed=self.settings.seed,
            snapshots=Snapshots(states / client),
            device=torch.device(self.settings.device),
            audit=AuditLog(states / client / AUDIT, states.name, client),
        )

    def final_model(self, client: str, states: Path) -> nn.Module:
        """What a client ended with, from the folder that has the run's name."""
        return final_model(self.method, self._shape(client), states / client)

    def rounds(self, snapshots: Path) -> Rounds:
        return Rounds(
            method=self.method,
            clients=self.clients,
            rounds=self.settings.rounds,
            seed=self.settings.seed,
            start=self._start(),
            snapshots=Snapshots(snapshots),
            overseer=self._overseer(),
            quorum=self.settings.quorum,
            pauses=_PAUSES[self.settings.engine],
            norm_bound=self.settings.norm_bound,
        )

    def overview(self) -> Held[Any, Any] | None:
        """All clients' data in one, where the setting has it."""
        return self.setting.overview(self._reading)

    def _overseer(self) -> Overseer | None:
        """Judges the server's model, if all of it is shared and the setting has an overview."""
        held = self.overview()
        if held is None:
            return None
        task, device = self.method.task, torch.device(self.settings.device)
        samples = task.samples(held)
        with torch.random.fork_rng():
            model = self.method.model(task.shape(samples)).to(device)
        if any(name not in self.method.shared for name in state_names(model)):
            return None

        def judge(arrays: Arrays) -> Mapping[str, float]:
            lay_over(model, arrays)
            return {**task.judge(model, samples, device), **task.study(model, samples, device)}

        return judge

    def check_code(self) -> None:
        """What is one's own must be as it was when the run began."""
        code = self.settings.code
        if code is not None and code != code_of(self.settings):
            files = ", ".join(map(str, own_files(self.settings).values()))
            raise RametError(
                f"{files} is not what this run began with: its SHA-256 was {code[:12]}…. Put the "
                "file back, or begin a run in another folder with --out."
            )

    def check_names(self) -> None:
        """Complain about unknown names, bad options and idle patterns before anything is read."""
        method, clients = self.method, len(self.clients)
        if not clients:
            raise RametError(
                "no site is named. Give each site's file with --site FILE.toml, or --set sites=…"
            )
        shared = start_shared(method, self._plain_shape(), self.settings.seed)
        check_activation(method, shared)
        check_merging(method, shared, clients)
        if self.settings.quorum > clients:
            raise RametError(
                f"a quorum of {self.settings.quorum} is more than the {clients} clients of "
                f"{self.settings.setting}. Take a smaller one."
            )

    def check_clients(self) -> None:
        """What is shared must have one shape on all clients, and mean the same."""
        self._check_schemas()
        first, *others = self.clients
        expected = self._sizes(first)[1]
        for client in others:
            for name, shape in self._sizes(client)[1].items():
                if shape != expected[name]:
                    raise RametError(
                        f"'{name}' cannot be shared: it is {list(expected[name])} on {first} but "
                        f"{list(shape)} on {client}. Share parts that do not depend on a client's "
                        "features and classes."
                    )

    def _check_schemas(self) -> None:
        """Sites' own graphs must agree in what the shared arrays depend on."""
        if not self.schemas:
            return
        plain = self._plain_shape()
        names = {field.name for field in fields(plain)}
        changed: dict[Aspect, Any] = {
            aspect: replace(plain, **{aspect: getattr(plain.other(), aspect)})
            for aspect in ("features", "classes")
            if aspect in names
        }
        if "relations" in names:
            changed = {"types": plain.other(), "features": plain.other()}
        check_fit(
            self.schemas,
            {a: found[0] for a, shape in changed.items() if (found := self._moved_by(shape))},
        )
        for schema in self.schemas.values():
            self.method.task.declared_shape(schema, self.method.inputs)

    def _moved_by(self, shape: Any) -> list[str]:
        """The shared arrays that are there or of another size only because of this shape."""
        method, seed = self.method, self.settings.seed
        here, there = (start_shared(method, s, seed) for s in (self._plain_shape(), shape))
        return [
            n
            for n in {**here, **there}
            if n not in here or n not in there or here[n].shape != there[n].shape
        ]

    def scalars(self) -> dict[str, int]:
        """How many numbers each client's model has."""
        return {client: self.scalars_of(client) for client in self.clients}

    def scalars_of(self, client: str) -> int:
        return self._sizes(client)[0]

    def shared_scalars(self) -> int:
        return sum(array.size for array in self._start().values())

    def shared_names(self) -> tuple[str, ...]:
        """The tensors that a client sends when it is asked for everything."""
        return tuple(self._start())

    def manifest(self) -> dict[str, Any]:
        """Who holds which samples, with a hash: two runs with equal manifests used equal splits."""
        return {
            "setting": self.settings.setting,
            "split_seed": self.settings.split_seed,
            "clients": {
                client: {
                    "source": self.setting.source_of[client],
                    **(self.samples(client).manifest if self._at_hand(client) else {}),
                }
                for client in self.clients
            },
        }

    def _start(self) -> dict[str, Any]:
        """The shared start; data are read only where what is shared depends on them."""
        plain, method, seed = self._plain_shape(), self.method, self.settings.seed
        if not self._moved_by(plain.other()):
            return start_shared(method, plain, seed)
        return start_shared(method, self._shape(self.clients[0]), seed)

    def _shape(self, client: str) -> Any:
        """As the client told it, or as its samples have it."""
        if client in self.schemas:
            return self.method.task.declared_shape(self.schemas[client], self.method.inputs)
        return self.method.task.shape(self.samples(client))

    def _at_hand(self, client: str) -> bool:
        """Whether this machine has the client's data."""
        own = self.setting.files if isinstance(self.setting, OwnSetting) else {}
        return own.get(client, self.settings.data) is not None

    def _plain_shape(self) -> Any:
        return self.method.task.plain_shape(self.method.inputs)

    def _sizes(self, client: str) -> tuple[int, dict[str, tuple[int, ...]]]:
        """How many scalars the client's model has, and the shapes of what it shares."""
        shape = self._shape(client)
        if shape not in self._sizes_seen:
            with torch.random.fork_rng():
                model = self.method.model(shape)
            state = model.state_dict()
            self._sizes_seen[shape] = (
                sum(parameter.numel() for parameter in model.parameters()),
                {name: tuple(state[name].shape) for name in self.method.shared.pick(state)},
            )
        return self._sizes_seen[shape]

    @cached_property
    def _reading(self) -> Reading:
        return Reading(self.settings.data, self.settings.split_seed, self.method.inputs)

    @cached_property
    def _sizes_seen(self) -> dict[Shape, tuple[int, dict[str, tuple[int, ...]]]]:
        """By shape: many clients may have the same one."""
        return {}

    @cached_property
    def _samples(self) -> dict[str, Any]:
        """Those read so far."""
        return {}

    def _options_of(self, kind: Literal["method", "setting"]) -> dict[str, str]:
        """The options that are this factory's; one that is nobody's is an error."""
        accepted = {
            "method": arguments(method_factory(self.settings.method)),
            "setting": arguments(_setting_factory(self.settings.setting)),
        }
        known = {**accepted["method"], **accepted["setting"]}
        for key in self.settings.options:
            if key not in known:
                raise unknown("option", key, known)
        return {k: v for k, v in self.settings.options.items() if k in accepted[kind]}


def activation_from(text: str) -> Activation:
    """`restart,alpha=0.3` as a rule, or `file.py:Rule,alpha=0.3` for one's own."""
    rule = _rule_from(text, ACTIVATIONS, "activation")
    return _of_kind(
        rule, Activation, text, "It needs `ask`, `score` and `settle`, `keep_own` and `asks_parts`."
    )


def merging_from(text: str) -> Merging:
    """`trimmed-mean,share=0.3` as a rule, or `file.py:Rule,share=0.3` for one's own."""
    rule = _rule_from(text, MERGES, "merge")
    return _of_kind(rule, Merging, text, "It needs `start`, `ask` and `merge`.")


def _rule_from(text: str, rules: Mapping[str, Callable[..., Rule]], kind: str) -> Rule:
    name, options = name_and_options(text)
    factory = factory_named(name, rules, kind)
    known = arguments(factory)
    if options and not known:
        raise RametError(f"{without_folder(name)} has no options. Write --{kind} {name}.")
    for key in options:
        if key not in known:
            raise unknown(f"option of {without_folder(name)}", key, known)
    return made(factory, options, by=f"--{kind}")


def method_factory(name: str) -> Callable[..., Method]:
    """A method by its name, or `module:factory` or `file.py:factory` for one's own."""
    return factory_named(name, METHODS, "method")


def own_files(settings: RunSettings) -> dict[str, Path]:
    """Where the method and the rules lie that are not Ramet's."""
    sources = {
        "method": source_of(settings.method, METHODS),
        "activation": source_of(settings.activation or "", ACTIVATIONS),
        "merge": source_of(settings.merge or "", MERGES),
    }
    return {kind: source for kind, source in sources.items() if source}


def code_of(settings: RunSettings) -> str | None:
    """SHA-256 of the file with what is one's own, of several over theirs; None if nothing is."""
    files = own_files(settings).values()
    found = [hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.is_file()]
    if len(found) > 1:
        return hashlib.sha256("".join(found).encode()).hexdigest()
    return found[0] if found else None


def _of_kind(given: Made, kind: type[Any], name: str, instead: str) -> Made:
    """Refuse what somebody's own factory gave by mistake."""
    if not isinstance(given, kind):
        raise RametError(
            f"{without_folder(name)} gave {type(given).__name__} instead of {kind.__name__}. "
            f"{instead}"
        )
    return given


def _setting_factory(name: str) -> Callable[..., Setting]:
    if name not in SETTINGS:
        raise unknown("setting", name, SETTINGS)
    return SETTINGS[name]
