"""What people see of a run."""

from ramet.report.tables import percent, result_table, size

__all__ = ["percent", "result_table", "size"]
