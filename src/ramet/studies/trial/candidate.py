"""A method to try: its name, the other parts of its runs, and a setting that suits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from ramet.data.sources.planted_targets import TargetTaskName
from ramet.errors import RametError
from ramet.experiment import RunSettings
from ramet.experiment.capabilities import chosen
from ramet.experiment.checks import check_extras
from ramet.experiment.code import user_files
from ramet.experiment.compatibility import check_together, names_of
from ramet.experiment.named import NamedParts, activation_from, merging_from, release_from
from ramet.experiment.named_tasks import task_named
from ramet.options import absolute_file, allow_code, without_folder
from ramet.studies.trial.findings import error_in_words
from ramet.tasks import TaskName

_OFFLINE: dict[TaskName, tuple[str, dict[str, str]]] = {
    "graph-classification": ("tiny", {}),
    "node-classification": ("planted", {"nodes": "400", "links": "1000", "clients": "4"}),
    "link-prediction": ("planted-hetero", {"nodes": "80", "links": "300"}),
    **{task: ("planted-targets", {"predicts": task}) for task in get_args(TargetTaskName)},
}
"""A small setting without downloads for each task, and its options."""


@dataclass(frozen=True)
class Candidate:
    """A method to try, by name, with the other parts of its runs.

    Args:
        method: a built-in name, or ``file.py:factory``.
        data: the folder of datasets.
        setting: a built-in name, or ``file.py:setting``; None for a small one, without downloads,
            of the method's task.
        task: a built-in name, or ``file.py:task``; None for that of the method or the setting, or
            else the first that the network can be built for.
        network: for a method that brings none; None for the default of the task.
        options: of the method, the setting, the network and the training.
        activation: replaces the method's rule.
        merge: replaces the weighted mean.
        release: what happens to a reply before it leaves a site.
        rounds: of each run, at least 2.
    """

    method: str
    data: Path
    setting: str | None = None
    task: str | None = None
    network: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    activation: str | None = None
    merge: str | None = None
    release: str | None = None
    rounds: int = 3

    def arguments(self) -> dict[str, Any]:
        """The arguments of `checked_settings`; an unknown name or option is an error.

        So is a task that is named and does not suit.
        """
        given = self._given()
        try:
            setting, options = self._chosen_setting(given)
            _check_names(given, self._parts(given, setting, options))
        except RametError:
            raise
        except Exception as error:
            raise RametError(f"cannot build the run: {_in_user_code(error, given)}") from error
        if self.task is not None:
            reason = _why_not(self._parts(given, setting, options), given)
            if reason is not None:
                raise RametError(reason)
        return {**given, "setting": setting, "options": options}

    def on_every_task(self) -> list[Candidate]:
        """The same method on each task that it suits; an error if a setting or a task is chosen."""
        if self.setting is not None:
            raise RametError("--task all chooses a setting for each task. Omit --setting.")
        suited = [task for task in _OFFLINE if task not in self.unsuited]
        if self._own_task is not None:
            return [self]
        return [replace(self, task=task) for task in suited]

    def _given(self) -> dict[str, Any]:
        names = {
            "method": self.method,
            "network": self.network,
            "task": self.task,
            "activation": self.activation,
            "merge": self.merge,
            "release": self.release,
        }
        files = {kind: absolute_file(name) for kind, name in names.items() if name}
        allow_code(self.setting, *files.values())
        return {**files, "data": self.data, "rounds": self.rounds}

    def _chosen_setting(self, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        if self.setting is not None:
            return self.setting, {**self.options}
        task = self._own_task
        if task is not None and self.task is not None:
            raise RametError(f"{without_folder(self.method)} is for {task}. Omit --task.")
        if self.task is not None:
            task = task_named(given["task"]).name
        elif task is None:
            task = self._first_suited()
        name, options = _OFFLINE[task]
        return name, {**options, **self.options}

    def _first_suited(self) -> TaskName:
        for task in _OFFLINE:
            if task not in self.unsuited:
                return task
        causes = {reason.partition(". ")[0] for reason in self.unsuited.values()}
        if len(causes) == 1:
            raise RametError(next(iter(self.unsuited.values())))
        reasons = "; ".join(f"{task}: {reason}" for task, reason in self.unsuited.items())
        raise RametError(f"the method suits no task. {reasons}")

    @cached_property
    def unsuited(self) -> dict[TaskName, str]:
        """The tasks that the method cannot be tried on, with the reason; none if one is chosen."""
        if self.setting is not None or self.task is not None:
            return {}
        own = self._own_task
        if own is not None:
            return {
                task: f"{without_folder(self.method)} is for {own}."
                for task in _OFFLINE
                if task != own
            }
        given = self._given()
        found = {
            task: _why_not(self._parts(given, name, {**options, **self.options}), given)
            for task, (name, options) in _OFFLINE.items()
        }
        return {task: reason for task, reason in found.items() if reason is not None}

    @cached_property
    def _own_task(self) -> TaskName | None:
        task = self._parts(self._given(), "tiny", self.options).bare_method.task
        return None if task is None else task.name

    def _parts(
        self, given: Mapping[str, Any], setting: str, options: Mapping[str, str]
    ) -> NamedParts:
        names = given["method"], setting, given.get("network")
        return NamedParts(*names, options, self.data, given.get("task"))


def _why_not(parts: NamedParts, given: Mapping[str, Any]) -> str | None:
    """Why the method and the network are not for the task of the setting; None if they are."""
    try:
        method = parts.assembled()
        check_extras(method, parts.same_schema, parts.setting_name)
        check_together(chosen(method), names_of(method))
    except Exception as error:  # noqa: BLE001 - whatever user-defined code raises
        return _in_user_code(error, given)
    return None


def _check_names(given: Mapping[str, Any], parts: NamedParts) -> None:
    """Raise an error for an unknown name or option."""
    _ = parts.setting
    if "activation" in given:
        activation_from(given["activation"])
    if "merge" in given:
        merging_from(given["merge"])
    if "release" in given:
        release_from(given["release"])


def _in_user_code(error: Exception, given: Mapping[str, Any]) -> str:
    settings = RunSettings.model_validate({**given, "setting": ""})
    return error_in_words(error, user_files(settings).values())
