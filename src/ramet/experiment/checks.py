"""Checks made before a run starts, so that mistakes cost seconds instead of hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from ramet.data.own.schema import CLASSES, TARGETS, Aspect, check_fit, check_same_dates
from ramet.engine.start import new_model, shared_shapes, start_extras, state_names
from ramet.errors import RametError
from ramet.experiment.capabilities import Can, chosen
from ramet.experiment.code import code_sha256
from ramet.experiment.compatibility import check_together, names_of
from ramet.experiment.experiment import Experiment
from ramet.experiment.named import NamedParts
from ramet.experiment.noise_share import check_noise_share
from ramet.experiment.settings import RunSettings, default_data
from ramet.methods import METHODS
from ramet.models.link_reading import values_read
from ramet.models.node_hops import NodeHops
from ramet.models.shape import SHAPES, GraphShape
from ramet.options import absolute_file, is_user_defined
from ramet.partition import SETTINGS, absolute_sites
from ramet.partition.by_target import TargetSetting
from ramet.partition.given import GivenSetting
from ramet.partition.own import SITES
from ramet.privacy.accounting import check_installed
from ramet.privacy.budget import Budget
from ramet.rules.method import AssembledMethod
from ramet.rules.networks import built
from ramet.rules.robust import RobustMerging
from ramet.run_options import CODE
from ramet.tasks import NodeClassification, Numbers, TargetTask


def checked_settings(**given: Any) -> RunSettings:
    """The settings of `checked_experiment`."""
    return checked_experiment(**given).settings


def checked_experiment(**given: Any) -> Experiment:
    """Validate the arguments of a run; ``rounds`` defaults to that of the setting."""
    given = {**given, "options": dict(given.get("options", {}))}
    given["data"] = Path(given.get("data") or default_data()).absolute()
    if given.get("share") is not None:
        given["share"] = tuple(filter(None, given["share"]))
    if SITES in given["options"]:
        given["options"][SITES] = absolute_sites(given["options"][SITES])
    for name in CODE:
        if given.get(name):
            given[name] = absolute_file(given[name])
    if given.get("rounds") is None:
        parts = NamedParts(
            given["method"],
            given["setting"],
            given.get("network"),
            given["options"],
            given["data"],
        )
        given["rounds"] = parts.setting.rounds
    if given.get("dp"):
        given["dp"] = str(Budget.parse(given["dp"]))
    settings = _validated(given)
    experiment = Experiment(settings.model_copy(update={"code": code_sha256(settings)}))
    check_names(experiment)
    return experiment


def _validated(given: Mapping[str, Any]) -> RunSettings:
    try:
        return RunSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise RametError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def check_names(experiment: Experiment) -> None:
    """Reject unknown names, bad options and unmatched patterns before any data is read."""
    method, settings, clients = experiment.method, experiment.settings, len(experiment.clients)
    if not clients:
        raise RametError(
            "no sites are given. Pass each site's file with --site FILE.toml, or --set sites=…"
        )
    _check_parts(method)
    _check_task(experiment)
    shared = shared_shapes(method, experiment.sizes.plain_shape())
    check_extras(method, experiment.same_schema, settings.shown_setting)
    buffers = _buffers(experiment) if settings.dp else []
    found = chosen(method, settings, shared)
    found |= {Can.BUFFERS} if buffers else set()
    found |= {Can.OWN_DATA} if experiment.setting.user_defined else set()
    check_together(found, {**names_of(method), "buffer": ", ".join(buffers[:1])})
    _check_numbers(method, settings, clients)
    if settings.secure:
        _check_secure(clients)
    if settings.budget is not None:
        check_installed()
        _check_protected(settings.budget, method)
        _check_apart(settings.budget, experiment.setting.mixing)
        check_noise_share(experiment)


def _check_apart(budget: Budget, mixing: str | None) -> None:
    """Refuse to promise that a graph matters little if it also changes the features of others."""
    if mixing and budget.unit == "graph":
        raise RametError(f"noise does not cover that {mixing}, so --dp unit=graph is refused.")


def _buffers(experiment: Experiment) -> list[str]:
    """The names of the network's arrays that are not trained."""
    shape, seed = experiment.sizes.plain_shape(), experiment.settings.seed
    model = new_model(experiment.method, shape, seed)
    parameters = dict(model.named_parameters())
    return [name for name in state_names(model) if name not in parameters]


