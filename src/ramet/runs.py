"""Run a method in one call; the command line is a thin skin over this."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
from ramet.tracking import check_trackers, tracking

if TYPE_CHECKING:
    import pandas as pd

_COUNTS = (*WORK, "tensors", "scalars")


@dataclass(frozen=True)
class Result:
    """A finished run: its summary, and a table of every round and client."""

    folder: Path
    """Where the run lies."""
    summary: Summary
    """The run in figures: ``summary.scores.test`` is the clients' mean test score after the last
    round; `result.json` holds the same."""
    untracked: Mapping[str, str] = field(default_factory=dict)
    """Trackers that did not hear of every round, and why."""

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
        """What a client ended with: its own part and the last merge, ready to predict."""
        folder = RunFolder(self.folder)
        return folder.experiment().final_model(client, folder.clients)

    def samples(self, client: str) -> Any:
        """What the client learned from and was judged by, as its task has it."""
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
    share: Sequence[str] | None = None,
    activation: str | None = None,
    merge: str | None = None,
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
        rounds: how many; the setting's own number if not given.
        seed: moves initial weights, dropout and batch order; the split stays.
        engine: ``local`` (this process), ``ray`` (Flower's simulation) or ``superlink`` (a real
            SuperLink and one SuperNode per client on loopback). All give the same numbers.
        device: where clients compute; only ``cpu`` is tested.
        data: where datasets lie, or are downloaded to.
        out: the run's folder; must not hold a run yet.
        share: patterns that replace the method's own choice of what is shared.
        activation: who is asked for what, instead of the method's own rule: a name from
            ``ramet activations`` or ``file.py:rule``, options behind commas, e.g.
            ``restart,alpha=0.3``.
        merge: how replies are merged, instead of by the weighted mean: a name from
            ``ramet merges`` or ``file.py:rule``, options behind commas, e.g.
            ``trimmed-mean,share=0.3``.
        quorum: a round counts when so many clients gave a sound reply.
        deadline: seconds without news after which a node is given up for this round.
        norm_bound: refuse a reply that is further than this from what was sent.
        threads: PyTorch's threads per client; another number may move the last bits.
        split_seed: moves who gets what to train, to choose and to judge by.
        track: who else follows the rounds: ``tensorboard``, ``mlflow``, ``wandb``.
        observe: called with each round's record.
        options: arguments of the method's and the setting's factory, e.g. ``lr=0.01``.
    """
    settings = checked_settings(
        method=method,
        setting=setting,
        rounds=rounds,
        seed=seed,
        engine=engine,
        device=device,
        data=Path(data or default_data()).absolute(),
        share=tuple(share) if share is not None else None,
        activation=activation,
        merge=merge,
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
    """Start a run with checked settings and wait for the result; arguments are those of `run`."""
    check_device(settings.device)
    check_engine(settings.engine)
    check_trackers(track)
    path = Path(out) if out else _fresh_path(settings)
    return _finish(RunFolder.create(path.absolute(), settings), track, observe)


def resume(
    folder: Path | str, *, track: Sequence[str] = (), observe: Observer | None = None
) -> Result:
    """Finish a run that was stopped; a finished one just gives its result.

    Trackers go on by themselves. Those in ``track`` are told all rounds that they do not know, of
    a finished run too.
    """
    run_folder = RunFolder.open(Path(folder).absolute())
    found = run_folder.summary()
    if found is not None:
        with tracking(run_folder, track) as followed:
            if track:
                followed.start()
        return Result(run_folder.path, found, followed.lost)
    check_device(run_folder.experiment().settings.device)
    run_folder.check_split()
    return _finish(run_folder, track, observe)


def check_device(device: str) -> None:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": _has_mps()}
    if not available[device]:
        usable = ", ".join(name for name, there in available.items() if there)
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
        with tracking(folder, track) as followed:
            followed.start()
            watch = followed.watching(observe or _ignore)
            if experiment.settings.engine == "local":
                _run_here(folder, experiment, watch)
            else:
                from ramet.flower.launch import launch

                launch(folder, watch)
    except KeyboardInterrupt as stop:
        stop.add_note(f"stopped. Go on with `ramet resume {folder.path}`.")
        raise
    return finished(folder, f"ramet resume {folder.path}", followed.lost)


def finished(folder: RunFolder, otherwise: str, untracked: Mapping[str, str]) -> Result:
    """The result that a run has left; without one, name the command that goes on with it."""
    summary = folder.summary()
    if summary is None:
        raise RametError(f"the run ended without a result. Go on with `{otherwise}`.")
    return Result(folder.path, summary, untracked)


def _run_here(folder: RunFolder, experiment: Experiment, observe: Observer) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(experiment.settings.threads)
    try:
        folder.execute(LocalWire(lambda client: experiment.node(client, folder.clients)), observe)
    finally:
        torch.set_num_threads(before)


def _ignore(record: Record) -> None:
    """Nobody watches."""


def _fresh_path(settings: RunSettings) -> Path:
    when = time.strftime("%Y%m%d-%H%M%S")
    method = Experiment(settings).method.name
    stem = f"{method}-{settings.setting}-seed{settings.seed}-{when}"
    path, tried = Path("runs") / stem, 1
    while path.exists():
        tried += 1
        path = Path("runs") / f"{stem}-{tried}"
    return path
