"""What people see of a run."""

from ramet.report.tables import (
    comparison_table,
    kinds_table,
    links_table,
    percent,
    portrait_table,
    result_table,
    site_table,
    size,
    verdict_table,
)

__all__ = [
    "comparison_table",
    "kinds_table",
    "links_table",
    "percent",
    "portrait_table",
    "result_table",
    "site_table",
    "size",
    "verdict_table",
]
