"""Find tasks and metrics by name, or in a user's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from ramet.errors import RametError, unknown
from ramet.metrics.metric import Metric
from ramet.options import Built, build, factory_named, is_user_defined, without_folder
from ramet.rules.method import AssembledMethod
from ramet.tasks import (
    TASK_METRICS,
    TASKS,
    EdgeClassification,
    GraphClassification,
    NodeClassification,
    TargetTask,
    Task,
)


def with_metric(
    method: AssembledMethod, metric: str | None, default: str | None = None
) -> AssembledMethod:
    """The method with another metric in validation and test scores.

    ``default`` replaces the task's own default, except in a user-defined task.
    """
    task = method.task
    if metric is None:
        if default is None or not isinstance(
            task, GraphClassification | NodeClassification | EdgeClassification
        ):
            return method
        metric = default
    if isinstance(task, TargetTask):
        return replace(method, task=task.measured_by(metric_named(metric, task)))
    known = TASK_METRICS[task.name]
    if metric not in known:
        raise unknown(f"metric for {task.name}", metric, known)
    if not is_dataclass(task):
        raise RametError(
            f"{method.name} has a task of its own, which decides its metric. Omit --metric."
        )
    return replace(method, task=replace(task, metric=metric))


def metric_named(name: str, task: TargetTask) -> Metric:
    """A metric of the task, or that in a user's file."""
    if not is_user_defined(name):
        if name not in task.metrics:
            raise unknown(f"metric for {task.name}", name, task.metrics)
        return task.metrics[name]
    found: Any = factory_named(name, task.metrics, "metric")
    metric: Metric = checked_type(found, Metric, name, 'Write `mine = Metric("mine", compute)`.')
    return metric


def task_factory(name: str) -> Callable[..., Task]:
    """A built-in task by its name, or `module:factory` or `file.py:factory`."""
    return factory_named(name, TASKS, "task")


def task_named(name: str) -> Task:
    """The task with its default options."""
    return built_task(task_factory(name), {}, name)


def built_task(factory: Callable[..., Task], options: Mapping[str, str], name: str) -> Task:
    hint = "Return a task such as `NodeRegression()`, or a class derived from it."
    return checked_type(build(factory, options), Task, name, hint)


def checked_type(built: Built, kind: type[Any], name: str, hint: str) -> Built:
    """Check the type of what a user's factory returned."""
    if not isinstance(built, kind):
        raise RametError(
            f"{without_folder(name)} returned {type(built).__name__} instead of {kind.__name__}. "
            f"{hint}"
        )
    return built
