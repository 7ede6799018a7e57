"""One model against another, month after month."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ramet.prediction import Against
from ramet.prediction.lines import LEVEL, Line
from ramet.studies.gains import holm


@dataclass(frozen=True)
class Months:
    """The same two runs on the new data of several months, in their order."""

    found: tuple[Against, ...]

    @property
    def first(self) -> Against:
        return self.found[0]

    @property
    def lines(self) -> list[Line]:
        """The metric of the run, by month."""
        return [one.lines[0] for one in self.found]

    @property
    def p_values(self) -> list[float]:
        """Adjusted for the number of months."""
        adjusted = holm([line.p_value for line in self.lines])
        return [1.0 if one is None else one for one in adjusted]

    @property
    def gains(self) -> list[float]:
        """By month; positive if the new run is better."""
        differences = [line.difference for line in self.lines]
        scales = [line.scale for line in self.lines]
        return [
            0.0 if one is None else scale.gain(one.value, 0)
            for one, scale in zip(differences, scales, strict=True)
        ]

    @property
    def told(self) -> list[bool]:
        """Whether a month's difference is more than chance."""
        return [one < LEVEL for one in self.p_values]

    @property
    def verdict(self) -> str:
        new, other = self.first.runs
        told = [gain for gain, sure in zip(self.gains, self.told, strict=True) if sure]
        better, worse, every = (
            sum(gain > 0 for gain in told),
            sum(gain < 0 for gain in told),
            len(self.found),
        )
        rest, by = every - better - worse, f"by {self.lines[0].metric}"
        if rest == every:
            return (
                f"{self.first.client}: {new} and {other} differ no more than by chance in all "
                f"{every} months, {by}"
            )
        return (
            f"{self.first.client}: {new} is better than {other} in {better} of {every} months and "
            f"worse in {worse}, {by}; in {rest} they differ no more than by chance"
        )

    def to_json(self) -> dict[str, Any]:
        pairs = zip(self.found, self.p_values, strict=True)
        months = [{**one.to_json(), "p_holm": p_value} for one, p_value in pairs]
        return {"verdict": self.verdict, "months": months}
