"""What a judge gives."""

from typing import TypeAlias

Scores: TypeAlias = dict[str, float]
