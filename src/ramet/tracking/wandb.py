"""Rounds as a run of Weights & Biases, whose files are in the run's folder.

The environment variables of W&B apply: `WANDB_PROJECT` (default here: `ramet`), and
`WANDB_MODE=offline`, which sends nothing until `wandb sync`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import wandb

from ramet.metrics import Summary
from ramet.tracking.tracker import TrackedRun, Tracker


class WeightsAndBiases(Tracker):
    """A resumed run continues under the same id; offline it is written again under that id."""

    def __init__(self, run: TrackedRun) -> None:
        quiet = wandb.Settings(console="off", disable_code=True, disable_git=True, silent=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "ramet"),
            id=run.name,
            name=run.title,
            dir=run.folder,
            config=dict(run.settings),
            resume="allow",
            settings=quiet,
        )
        self._last = max(0, self._run.starting_step - 1)

    @property
    def last(self) -> int:
        return self._last

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=number)

    def close(self, summary: Summary | None) -> None:
        if summary is None:
            self._run.finish(exit_code=1)
            return
        for name in ("test_at_best_val", "best_val_round"):
            self._run.summary[name] = getattr(summary.scores, name)
        self._run.summary["sha256"] = summary.sha256
        self._run.finish()
