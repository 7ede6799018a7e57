"""Checks of settings that users write, so that a mistake is said before a run starts."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, TypeAlias

import torch

from ramet.data import ClientData, GraphBlock, HeteroGraph, NodeGraph, Split
from ramet.data.splits import PARTS
from ramet.errors import RametError
from ramet.partition.base import Reading, Setting

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
Content: TypeAlias = GraphBlock | NodeGraph | HeteroGraph


def check_complete(factory: object, name: str) -> None:
    """Refuse a class that lacks what a setting has to say."""
    missing = sorted(getattr(factory, "__abstractmethods__", ()))
    if missing:
        raise RametError(
            f"the setting {name} lacks {' and '.join(f'`{one}`' for one in missing)}. A setting "
            "says its `task` and its `clients`, and returns each one's data from "
            "`client_data(client, reading)`."
        )


def check_setting(setting: Setting, name: str) -> None:
    """Check what a setting says of itself."""
    clients = setting.clients
    if not isinstance(clients, tuple) or not clients or not all(map(is_name, clients)):
        raise RametError(
            f"`clients` of the setting {name} must be a tuple of names, such as ('north', "
            f"'south'): letters, digits, - and _. It is {clients!r}."
        )
    twice = [client for client, times in Counter(clients).items() if times > 1]
    if twice:
        raise RametError(f"the setting {name} has two clients called {twice[0]}. Rename one.")
    if not isinstance(setting.rounds, int) or setting.rounds < 1:
        raise RametError(f"`rounds` of the setting {name} must be 1 or more.")


def is_name(client: object) -> bool:
    return isinstance(client, str) and _NAME.fullmatch(client) is not None


def data_of(setting: Setting, client: str, reading: Reading) -> ClientData[Any, Any]:
    """A client's data, checked."""
    data, place = setting.client_data(client, reading), f"{type(setting).__name__}.client_data"
    if not isinstance(data, ClientData) or not isinstance(data.content, Content):
        raise RametError(
            f"{place} returned {_kind(data)} for {client}, but a ClientData is needed. Turn PyG's "
            "objects into one with `from_pyg(data, reading)`."
        )
    if isinstance(data.split, Split) and data.evaluated_on is None:
        _check_split(data.content, data.split, f"{place} of {client}")
    return data


def _kind(data: object) -> str:
    if isinstance(data, ClientData):
        return f"a ClientData of {type(data.content).__name__}"
    return type(data).__name__


def _check_split(content: Content, split: Split, place: str) -> None:
    """Check that each sample is there, and is in one part only."""
    total = content.nodes if isinstance(content, HeteroGraph) else len(content.labels)
    samples = torch.cat([getattr(split, part) for part in PARTS])
    chosen, times = torch.unique(samples, return_counts=True)
    outside, twice = chosen[(chosen < 0) | (chosen >= total)], chosen[times > 1]
    if outside.numel():
        raise RametError(
            f"{place}: the split has sample {int(outside[0])}, but there are {total}, from 0 on."
        )
    if twice.numel():
        raise RametError(
            f"{place}: sample {int(twice[0])} is in two parts of the split, or twice in one. A "
            "test on samples of training says nothing."
        )