def _check_numbers(method: AssembledMethod, settings: RunSettings, clients: int) -> None:
    """Check that there are enough clients for what the run is to do with their replies."""
    if isinstance(method.merging, RobustMerging):
        needed = method.merging.min_clients(clients)
        if clients < needed:
            raise RametError(
                f"{type(method.merging).__name__} gives no protection with {clients} clients; it "
                f"needs at least {needed}."
            )
    if settings.regions is not None and settings.regions > clients:
        raise RametError(
            f"{settings.regions} regions are more than the {clients} clients of "
            f"{settings.shown_setting}. Choose a smaller number."
        )
    pace = method.pace
    if pace is not None and not pace.simulated and settings.quorum > pace.count:
        raise RametError(
            f"a round ends with {pace.count} replies, which is below the quorum of "
            f"{settings.quorum}. Choose a smaller quorum."
        )
    if settings.quorum > clients:
        raise RametError(
            f"a quorum of {settings.quorum} is larger than the {clients} clients of "
            f"{settings.shown_setting}. Choose a smaller one."
        )


def _check_secure(clients: int) -> None:
    """Check that there are enough clients for secure sums, and that the packages are installed."""
    import ramet.secure.shares  # raises an error that names the extra

    smallest = ramet.secure.shares.SMALLEST
    if clients < smallest:
        raise RametError(
            f"a secure sum needs at least {smallest} clients, but the setting has {clients}: from "
            "a sum of two, each client knows the other's reply. Leave out --secure."
        )


def _check_protected(budget: Budget, method: AssembledMethod) -> None:
    """Check that the task and the network have what the budget protects, and use it as noted."""
    graph, link = budget.unit == "graph", budget.unit == "link"
    if graph and getattr(getattr(method.task, "target", None), "weights", ()) == "balanced":
        raise RametError(
            "weights=balanced does not work with --dp unit=graph: the weights are computed from "
            "a client's graphs without noise. Give them as numbers, as weights=1:30."
        )
    model, task = getattr(method.model, "func", method.model), method.task
    problems = {
        f"its task is {task.name}, in which a client has one graph only": graph
        and SHAPES[task.name] is not GraphShape,
        "its network uses links in every step of training": link and model is not NodeHops,
        "without hops it uses no links, and needs no budget": link and not _hops(method),
        f"its task ({task.name}) uses links besides": link
        and (type(task) is not NodeClassification or bool(task.sample)),
    }
    for reason in (reason for reason, applies in problems.items() if applies):
        advice = "--network hops, with a method such as fedavg" if link else "another unit"
        raise RametError(
            f"{method.name} does not work with --dp unit={budget.unit}: {reason}. Use {advice}."
        )


def _hops(method: AssembledMethod) -> int:
    """Over how many hops the network sums before training; 0 if it does not."""
    with torch.random.fork_rng():
        model = built(method.model, method.task.plain_shape(method.inputs))
    return model.hops if isinstance(model, NodeHops) else 0


def _check_parts(method: AssembledMethod) -> None:
    """Check that rules are objects, not classes, and that releases have all their methods."""
    for part in ("training", "penalty", "after", "activation", "merging", "pace"):
        rule = getattr(method, part)
        if isinstance(rule, type):
            raise RametError(_uncalled(f"{part} of {method.name} is", rule))
    if not isinstance(method.release, tuple):
        raise RametError(
            f"release of {method.name} is {type(method.release).__name__}, not a tuple. Write "
            "`release=(…,)`, with a comma."
        )
    for release in method.release:
        if isinstance(release, type):
            raise RametError(_uncalled(f"release of {method.name} has", release))
        for name in ("leave", "form", "arrive"):
            if not callable(getattr(release, name, None)):
                raise RametError(
                    f"release of {method.name} has {type(release).__name__}, which has no method "
                    f"`{name}`. A release has three: `leave`, `form` and `arrive`."
                )


def _uncalled(found: str, rule: type) -> str:
    return (
        f"{found} the class {rule.__name__}, but an object of it is needed. Write "
        f"`{rule.__name__}(…)`."
    )


def check_extras(method: AssembledMethod, same_schema: bool, setting: str) -> None:
    """Check that the extras have the same meaning on all clients."""
    plain = method.task.plain_shape(method.inputs)
    own, other = (
        {
            name: array.shape
            for arrays in start_extras(method, shape, 0).values()
            for name, array in arrays.items()
        }
        for shape in (plain, plain.other())
    )
    different = [name for name in own if own[name] != other.get(name)]
    if different and not same_schema:
        raise RametError(
            f"{method.name} exchanges '{different[0]}', whose size depends on a client's features "
            f"or classes, but these differ between the clients of {setting}. Choose a setting "
            "whose clients hold parts of one dataset or graph; for your own data, set "
            "same_schema=true if the sites have the same features and classes."
        )


