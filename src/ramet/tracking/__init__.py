"""Observers that carry a run's rounds into TensorBoard, MLflow or Weights & Biases.

One file for each. They watch in the process that started the run, so every engine has them, and
none of them is imported before it is asked for.
"""

from ramet.tracking.trackers import (
    TRACKERS,
    Tracking,
    TrackingWarning,
    check_trackers,
    tracking,
)

__all__ = ["TRACKERS", "Tracking", "TrackingWarning", "check_trackers", "tracking"]
