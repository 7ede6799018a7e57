"""What links carry besides their ends: attributes, weights, directions and times, all optional."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

Neutral: TypeAlias = dict[str, float]
_NAMES = {
    "attributes": "edge_attr",
    "weights": "edge_weight",
    "directions": "edge_direction",
    "times": "edge_time",
}
_NEUTRAL: Neutral = {"attributes": 0.0, "weights": 1.0, "directions": 0, "times": float("nan")}


@dataclass(frozen=True)
class LinkValues:
    """A row for each link; what the data lack is None.

    A direction is 1 or -1 for links that go one way, and 0 for links that go both ways. Whoever
    stores links says which way 1 is.
    """

    attributes: Tensor | None = None  # [links, width] floats
    weights: Tensor | None = None  # [links] floats, none negative
    directions: Tensor | None = None  # [links] int8
    times: Tensor | None = None  # [links] float64: days since 1970, in UTC

    def __bool__(self) -> bool:
        return any(value is not None for value in self._all.values())

    def __getitem__(self, links: Tensor | slice) -> LinkValues:
        """The values of some links."""
        return self._each(lambda _, value: value[links]) if self else self

    @property
    def width(self) -> int:
        return 0 if self.attributes is None else self.attributes.size(1)

    @property
    def directed(self) -> bool:
        return self.directions is not None

    def turned(self, swapped: Tensor) -> LinkValues:
        """The same links where those whose ends were swapped go the other way."""
        if self.directions is None:
            return self
        turned = torch.where(swapped, -self.directions, self.directions)
        return LinkValues(self.attributes, self.weights, turned, self.times)

    def lengthened(self, links: int) -> LinkValues:
        """These values, and neutral ones for links that somebody made up."""

        def added(name: str, value: Tensor) -> Tensor:
            new = value.new_full((links, *value.shape[1:]), _NEUTRAL[name])
            return torch.cat([value, new])

        return self._each(added) if self else self

    def to(self, device: torch.device) -> LinkValues:
        return self._each(lambda _, value: value.to(device)) if self else self

    def tensors(self) -> dict[str, Tensor]:
        """All values by their names in PyG, for storing."""
        return {
            _NAMES[name]: value.contiguous()
            for name, value in self._all.items()
            if value is not None
        }

    @staticmethod
    def taken_from(tensors: Mapping[str, Tensor]) -> tuple[LinkValues, dict[str, Tensor]]:
        """The values among stored tensors, and the other tensors."""
        values = LinkValues(*(tensors.get(stored) for stored in _NAMES.values()))
        return values, {n: t for n, t in tensors.items() if n not in _NAMES.values()}

    @staticmethod
    def joined(parts: Sequence[LinkValues]) -> LinkValues:
        """The values of links one after another; each part has the same ones."""

        def value_of(name: str) -> Tensor | None:
            found = [one for part in parts if (one := getattr(part, name)) is not None]
            return torch.cat(found) if found else None

        return LinkValues(*(value_of(field.name) for field in fields(LinkValues)))

    @property
    def _all(self) -> dict[str, Tensor | None]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _each(self, change: Callable[[str, Tensor], Tensor]) -> LinkValues:
        changed: dict[str, Any] = {
            name: None if value is None else change(name, value)
            for name, value in self._all.items()
        }
        return LinkValues(**changed)


NO_VALUES = LinkValues()


@dataclass(frozen=True)
class Edges:
    """Links from source to target; a link that goes both ways is there twice."""

    index: Tensor  # [2, edges]
    values: LinkValues  # [edges]
    links: Tensor
    """[edges] which link an edge is; empty where links have no numbers."""

    @property
    def going(self) -> Edges:
        """Without the edges against the direction of their links, and without directions."""
        ways, values = self.values.directions, replace(self.values, directions=None)
        if ways is None:
            return self
        kept = (ways >= 0).nonzero().flatten()
        links = self.links[kept] if self.links.numel() else self.links
        return Edges(self.index[:, kept], values[kept], links)


class HasEdges(ABC):
    """A graph with its links under their names in PyG."""

    link_values: LinkValues

    @property
    @abstractmethod
    def both_ways(self) -> Edges:
        """Each link in both directions; an edge of direction -1 is against that of its link."""

    @cached_property
    def edges(self) -> Edges:
        """The links as PyG has them."""
        return self.both_ways.going

    @property
    def directed(self) -> bool:
        """Whether links may go one way only."""
        return self.link_values.directed

    @property
    def edge_index(self) -> Tensor:
        """[2, edges] sources and targets; a link that goes both ways is there twice."""
        return self.edges.index

    @property
    def edge_attr(self) -> Tensor | None:
        """[edges, width] the attributes of the links; None without any."""
        return self.edges.values.attributes

    @property
    def edge_weight(self) -> Tensor | None:
        """[edges] the weights of the links; None without any."""
        return self.edges.values.weights

    @property
    def edge_time(self) -> Tensor | None:
        """[edges] the times of the links, in days since 1970; None without any."""
        return self.edges.values.times
