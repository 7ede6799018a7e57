"""A split by time: training ends first, then validation, then test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate, pairwise
from math import inf, isclose
from typing import Annotated, Any, Literal, TypeAlias

import torch
from pydantic import BeforeValidator, Field, StrictBool
from torch import Tensor

from ramet.data.own.columns import EPOCH, days_since_1970
from ramet.data.own.parts import Part
from ramet.data.splits import PARTS

_NO_PART = -1
_DATES = ("train_until", "validate_until", "test_until")


def _date_text(given: Any) -> str:
    """A date or a moment in ISO format; TOML has them as values, too."""
    text = given.isoformat() if isinstance(given, date) else given
    if not isinstance(text, str):
        raise ValueError("this is no date")
    _end(text)
    return text


def _end(text: str) -> float:
    """Days from 1970 to the end of a day, or to a moment."""
    when, whole_day = days_since_1970(text), len(text) <= len("2026-03-31")
    return when + 1 if whole_day else when


DateText: TypeAlias = Annotated[str, BeforeValidator(_date_text)]
Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


class TimeSplit(Part):
    """When the parts end: given by dates, or by shares of the site's own samples."""

    by: Literal["time"]
    train_until: DateText | None = None
    validate_until: DateText | None = None
    test_until: DateText | None = None
    shares: tuple[Share, Share, Share] | None = None
    own: StrictBool = False
    """Whether other sites may have other dates."""

    @property
    def dates(self) -> tuple[str, ...]:
        given = (self.train_until, self.validate_until, self.test_until)
        return tuple(one for one in given if one is not None)

    @property
    def agreed(self) -> tuple[str, ...]:
        """The dates that all sites must have; empty if each has its own."""
        return () if self.own else self.dates

    def errors(self) -> Iterator[str]:
        if self.shares is not None:
            if self.dates:
                yield "[split] has both 'shares' and dates; use one of them"
            if not isclose(sum(self.shares), 1, abs_tol=1e-6):
                yield f"the 'shares' of [split] add up to {sum(self.shares):g} instead of 1"
            if self.own:
                yield "[split] has 'shares', which are each site's own anyway. Remove 'own'"
            return
        if not self.dates:
            yield (
                "[split] has no dates. Write train_until and validate_until, which are the same "
                "at all sites, or shares = [0.6, 0.2, 0.2]"
            )
            return
        for key in _DATES[:2]:
            if getattr(self, key) is None:
                yield f"[split] lacks '{key}', a date such as 2026-03-31"
        given = [key for key in _DATES if getattr(self, key) is not None]
        for earlier, later in pairwise(given):
            first, second = getattr(self, earlier), getattr(self, later)
            if _end(second) <= _end(first):
                yield f"'{later}' of [split] is {second}, which is not after '{earlier}', {first}"

    def periods(self, times: Tensor) -> Periods:
        """The ends of the parts; with shares, from the times of the site's samples.

        Without a date, the test ends with the day of the last sample.
        """
        last = float(times.max().floor()) + 1 if times.numel() else inf
        if self.shares is None:
            first, second, *given = map(_end, self.dates)
            return Periods((first, second, given[0] if given else last))
        ordered, total = times.sort().values, times.numel()
        if not total:
            return Periods((inf, inf, inf))
        first, second = (
            float(ordered[min(round(share * total), total - 1)])
            for share in [*accumulate(self.shares)][:2]
        )
        return Periods((first, second, last))


@dataclass(frozen=True)
class Periods:
    """When training, validation and test end, in days since 1970; each end belongs to the next."""

    ends: tuple[float, float, float]

    def parts(self, times: Tensor) -> Tensor:
        """The part of each sample; -1 for those without a time, and after the end of the test."""
        ends = torch.tensor(self.ends, dtype=torch.float64)
        parts = torch.bucketize(times.double(), ends, right=True)
        parts[times.isnan() | (parts == len(PARTS))] = _NO_PART
        return parts

    def in_words(self) -> list[str]:
        """Until when each part goes."""
        return [*map(_moment, self.ends)]


def _moment(days: float) -> str:
    """The last day before an end, or the moment that it is."""
    if days == inf:
        return "no date"
    when = EPOCH + timedelta(days=days)
    if days == int(days):
        return f"{when - timedelta(days=1):%Y-%m-%d}"
    return f"{when:%Y-%m-%d %H:%M}"
