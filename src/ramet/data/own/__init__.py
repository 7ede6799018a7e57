"""A site's own graphs: one TOML that says what its files hold."""

from ramet.data.own.problems import Problem, UnfitError
from ramet.data.own.schema import Aspect, Schema, TaskName, check_fit, check_task, width_of
from ramet.data.own.site import Checked, Site, check_site, read_site, site_name, statistics

__all__ = [
    "Aspect",
    "Checked",
    "Problem",
    "Schema",
    "Site",
    "TaskName",
    "UnfitError",
    "check_fit",
    "check_site",
    "check_task",
    "read_site",
    "site_name",
    "statistics",
    "width_of",
]
