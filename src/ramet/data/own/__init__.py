"""User-defined graphs: a TOML file per site describes its data files."""

from ramet.data.own.files import site_files
from ramet.data.own.preparation import Preparation, SiteSums, agreed
from ramet.data.own.problems import Problem, SiteDataError
from ramet.data.own.schema import Aspect, Schema, TaskName, check_fit, check_task, width_of
from ramet.data.own.site import (
    Site,
    SiteCheck,
    check_site,
    read_site,
    site_name,
    site_task,
    statistics,
)

__all__ = [
    "Aspect",
    "Preparation",
    "Problem",
    "Schema",
    "Site",
    "SiteCheck",
    "SiteDataError",
    "SiteSums",
    "TaskName",
    "agreed",
    "check_fit",
    "check_site",
    "check_task",
    "read_site",
    "site_files",
    "site_name",
    "site_task",
    "statistics",
    "width_of",
]
