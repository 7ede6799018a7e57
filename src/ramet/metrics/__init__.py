"""Scores, bytes, operations and time, measured outside of methods."""

from ramet.metrics.record import Record
from ramet.metrics.summary import Round, Summary
from ramet.metrics.work import WORK, count_operations, peak_memory
from ramet.scale import Scale

__all__ = ["WORK", "Record", "Round", "Scale", "Summary", "count_operations", "peak_memory"]
