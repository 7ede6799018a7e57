"""Generated clients for tasks that few benchmarks have: numbers, labels, classes of edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import PositiveInt
from torch import Tensor

from ramet.data import ClientData, Split, StructureEncoding
from ramet.data.label_scale import standardising
from ramet.data.own.schema import target_kind
from ramet.data.sources.planted_targets import TargetTaskName, planted_targets
from ramet.partition.base import Reading, Setting
from ramet.partition.pyg_objects import from_pyg


@dataclass(frozen=True)
class TargetSetting(Setting):
    """Clients with generated data for one task."""

    task: TargetTaskName = "node-regression"
    clients: tuple[str, ...] = ()
    about: str = "generated numbers, several labels, or classes of edges"

    def client_data(self, client: str, reading: Reading) -> ClientData[Any, Split]:
        index, count = self.clients.index(client), len(self.clients)
        data = _data(self.task, index, reading)
        if target_kind(self.task) != "number":
            return data
        scale = _common_scale(self.task, count, reading.split_seed)
        return replace(data, content=replace(data.content, label_scale=scale))


def _data(task: TargetTaskName, client: int, reading: Reading) -> ClientData[Any, Split]:
    is_edges = task == "edge-classification"
    objects = planted_targets(task, client)
    return from_pyg(objects, reading, classes=2 if is_edges else None, directed=is_edges, task=task)


@lru_cache(maxsize=32)
def _common_scale(task: TargetTaskName, clients: int, split_seed: int) -> Tensor:
    """The means and deviations of the numbers of all clients' training samples."""
    reading = Reading(Path(), split_seed, StructureEncoding(0, 0))
    every = (_data(task, client, reading) for client in range(clients))
    return standardising([data.content.labels[data.split.train] for data in every])


def by_target(
    predicts: TargetTaskName = "node-regression", clients: PositiveInt = 3
) -> TargetSetting:
    """``predicts``: a task for numbers, several labels or edges."""
    return TargetSetting(predicts, tuple(f"site-{number}" for number in range(1, clients + 1)))
