"""Observers that log a run's rounds to TensorBoard, MLflow or Weights & Biases.

There is one module for each. Trackers run in the process that started the run, so they work with
every engine. Their packages are imported only when they are used.
"""

from ramet.tracking.trackers import (
    TRACKERS,
    Tracking,
    TrackingWarning,
    check_trackers,
    prepare_trackers,
    tracking,
)

__all__ = [
    "TRACKERS",
    "Tracking",
    "TrackingWarning",
    "check_trackers",
    "prepare_trackers",
    "tracking",
]
