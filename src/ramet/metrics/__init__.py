"""Scores, bytes, operations and time, measured by observers and never by a method."""

from ramet.metrics.record import Record
from ramet.metrics.summary import Round, Summary
from ramet.metrics.work import WORK, counted, peak_memory

__all__ = ["WORK", "Record", "Round", "Summary", "counted", "peak_memory"]
