"""User-defined graphs: a TOML file per site describes its data files."""

from ramet.data.own.description import Description
from ramet.data.own.files import described, site_files
from ramet.data.own.kept_parts import Arrivals, KeptParts
from ramet.data.own.new_data import new_data_name, read_new_data
from ramet.data.own.preparation import Preparation, SiteSums, agreed, distant_sums
from ramet.data.own.problems import Problem, SiteDataError
from ramet.data.own.ranges import Ranges, check_scales, novelties, ranges
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
from ramet.data.own.tables import Ids

__all__ = [
    "Arrivals",
    "Aspect",
    "Description",
    "Ids",
    "KeptParts",
    "Preparation",
    "Problem",
    "Ranges",
    "Schema",
    "Site",
    "SiteCheck",
    "SiteDataError",
    "SiteSums",
    "TaskName",
    "agreed",
    "check_fit",
    "check_scales",
    "check_site",
    "check_task",
    "described",
    "distant_sums",
    "new_data_name",
    "novelties",
    "ranges",
    "read_new_data",
    "read_site",
    "site_files",
    "site_name",
    "site_task",
    "statistics",
    "width_of",
]
