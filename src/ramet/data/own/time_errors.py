"""What is wrong with the times in a site's TOML file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ramet.data.own.parts import EdgePart, GraphPart, NodePart
from ramet.data.own.schema import TaskName
from ramet.data.own.time_split import TimeSplit


class Timed(Protocol):
    """The parts of a site's TOML file that have to do with times."""

    @property
    def task(self) -> TaskName: ...

    @property
    def tensors(self) -> str | None: ...

    @property
    def nodes(self) -> dict[str, NodePart]: ...

    @property
    def edges(self) -> dict[str, EdgePart]: ...

    @property
    def graphs(self) -> GraphPart | None: ...

    @property
    def split(self) -> TimeSplit | None: ...


def time_errors(site: Timed) -> Iterator[str]:
    """What contradicts itself or the task, in training and in new data."""
    sampled = _sampled(site)
    for kind, where, part in _parts(site):
        if part.time is not None and kind != sampled:
            move = "Name it in [graphs]" if sampled == "graphs" else "Remove it"
            yield f"{where} has 'time', which {site.task} does not read. {move}"
    if site.split is None:
        return
    yield from site.split.errors()
    for where, time, split in _samples(site):
        if time is None:
            yield f"{where} lacks 'time', the column with the date of each row, for [split]"
        if split is not None:
            yield f"{where} has 'split' = \"{split}\", and there is [split]; use one of them"
    if sampled == "graphs":
        for name, edges in site.edges.items():
            if edges.windows:
                yield (
                    f"[edges.{name}] has 'windows', which count back from the last edge of all "
                    "graphs, also of later ones. Remove them, or [split]"
                )


def unread_times(site: Timed) -> Iterator[str]:
    """Times that nothing reads; new data may have them."""
    if site.split is not None:
        return
    add = "which only [split] with by = \"time\" reads. Add it, or remove 'time'"
    for _, where, part in _parts(site):
        if part.time is not None:
            yield f"{where} has 'time', {add}"
    if site.task == "link-prediction":
        for name, edges in site.edges.items():
            if edges.time is not None:
                yield f"[edges.{name}] has 'time', {add}"


def _sampled(site: Timed) -> str:
    """What the task's samples are."""
    return {"graph": "graphs", "node": "nodes"}.get(site.task.partition("-")[0], "links")


def _parts(site: Timed) -> Iterator[tuple[str, str, NodePart | GraphPart]]:
    for name, part in site.nodes.items():
        yield "nodes", f"[nodes.{name}]", part
    if site.graphs is not None:
        yield "graphs", "[graphs]", site.graphs


def _samples(site: Timed) -> Iterator[tuple[str, str | None, str | None]]:
    """The tables with the samples, their column of times and their split column."""
    if _sampled(site) == "links":
        labelled = [name for name, edges in site.edges.items() if edges.label is not None]
        for name, edges in site.edges.items():
            if labelled and name not in labelled:
                continue
            if edges.file is not None or site.tensors is not None:
                yield f"[edges.{name}]", edges.time, edges.split
        return
    for kind, where, part in _parts(site):
        if kind == _sampled(site):
            yield where, part.time, part.split
