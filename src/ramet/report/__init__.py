"""What people see of a run."""

from ramet.report.tables import (
    comparison_table,
    departures_table,
    kinds_table,
    links_table,
    percent,
    portrait_table,
    result_table,
    size,
    totals_of_departures,
    verdict_table,
)

__all__ = [
    "comparison_table",
    "departures_table",
    "kinds_table",
    "links_table",
    "percent",
    "portrait_table",
    "result_table",
    "size",
    "totals_of_departures",
    "verdict_table",
]
