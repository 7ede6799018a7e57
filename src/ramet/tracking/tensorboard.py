"""Rounds as TensorBoard event files in the run's folder: `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping

from torch.utils.tensorboard import SummaryWriter

from ramet.metrics import Summary
from ramet.tracking.tracker import TrackedRun, Tracker


class TensorBoard(Tracker):
    """Writes all rounds again each time it is opened, which hides earlier files."""

    last = 0

    def __init__(self, run: TrackedRun) -> None:
        self._writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=0)
        rows = "\n".join(f"| {key} | {value} |" for key, value in run.settings.items())
        self._writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}", 0)

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, number)
        self._writer.flush()

    def close(self, summary: Summary | None) -> None:
        if summary is not None:
            self._writer.add_text("sha256", summary.sha256, summary.rounds)
        self._writer.close()
