"""Scores, bytes, operations and time, counted by those who watch, never by a method."""

from ramet.metrics.comparison import Standing, chance, standings
from ramet.metrics.departure import DepartedTensor, Departure
from ramet.metrics.holdings import (
    Holdings,
    KindOfLink,
    LinksOfRelations,
    Relation,
    TypeOfNode,
)
from ramet.metrics.record import Record
from ramet.metrics.saving import Saving, saving, savings
from ramet.metrics.story import Stories, Story, curve
from ramet.metrics.summary import common_measure, flops, measure, merging, scores, sent, traffic
from ramet.metrics.verdict import Order, Placed, Printed, Verdict, orders
from ramet.metrics.work import WORK, counted, peak_memory

__all__ = [
    "WORK",
    "DepartedTensor",
    "Departure",
    "Holdings",
    "KindOfLink",
    "LinksOfRelations",
    "Order",
    "Placed",
    "Printed",
    "Record",
    "Relation",
    "Saving",
    "Standing",
    "Stories",
    "Story",
    "TypeOfNode",
    "Verdict",
    "chance",
    "common_measure",
    "counted",
    "curve",
    "flops",
    "measure",
    "merging",
    "orders",
    "peak_memory",
    "saving",
    "savings",
    "scores",
    "sent",
    "standings",
    "traffic",
]
