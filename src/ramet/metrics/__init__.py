"""Scores, bytes, operations and time, counted by those who watch, never by a method."""

from ramet.metrics.comparison import Standing, chance, standings
from ramet.metrics.departure import DepartedTensor, Departure
from ramet.metrics.holdings import Holdings, KindOfLink
from ramet.metrics.record import Record
from ramet.metrics.story import Stories, Story, curve
from ramet.metrics.summary import flops, merging, scores, sent, traffic
from ramet.metrics.verdict import Printed, Verdict
from ramet.metrics.work import WORK, counted, peak_memory

__all__ = [
    "WORK",
    "DepartedTensor",
    "Departure",
    "Holdings",
    "KindOfLink",
    "Printed",
    "Record",
    "Standing",
    "Stories",
    "Story",
    "Verdict",
    "chance",
    "counted",
    "curve",
    "flops",
    "merging",
    "peak_memory",
    "scores",
    "sent",
    "standings",
    "traffic",
]
