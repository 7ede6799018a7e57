"""Rounds as metrics of an MLflow run.

Where, MLflow's own variables say: `MLFLOW_TRACKING_URI` (its default is `mlflow.db` in the current
folder) and `MLFLOW_EXPERIMENT_NAME` (ours is `ramet`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from ramet.metrics import Summary
from ramet.tracking.tracker import TrackedRun, Tracker

_EVERY_ROUND = "seconds"
_AT_THE_END = ("test_at_best_val", "best_val_round")


class MLflow(Tracker):
    """A run that was stopped goes on in the same MLflow run, found by its tag."""

    def __init__(self, run: TrackedRun) -> None:
        self._client = MlflowClient()
        self._id = self._opened(run)
        told = self._client.get_metric_history(self._id, _EVERY_ROUND)
        self._last = max((int(metric.step) for metric in told), default=0)

    @property
    def last(self) -> int:
        return self._last

    def note(self, number: int, told: Mapping[str, float]) -> None:
        now = _now()
        metrics = [Metric(name, float(value), now, number) for name, value in told.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self, summary: Summary | None) -> None:
        if summary is None:
            self._client.set_terminated(self._id, "KILLED")
            return
        there = self._client.get_run(self._id).data.metrics
        self._client.log_batch(
            self._id,
            metrics=[
                Metric(name, float(getattr(summary.scores, name)), _now(), summary.rounds)
                for name in _AT_THE_END
                if name not in there
            ],
            tags=[RunTag("ramet.sha256", summary.sha256)],
        )
        self._client.set_terminated(self._id, "FINISHED")

    def _opened(self, run: TrackedRun) -> str:
        client = self._client
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "ramet")
        experiment = client.get_experiment_by_name(name)
        place = experiment.experiment_id if experiment else client.create_experiment(name)
        found = client.search_runs([place], f"tags.`ramet.run` = '{run.name}'")
        if found:
            known = str(found[0].info.run_id)
            client.update_run(known, status="RUNNING")
            return known
        tags = {"ramet.run": run.name, "ramet.folder": run.folder.name}
        made = str(client.create_run(place, tags=tags, run_name=run.title).info.run_id)
        params = [Param(key, value) for key, value in run.settings.items()]
        client.log_batch(made, params=params)
        return made


def _now() -> int:
    """Milliseconds, as MLflow wants them."""
    return int(time.time() * 1000)
