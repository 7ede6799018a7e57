"""Authors' protocols: where the programs behind printed figures differ from our defaults.

Each method's file says what its authors do differently, as values of options. ``--set
protocol=authors`` sets all of them that are not given, and tables of them are generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ramet.errors import RametError

Protocol: TypeAlias = Literal["ramet", "authors"]
OTHERS = "*"


@dataclass(frozen=True)
class Deviation:
    """An option that has another value in the authors' runs.

    Args:
        option: of the method, its activation, network or training, or of the setting.
        authors: the value as `--set` takes it, or a value for each setting that they ran; ``*``
            stands for all others.
        where: where they say it.
    """

    option: str
    authors: str | Mapping[str, str]
    where: str

    def value(self, setting: str) -> str:
        if isinstance(self.authors, str):
            return self.authors
        value = self.authors.get(setting, self.authors.get(OTHERS))
        if value is None:
            raise RametError(
                f"the authors did not run {setting}, so {self.option} has no value under "
                f"protocol=authors. Use {', '.join(self.authors)}, or omit the protocol and set "
                "the options one by one."
            )
        return value


@dataclass(frozen=True)
class Authors:
    """What the authors of a paper do differently.

    Args:
        setting: the setting of their main table, by which our values are looked up.
        deviations: what protocol=authors sets.
        not_followed: what it does not set, with the reason.
    """

    setting: str
    deviations: tuple[Deviation, ...]
    not_followed: tuple[str, ...] = ()

    def options(self, setting: str) -> dict[str, str]:
        """The authors' values on a setting."""
        return {one.option: one.value(setting) for one in self.deviations}
