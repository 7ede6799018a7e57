"""Rounds as metrics of an MLflow run.

MLflow's environment variables apply: `MLFLOW_TRACKING_URI` (default: `mlflow.db` in the current
folder) and `MLFLOW_EXPERIMENT_NAME` (default here: `ramet`).
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
    """A resumed run continues in the same MLflow run, which is identified by a tag."""

    def __init__(self, run: TrackedRun) -> None:
        self._client = MlflowClient()
        self._id = self._open(run)
        history = self._client.get_metric_history(self._id, _EVERY_ROUND)
        self._last = max((int(metric.step) for metric in history), default=0)

    @staticmethod
    def prepare() -> None:
        _experiment(MlflowClient())

    @property
    def last(self) -> int:
        return self._last

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        now = _now()
        batch = [Metric(name, float(value), now, number) for name, value in metrics.items()]
        self._client.log_batch(self._id, metrics=batch)

    def close(self, summary: Summary | None) -> None:
        if summary is None:
            self._client.set_terminated(self._id, "KILLED")
            return
        logged = self._client.get_run(self._id).data.metrics
        self._client.log_batch(
            self._id,
            metrics=[
                Metric(name, float(getattr(summary.scores, name)), _now(), summary.rounds)
                for name in _AT_THE_END
                if name not in logged
            ],
            tags=[RunTag("ramet.sha256", summary.sha256)],
        )
        self._client.set_terminated(self._id, "FINISHED")

    def _open(self, run: TrackedRun) -> str:
        client = self._client
        group = _experiment(client)
        existing = client.search_runs([group], f"tags.`ramet.run` = '{run.name}'")
        if existing:
            run_id = str(existing[0].info.run_id)
            client.update_run(run_id, status="RUNNING")
            return run_id
        tags = {"ramet.run": run.name, "ramet.folder": run.folder.name}
        run_id = str(client.create_run(group, tags=tags, run_name=run.title).info.run_id)
        params = [Param(key, value) for key, value in run.settings.items()]
        client.log_batch(run_id, params=params)
        return run_id


def _experiment(client: MlflowClient) -> str:
    """The id of the experiment, which is created if there is none."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "ramet")
    experiment = client.get_experiment_by_name(name)
    return str(experiment.experiment_id if experiment else client.create_experiment(name))


def _now() -> int:
    """The time in milliseconds, as MLflow expects it."""
    return int(time.time() * 1000)