def _check_task(experiment: Experiment) -> None:
    """Check that the method and the data are for the same task."""
    method, setting = experiment.method, experiment.setting
    data_task, needed = setting.task_in(experiment.settings.data), method.task.name
    if data_task in (None, needed):
        return
    own = type(method.task).__module__.partition(".")[0] != "ramet"
    if own and SHAPES[data_task] is SHAPES[needed]:  # it may derive other labels
        return
    built = {name: factory() for name, factory in METHODS.items()}
    methods = [name for name, m in built.items() if m.task is None or m.task.name == data_task]
    settings = [name for name, factory in SETTINGS.items() if factory().task == needed]
    raise RametError(
        f"{method.name} is for {needed}, but the data of {experiment.settings.shown_setting} are "
        f"for {data_task}. Use a method for {data_task} ({', '.join(methods)}), or data for "
        f"{needed} ({', '.join([*settings, 'your own'])})."
    )


def check_clients(experiment: Experiment) -> None:
    """Check that shared arrays have the same shape and meaning on all clients."""
    _check_schemas(experiment)
    if is_user_defined(experiment.settings.setting):
        _check_repeatable(experiment)
    if experiment.settings.dp:
        _check_no_sums(experiment)
    first, *others = experiment.final_clients
    expected = experiment.sizes.exchanged_shapes(first)
    for client in others:
        for name, shape in experiment.sizes.exchanged_shapes(client).items():
            if shape != expected[name]:
                raise RametError(
                    f"'{name}' cannot be shared: it is {list(expected[name])} on {first} but "
                    f"{list(shape)} on {client}. Share only arrays that do not depend on a "
                    "client's features and classes."
                )


def _check_repeatable(experiment: Experiment) -> None:
    """Check that a setting from a file returns the same data when it is asked again."""
    first = experiment.final_clients[0]
    again = Experiment(experiment.settings)
    if again.data_sha256(first) != experiment.data_sha256(first):
        raise RametError(
            f"{experiment.settings.shown_setting} returned other data for {first} when it was "
            "asked again, but every process needs the same. Draw random numbers from a generator "
            "with a seed, in the order of sorted names."
        )


def _check_no_sums(experiment: Experiment) -> None:
    """Check that no sums of columns or numbers were exchanged, which no noise covers."""
    task = experiment.method.task
    with_means = GivenSetting | TargetSetting
    if isinstance(experiment.setting, with_means) and isinstance(task, TargetTask):
        _check_no_means(task)
    for site, schema in experiment.raw_schemas.items():
        if schema.columns:
            what = "predicts numbers" if TARGETS in schema.columns else "declares columns"
            what = "has class_counts" if CLASSES in schema.columns else what
            raise RametError(
                f"{site} {what}, whose sums would leave without noise before round 1. Prepare "
                "features at each site and give them as numbers, predict classes, or leave out "
                "--dp."
            )


def _check_no_means(task: TargetTask) -> None:
    if isinstance(task.target, Numbers):
        raise RametError(
            "the numbers that are predicted are scaled by their mean and deviation over all "
            "clients, which no noise covers. Predict classes, or leave out --dp."
        )


def _check_schemas(experiment: Experiment) -> None:
    """Check that the sites' schemas agree in everything that the shared arrays depend on."""
    if not experiment.schemas:
        return
    sizes, task = experiment.sizes, experiment.method.task
    check_same_dates(experiment.schemas)
    plain = sizes.plain_shape()
    shape_fields = {field.name for field in fields(plain)}
    changed: dict[Aspect, Any] = {
        aspect: replace(plain, **{aspect: getattr(plain.other(), aspect)})
        for aspect in ("features", "classes")
        if aspect in shape_fields
    }
    if "relations" in shape_fields:
        changed = {"types": plain.other(), "features": plain.other()}
    dependent = {aspect: sizes.changed_by(shape) for aspect, shape in changed.items()}
    if values_read(experiment.method.model) or "asked_width" in shape_fields:
        dependent["links"] = [*sizes.shared_names()]
    check_fit(
        experiment.schemas, {aspect: names[0] for aspect, names in dependent.items() if names}
    )
    for schema in experiment.schemas.values():
        task.declared_shape(schema, experiment.method.inputs)
