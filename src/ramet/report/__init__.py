"""What people see of a run."""

from ramet.report.tables import (
    comparison_table,
    departures_table,
    kinds_table,
    links_table,
    order_table,
    percent,
    portrait_table,
    relations_table,
    result_table,
    saving_table,
    site_table,
    size,
    specialities_table,
    totals_of_departures,
    types_table,
    verdict_table,
)

__all__ = [
    "comparison_table",
    "departures_table",
    "kinds_table",
    "links_table",
    "order_table",
    "percent",
    "portrait_table",
    "relations_table",
    "result_table",
    "saving_table",
    "site_table",
    "size",
    "specialities_table",
    "totals_of_departures",
    "types_table",
    "verdict_table",
]
