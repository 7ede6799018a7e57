"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""The limit of a container: microseconds of CPU time per period, and the period."""


def available_cores(jobs: int = 1, quota: Path = _QUOTA) -> int:
    """The cores that each of some parallel jobs may use: what system and container leave to us."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cores, _cores_of(quota) or cores) // jobs)


def _cores_of(quota: Path) -> int | None:
    """The whole cores of a container's limit; None without one."""
    try:
        limit, period = quota.read_text().split()
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(1, int(limit) // int(period))
