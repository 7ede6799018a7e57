"""Run a method in one call; the command line is a thin layer on top of this."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ramet.engine import LocalWire, Observer
from ramet.errors import RametError
from ramet.experiment import (
    SPLIT_SEED,
    Device,
    Engine,
    Experiment,
    RunFolder,
    RunSettings,
    checked_settings,
    default_data,
)
from ramet.metrics import WORK, Record, Summary
from ramet.metrics.classification import Evaluation
from ramet.tracking import check_trackers, tracking

if TYPE_CHECKING:
    import pandas as pd

_COUNTS = (*WORK, "tensors", "scalars")


@dataclass(frozen=True)
class Result:
    """A finished run: its summary, its rounds and its models."""

    folder: Path
    """The folder of the run."""
    summary: Summary
    """The numbers of the run, as in `result.json`. ``summary.scores.test`` is the mean test score
    of the clients after the last round."""
    untracked: Mapping[str, str] = field(default_factory=dict)
    """Trackers that failed, and why."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per round and client: loss, scores and bytes."""
        import pandas as pd  # takes half a second to import

        rows = [
            {"round": record.round, "client": client}
            | {k: v for k, v in record.trained.get(client, {}).items() if k not in _COUNTS}
            | dict(record.evaluated.get(client, {}))
            | ({"down": record.down[client]} if client in record.down else {})
            for record in RunFolder(self.folder).records()
            for client in sorted({*record.trained, *record.down})
        ]
        return pd.DataFrame(rows)

    def model(self, client: str) -> nn.Module:
        """A client's final model, with its private part and the last merge, in evaluation mode."""
        folder = RunFolder(self.folder)
        return folder.experiment().final_model(client, folder.clients)

    def evaluation(self, client: str) -> dict[str, Evaluation]:
        """All metrics of a client's final model on its validation and test data."""
        folder = RunFolder(self.folder)
        return folder.experiment().evaluation(client, folder.clients)

    def samples(self, client: str) -> Any:
        """A client's train, validation and test data, in the format of its task."""
        return RunFolder(self.folder).experiment().samples(client)


def run(
    method: str = "fedstar",
    setting: str = "tiny",
    *,
    rounds: int | None = None,
    seed: int = 0,
    engine: Engine = "local",
    device: Device = "cpu",
    data: Path | str | None = None,
    out: Path | str | None = None,
    network: str | None = None,
    share: Sequence[str] | None = None,
    activation: str | None = None,
    merge: str | None = None,
    release: str | None = None,
    metric: str | None = None,
    quorum: int = 1,
    deadline: float = 600.0,
    norm_bound: float | None = None,
    threads: int = 1,
    split_seed: int = SPLIT_SEED,
    track: Sequence[str] = (),
    observe: Observer | None = None,
    **options: Any,
) -> Result:
    """Run a method on a setting and wait for the result.

    Args:
        method: a name from ``ramet methods``, or ``module:factory`` or ``file.py:factory``.
        setting: a name from ``ramet settings``.
        rounds: the number of rounds; default: that of the setting.
        seed: decides initial weights, dropout and batch order, but not the split.
        engine: ``local`` (this process), ``ray`` (Flower's simulation) or ``superlink`` (a real
            SuperLink and one SuperNode per client on loopback). All give the same numbers.
        device: where clients compute; only ``cpu`` is tested.
        data: the folder of datasets; missing ones are downloaded to it.
        out: the run's folder, which must be new or empty.
        network: the network of a method that brings none: a name from ``ramet networks``, or
            ``file.py:network``; default: that of the task.
        share: patterns that replace the method's choice of what is shared.
        activation: replaces the method's rule for which clients are asked for which arrays: a name
            from ``ramet activations`` or ``file.py:rule``, with options after commas, e.g.
            ``restart,alpha=0.3``.
        merge: replaces the weighted mean as the rule for merging replies: a name from
            ``ramet merges`` or ``file.py:rule``, with options after commas, e.g.
            ``trimmed-mean,share=0.3``.
        release: applied to replies before they leave a site: a name from ``ramet releases`` or
            ``file.py:release``.
        metric: the metric in validation and test scores: ``accuracy``, ``balanced-accuracy``,
            ``macro-f1``, ``roc-auc`` or ``average-precision``; for links ``ROC-AUC`` or ``mrr``.
            Default: accuracy, for links ROC-AUC.
        quorum: the minimum number of valid replies in a round.
        deadline: seconds without any reply after which a round continues without the missing nodes.
        norm_bound: refuse replies that are further than this from what was sent.
        threads: PyTorch threads per client; another number may change the last bits of results.
        split_seed: decides the split into train, validation and test data.
        track: trackers that log the rounds: ``tensorboard``, ``mlflow``, ``wandb``.
        observe: called with the record of each round.
        options: arguments of the method, the setting, the network and the training, e.g.
            ``lr=0.01``.
    """
    settings = checked_settings(
        method=method,
        setting=setting,
        rounds=rounds,
        seed=seed,
        engine=engine,
        device=device,
        data=Path(data or default_data()).absolute(),
        network=network,
        share=tuple(share) if share is not None else None,
        activation=activation,
        merge=merge,
        release=release,
        metric=metric,
        quorum=quorum,
        deadline=deadline,
        norm_bound=norm_bound,
        threads=threads,
        split_seed=split_seed,
        options={key: str(value) for key, value in options.items()},
    )
    return start(settings, out, track=track, observe=observe)


