"""What does not work together, as tables of pages."""

from __future__ import annotations

from collections.abc import Iterable

from ramet.experiment.capabilities import CAPABILITIES, Can
from ramet.experiment.compatibility import ANY_NAMES, REFUSED, Kind


def compatibility_markdown(kind: Kind) -> str:
    """A row for each reason why capabilities do not work together."""
    found = [refusal for refusal in REFUSED if refusal.kind == kind]
    lines = ["| this | not with | because |", "|---" * 3 + "|"]
    for why in dict.fromkeys(refusal.why for refusal in found):
        rows = [refusal for refusal in found if refusal.why == why]
        ones, others = _named(row.one for row in rows), _named(row.other for row in rows)
        lines.append(f"| {ones} | {others} | {why.format_map(ANY_NAMES)} |")
    return "\n".join(lines)


def _named(capabilities: Iterable[Can]) -> str:
    return ", ".join(map(_name, dict.fromkeys(capabilities)))


def _name(can: Can) -> str:
    option = CAPABILITIES[can].option.strip("`")
    return f"{can} (`{option}`)" if option else str(can)
