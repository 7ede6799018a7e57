"""Scores, bytes and time, counted by those who watch, never by a method."""

from ramet.metrics.comparison import Standing, standings
from ramet.metrics.record import Record
from ramet.metrics.summary import scores, traffic

__all__ = ["Record", "Standing", "scores", "standings", "traffic"]