def start(
    settings: RunSettings,
    out: Path | str | None = None,
    *,
    track: Sequence[str] = (),
    observe: Observer | None = None,
) -> Result:
    """Like `run`, but with checked settings."""
    check_device(settings.device)
    check_engine(settings.engine)
    check_trackers(track)
    path = Path(out) if out else _new_path(settings)
    return _finish(RunFolder.create(path.absolute(), settings), track, observe)


def resume(
    folder: Path | str, *, track: Sequence[str] = (), observe: Observer | None = None
) -> Result:
    """Finish a run that was stopped; for a finished run, return its result.

    The run's trackers continue without being named. Those in ``track`` also log all earlier rounds
    that they do not have yet, even those of a finished run.
    """
    run_folder = RunFolder.open(Path(folder).absolute())
    summary = run_folder.summary()
    if summary is not None:
        with tracking(run_folder, track) as trackers:
            if track:
                trackers.start()
        return Result(run_folder.path, summary, trackers.failures)
    check_device(run_folder.experiment().settings.device)
    run_folder.check_split()
    return _finish(run_folder, track, observe)


def check_device(device: str) -> None:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": _has_mps()}
    if not available[device]:
        usable = ", ".join(name for name, present in available.items() if present)
        raise RametError(f"this machine has no {device}. Use --device {usable}.")


def check_engine(engine: str) -> None:
    if engine != "local" and not (find_spec("flwr") and find_spec("ray")):
        raise RametError(
            f"the engine {engine} needs Flower. Install it: pip install 'ramet[flower]'"
        )


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


def _finish(folder: RunFolder, track: Sequence[str], observe: Observer | None) -> Result:
    experiment = folder.experiment()
    try:
        with tracking(folder, track) as trackers:
            trackers.start()
            observer = trackers.wrap(observe or _ignore)
            if experiment.settings.engine == "local":
                with torch_threads(experiment.settings.threads):
                    folder.execute(local_wire(folder), observer)
            else:
                from ramet.flower.launch import launch

                launch(folder, observer)
    except KeyboardInterrupt as stop:
        stop.add_note(f"stopped. Continue with `ramet resume {folder.path}`.")
        raise
    return finished(folder, f"ramet resume {folder.path}", trackers.failures)


def finished(folder: RunFolder, resume_command: str, untracked: Mapping[str, str]) -> Result:
    """Return the result of a run, or raise an error that names the command to continue it."""
    summary = folder.summary()
    if summary is None:
        raise RametError(f"the run ended without a result. Continue with `{resume_command}`.")
    return Result(folder.path, summary, untracked)


def local_wire(folder: RunFolder) -> LocalWire:
    """The clients of a run in this process."""
    experiment = folder.experiment()
    return LocalWire(lambda client: experiment.node(client, folder.clients))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with this number of PyTorch threads; another may change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _ignore(record: Record) -> None:
    """The default observer."""


def _new_path(settings: RunSettings) -> Path:
    when = time.strftime("%Y%m%d-%H%M%S")
    method = Experiment(settings).method.name
    stem = f"{method}-{settings.setting}-seed{settings.seed}-{when}"
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path
