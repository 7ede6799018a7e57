"""What an audit found: one line per attack and view."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ramet.errors import RametError, unknown
from ramet.leak.intervals import Estimate

NAME = "leak.json"
"""The audit's file in the folder of the run."""
View: TypeAlias = Literal["replies", "sums", "prepared", "rounds", "model", "predictions"]
VIEWS: dict[View, str] = {
    "replies": "the coordinator, who sees each reply of a site",
    "sums": "the coordinator of secure sums, who sees these and their differences",
    "prepared": "a lying coordinator, who sends one prepared message",
    "rounds": "another member, who receives the merged model of every round",
    "model": "whoever receives a site's final model",
    "predictions": "whoever sees the final model's predictions for a site's data",
}
ATTACKS: dict[str, str] = {
    "degrees": "which degrees occur at a site (F1)",
    "features": "features of a site with one training sample (cosine)",
    "rows": "training samples whose features are read off (share)",
    "labels": "shares of classes at a site (error, total variation)",
    "membership": "which samples were trained with, by their loss (AUC)",
    "membership-tpr": "the same: found members at 1 % false alarms",
    "lira": "which samples were trained with, by likelihood ratios of shadow runs (AUC)",
    "lira-tpr": "the same: found members at 1 % false alarms",
    "links": "which pairs of nodes are linked (AUC)",
    "epsilon": "lower bound on ε from canaries",
}
_SMALLER_IS_WORSE = ("labels",)
"""Attacks whose number is an error."""


@dataclass(frozen=True)
class Finding:
    """The result of an attack, or why it does not apply.

    Args:
        attack: a name from ``ATTACKS``.
        view: what the attacker sees.
        value: what the attack achieved; None if it does not apply.
        low: lower end of the 95 % interval.
        high: upper end; None if there is none.
        chance: what an attacker gets who does not see this.
        samples: on how many samples, links, degrees or sites the number rests.
        note: why the attack does not apply, or how the number is to be read.
        control: what the attack achieved on a run that is made to leak; None if it was not needed.
        has_power: whether it found a leak there, or here; if not, finding nothing means nothing.
    """

    attack: str
    view: View
    value: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    samples: int = 0
    note: str = ""
    control: float | None = None
    has_power: bool = True

    @property
    def is_error(self) -> bool:
        """Whether a smaller number means that more leaks."""
        return self.attack in _SMALLER_IS_WORSE

    @property
    def leaks(self) -> bool:
        """Whether the whole interval is on the attacker's side of chance."""
        if self.value is None or self.chance is None:
            return False
        if self.is_error:
            return self.high is not None and self.high < self.chance
        return self.low is not None and self.low > self.chance

    @property
    def cells(self) -> tuple[str, str, str]:
        """Result, interval and chance, as tables show them."""
        if self.value is None:
            return "–", "", ""
        low = "–∞" if self.low is None else f"{self.low:.3f}"
        high = "∞" if self.high is None else f"{self.high:.3f}"
        return f"{self.value:.3f}", f"{low} to {high}", f"{self.chance:.3f}"

    def above(self, bar: float) -> bool:
        """Whether the attack achieved more than the bar allows."""
        if self.value is None:
            return False
        return self.value < bar if self.is_error else self.value > bar


def finding(
    attack: str, view: View, estimate: Estimate, chance: float, samples: int, note: str = ""
) -> Finding:
    return Finding(
        attack,
        view,
        _finite(estimate.value),
        _finite(estimate.low),
        _finite(estimate.high),
        _finite(chance),
        samples,
        note,
    )


def not_applicable(attack: str, view: View, reason: str) -> Finding:
    return Finding(attack, view, note=reason)


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


@dataclass(frozen=True)
class Audit:
    """All findings about a run.

    Args:
        run: the command that repeats the audited run.
        sha256: of the run's result.
        protection: what protected replies.
        findings: one per attack and view.
        facts: numbers of the audit, such as its seed.
    """

    run: str
    sha256: str
    protection: str
    findings: tuple[Finding, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found = [{**asdict(one), "leaks": one.leaks} for one in self.findings]
        return {**asdict(self), "findings": found}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Audit:
        found = [{k: v for k, v in one.items() if k != "leaks"} for one in stored["findings"]]
        return Audit(**{**stored, "findings": tuple(Finding(**one) for one in found)})

    def of(self, attack: str, view: View) -> Finding | None:
        return next(
            (one for one in self.findings if (one.attack, one.view) == (attack, view)), None
        )

    def over(self, bars: Mapping[str, float]) -> list[Finding]:
        """The findings that exceed the bar of their attack."""
        return [one for one in self.findings if one.attack in bars and one.above(bars[one.attack])]

    def without_result(self, bars: Mapping[str, float]) -> list[str]:
        """The attacks with a bar that have no result, because they do not apply or were not run."""
        measured = {one.attack for one in self.findings if one.value is not None}
        return [attack for attack in bars if attack not in measured]


def stored_audit(run: Path) -> Audit | None:
    """The audit in a run's folder; None if there is none, or if the run has gone on since."""
    path, result = run / NAME, run / "result.json"
    if not path.exists() or not result.exists():
        return None
    audit = Audit.from_json(json.loads(path.read_text()))
    return audit if json.loads(result.read_text())["sha256"] == audit.sha256 else None


def parse_bars(texts: Iterable[str]) -> dict[str, float]:
    """Parse ``membership=0.6`` and the like."""
    bars = {}
    for text in texts:
        attack, _, number = text.partition("=")
        if attack not in ATTACKS:
            raise unknown("attack", attack, ATTACKS)
        try:
            bars[attack] = float(number)
        except ValueError as error:
            raise RametError(
                f"--bar expects ATTACK=NUMBER, not '{text}'. Example: --bar membership=0.6."
            ) from error
    return bars
