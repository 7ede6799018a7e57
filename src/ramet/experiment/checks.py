"""What is checked before a run starts, so that mistakes cost seconds and not hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pydantic import ValidationError

from ramet.data.own import Aspect, check_fit
from ramet.engine import start_shared
from ramet.errors import RametError
from ramet.experiment.experiment import Experiment
from ramet.experiment.named import code_of, setting_of
from ramet.experiment.settings import RunSettings
from ramet.methods import METHODS
from ramet.methods.base import check_activation, check_merging
from ramet.options import absolute_file
from ramet.partition import SETTINGS, absolute_sites
from ramet.partition.own import SITES


def checked_settings(**given: Any) -> RunSettings:
    """Settings from arguments; the number of rounds is the setting's unless it is given."""
    given = {**given, "options": dict(given.get("options", {}))}
    if SITES in given["options"]:
        given["options"][SITES] = absolute_sites(given["options"][SITES])
    for name in ("method", "activation", "merge"):
        if given.get(name):
            given[name] = absolute_file(given[name])
    if given.get("rounds") is None:
        setting = setting_of(given["method"], given["setting"], given["options"])
        given["rounds"] = setting.rounds
    settings = _validated(given)
    check_names(Experiment(settings))
    return settings.model_copy(update={"code": code_of(settings)})


def _validated(given: Mapping[str, Any]) -> RunSettings:
    try:
        return RunSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise RametError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def check_names(experiment: Experiment) -> None:
    """Complain about unknown names, bad options and idle patterns before any data are read."""
    method, settings, clients = experiment.method, experiment.settings, len(experiment.clients)
    if not clients:
        raise RametError(
            "no site is named. Give each site's file with --site FILE.toml, or --set sites=…"
        )
    _check_task(experiment)
    shared = start_shared(method, experiment.sizes.plain_shape(), settings.seed)
    check_activation(method, shared)
    check_merging(method, shared, clients)
    if settings.quorum > clients:
        raise RametError(
            f"a quorum of {settings.quorum} is more than the {clients} clients of "
            f"{settings.setting}. Take a smaller one."
        )


def _check_task(experiment: Experiment) -> None:
    """A method is for one task, and so are a setting's data."""
    method, held = experiment.method, experiment.setting.task
    needed = method.task.name
    if held in (None, needed):
        return
    methods = [name for name, factory in METHODS.items() if factory().task.name == held]
    settings = [name for name, factory in SETTINGS.items() if factory().task == needed]
    raise RametError(
        f"{method.name} is for {needed}, and the data of {experiment.settings.setting} are for "
        f"{held}. Take a method for {held} ({', '.join(methods)}), or a setting for {needed} "
        f"({', '.join(settings)})."
    )


def check_clients(experiment: Experiment) -> None:
    """What is shared must have one shape on all clients, and mean the same to them."""
    _check_schemas(experiment)
    first, *others = experiment.clients
    expected = experiment.sizes.shared_shapes(first)
    for client in others:
        for name, shape in experiment.sizes.shared_shapes(client).items():
            if shape != expected[name]:
                raise RametError(
                    f"'{name}' cannot be shared: it is {list(expected[name])} on {first} but "
                    f"{list(shape)} on {client}. Share parts that do not depend on a client's "
                    "features and classes."
                )


def _check_schemas(experiment: Experiment) -> None:
    """The schemas of own files must agree in what the shared arrays depend on."""
    if not experiment.schemas:
        return
    sizes, task = experiment.sizes, experiment.method.task
    plain = sizes.plain_shape()
    names = {field.name for field in fields(plain)}
    changed: dict[Aspect, Any] = {
        aspect: replace(plain, **{aspect: getattr(plain.other(), aspect)})
        for aspect in ("features", "classes")
        if aspect in names
    }
    if "relations" in names:
        changed = {"types": plain.other(), "features": plain.other()}
    dependent = {aspect: sizes.changed_by(shape) for aspect, shape in changed.items()}
    check_fit(
        experiment.schemas, {aspect: found[0] for aspect, found in dependent.items() if found}
    )
    for schema in experiment.schemas.values():
        task.declared_shape(schema, experiment.method.inputs)
