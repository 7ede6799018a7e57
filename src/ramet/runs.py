"""Run a method in one call; the command line is a thin layer on top of this."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ramet.engine.server.journal import Observer
from ramet.errors import RametError, RametWarning
from ramet.experiment import (
    SPLIT_SEED,
    Device,
    Engine,
    Experiment,
    RunFolder,
    RunSettings,
    checked_settings,
    create_from,
    default_data,
)
from ramet.experiment.local_engine import local_engine
from ramet.experiment.objects import is_object, method_name
from ramet.metrics import WORK, Summary
from ramet.metrics.classification import Evaluation
from ramet.notebook import curves, html_table, progress, text_table
from ramet.options import allow_code
from ramet.prediction import Links, Trained, predicted
from ramet.rules.method import Method
from ramet.tracking import check_trackers, tracking

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ramet.export import Exported
    from ramet.prediction.explanation import Explanation

_COUNTS = (*WORK, "tensors", "scalars")


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run: its summary, its rounds and its models.

    Printed, and shown in a notebook, it is a table of the clients' test scores.
    """

    folder: Path
    """The folder of the run."""
    summary: Summary
    """The numbers of the run, as in `result.json`. ``summary.scores.test`` is the mean test score
    of the clients after the last round."""
    untracked: Mapping[str, str] = field(default_factory=dict)
    """Trackers that failed, and why."""

    def untracked_sentences(self) -> list[str]:
        """What each tracker that failed has missed, and how to send it."""
        return [
            f"{name} did not receive all rounds: {reason} Send the rest with `ramet resume "
            f"{self.folder} --track {name}`."
            for name, reason in self.untracked.items()
        ]

    def __str__(self) -> str:
        return text_table(self.summary)

    def __repr__(self) -> str:
        return f"{self}\nrun folder: {self.folder}"

    def _repr_html_(self) -> str:
        return html_table(self.summary)

    def plot(self) -> Figure:
        """A figure of the test scores after each round: of each client, and their mean."""
        return curves(RunFolder(self.folder).records(), self.summary)

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

    def model(self, client: str, best: bool = False) -> nn.Module:
        """A client's model, with its private part and the last merge, in evaluation mode.

        With ``best``, that of the round with the best mean validation score,
        ``summary.scores.best_val_round``.
        """
        return RunFolder(self.folder).model(client, best)

    def evaluation(self, client: str, best: bool = False) -> dict[str, Evaluation]:
        """All metrics of a client's final or ``best`` model on its validation and test data."""
        return RunFolder(self.folder).evaluation(client, best)

    def predict(
        self,
        client: str | None = None,
        site: Path | str | None = None,
        *,
        relation: str | None = None,
        top: int = 10,
        known: bool = False,
        best: bool = False,
    ) -> pd.DataFrame:
        """Predictions for a site's new data, or without ``site`` for the data of training.

        Nodes and graphs: ``id``, ``class`` and the probability of each class, ``p_CLASS``. Links:
        ``source``, ``rank``, ``target`` and ``probability``. How the data differs from that of
        training is in ``frame.attrs["warnings"]``.

        Args:
            client: whose model is used; default: the site's name.
            site: the TOML file that describes the new data.
            relation: the edge type whose links are predicted.
            top: candidates for each node.
            known: whether links that the data already has are ranked too.
            best: use the model of the best round instead of the final one.
        """
        path, trained = None if site is None else Path(site), Trained.open(self.folder, best)
        found = predicted(trained, path, client, Links(relation, top, known))
        found.frame.attrs["warnings"] = [*found.warnings]
        return found.frame

    def explain(
        self,
        id_: str | int,
        client: str | None = None,
        site: Path | str | None = None,
        *,
        best: bool = False,
    ) -> Explanation:
        """What the prediction for a node or graph rests on: its features and links.

        Args:
            id_: the id of the node or graph.
            client: whose model is used; default: the site's name.
            site: the TOML file that describes the data; default: the data of training.
            best: use the model of the best round instead of the final one.
        """
        from ramet.prediction.explanation import explained

        path = None if site is None else Path(site)
        return explained(Trained.open(self.folder, best), str(id_), path, client)

    def export(
        self, client: str, folder: Path | str, *, programs: bool = True, best: bool = False
    ) -> Exported:
        """Write a client's model into a new folder, where it works without Ramet.

        The folder gets the weights, the network as one Python file for PyTorch and PyG, the
        preparation of columns, an invented example, and a model card.

        Args:
            client: whose model.
            folder: new or empty.
            programs: also write the network for `torch.export` and, if its packages are installed,
                for ONNX. What could not be written is in ``left_out`` of the returned object.
            best: the model of the best round instead of the final one.
        """
        from ramet.export import export  # imports PyTorch's compiler

        trained = Trained.open(self.folder, best)
        return export(trained, trained.client_of(None, client), Path(folder), programs)

    def samples(self, client: str) -> Any:
        """A client's train, validation and test data, in the format of its task."""
        return RunFolder(self.folder).experiment().samples(client)


def run(
    method: str | Method = "fedstar",
    setting: str = "tiny",
    *,
    rounds: int | None = None,
    patience: int | None = None,
    start_from: Path | str | None = None,
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
    secure: bool = False,
    dp: str | None = None,
    threads: int = 1,
    workers: int | None = None,
    ray_address: str | None = None,
    split_seed: int = SPLIT_SEED,
    final_clients: int | None = None,
    regions: int | None = None,
    track: Sequence[str] = (),
    observe: Observer | None = None,
    **options: Any,
) -> Result:
    """Run a method on a setting and wait for the result.

    Args:
        method: a name from ``ramet methods``, or ``module:factory`` or ``file.py:factory``; or a
            `Method`. Other processes do not have an object that differs from what a built-in
            factory returns by default, so it runs in the engine ``local`` without workers, and
            only this process can continue its run.
        setting: a name from ``ramet settings``.
        rounds: the number of rounds; default: that of the setting.
        patience: stop after this many rounds without a better mean validation score.
        start_from: the folder of a finished run whose models this one starts with: its shared
            arrays, and the private ones of each client that it had. A warning says what did not
            fit.
        seed: decides initial weights, dropout and batch order, but not the split.
        engine: ``local`` (this process), ``ray`` (Flower's simulation) or ``superlink`` (a real
            SuperLink and one SuperNode per client on loopback). All give the same numbers.
        device: where clients compute; only ``cpu`` has ever been run.
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
        secure: whether the server learns sums of replies only; for methods that merge by a sum.
        dp: the budget of differential privacy, e.g. ``unit=graph,epsilon=4,delta=1e-5``. Noise is
            drawn from the seed, so that a run of this function protects nothing.
        threads: PyTorch threads per client; another number may change the last bits of results.
        workers: the number of processes that clients are computed in, for the engine ``local``; it
            does not change the numbers. Default: this process, and for a run that takes long, one
            process per core.
        ray_address: the address of a running Ray cluster that computes the clients, for the engine
            ``ray``; ``out`` and ``data`` are then folders that all its machines have. Default:
            start Ray on this machine.
        split_seed: decides the split into train, validation and test data.
        final_clients: send the final model to this many clients, drawn at random; the others get
            it when it is asked for, and the mean test score has an interval. Default: all.
        regions: let this many regional coordinators ask the clients, who are divided among them in
            order, and pass on sums; the numbers are the same. For methods that merge by a sum.
        track: trackers that log the rounds: ``tensorboard``, ``mlflow``, ``wandb``.
        observe: called with the record of each round; default: in IPython, shows the progress.
        options: arguments of the method, the setting, the network and the training, e.g.
            ``lr=0.01``. ``sites``, of the setting ``own``, is a path or a list of paths.
    """
    allow_code(method, network, activation, merge, release)
    settings = checked_settings(
        method=method_name(method),
        setting=setting,
        rounds=rounds,
        patience=patience,
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
        secure=secure,
        dp=dp,
        threads=threads,
        split_seed=split_seed,
        final_clients=final_clients,
        regions=regions,
        options={key: _text(value) for key, value in options.items()},
    )
    return start(
        settings,
        out,
        start_from=start_from,
        track=track,
        observe=observe,
        workers=workers,
        ray_address=ray_address,
    )


def _text(value: Any) -> str:
    """An option as `--set` takes it: several paths as a command line has them."""
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    return shlex.quote(str(value)) if isinstance(value, Path) else str(value)


def start(
    settings: RunSettings,
    out: Path | str | None = None,
    *,
    start_from: Path | str | None = None,
    track: Sequence[str] = (),
    observe: Observer | None = None,
    workers: int | None = None,
    cores: int | None = None,
    ray_address: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Like `run`, but with checked settings; ``cores`` limits the default of ``workers``.

    ``tell`` is given what users may want to know about the data, a sentence at a time.
    """
    check_computing(settings, workers, track, ray_address)
    path = (Path(out) if out else _new_path(settings)).absolute()
    if start_from is None:
        folder = RunFolder.create(path, settings)
        remarks = folder.remarks()
    else:
        taken = create_from(Path(start_from), path, settings)
        folder = taken.folder
        remarks = [*folder.remarks(), *taken.notes()]
        for sentence in taken.sentences():
            warnings.warn(f"{sentence}.", RametWarning, stacklevel=2)
    if tell is not None:
        for remark in remarks:
            tell(f"{remark}.")
    return _finish(folder, track, observe, workers, cores, ray_address)


def resume(
    folder: Path | str,
    *,
    rounds: int | None = None,
    track: Sequence[str] = (),
    observe: Observer | None = None,
    workers: int | None = None,
    cores: int | None = None,
    ray_address: str | None = None,
) -> Result:
    """Finish a run that was stopped; for a finished run, return its result.

    With ``rounds``, continue to this number of rounds in total, also if the run was finished. The
    result is the same as if the run had been started with this number.

    The run's trackers continue without being named. Those in ``track`` also log all earlier rounds
    that they do not have yet, even those of a finished run.

    ``workers`` and ``ray_address`` are as in `run`, whatever they were before; ``cores`` limits the
    default of ``workers``.
    """
    run_folder = RunFolder.open(Path(folder).absolute())
    settings, summary = run_folder.experiment().settings, run_folder.summary()
    if summary is not None and rounds in (None, settings.rounds):
        with tracking(run_folder, track) as trackers:
            if track:
                trackers.start()
        return Result(run_folder.path, summary, trackers.failures)
    check_computing(settings, workers, track, ray_address)
    run_folder.check_split()
    if rounds is not None:
        run_folder.extend(rounds)
    return _finish(run_folder, track, observe, workers, cores, ray_address)


def check_computing(
    settings: RunSettings,
    workers: int | None = None,
    track: Sequence[str] = (),
    ray_address: str | None = None,
) -> None:
    """Check that a run can be computed and tracked on this machine in this way."""
    check_device(settings.device)
    check_engine(settings.engine)
    check_workers(workers, settings.engine)
    check_object(settings, workers)
    check_ray_address(ray_address, settings.engine)
    check_trackers(track)


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


def check_workers(workers: int | None, engine: str) -> None:
    if workers is None:
        return
    if workers < 1:
        raise RametError(f"a run needs at least one worker, not {workers}.")
    if engine != "local":
        raise RametError(
            f"the engine {engine} has its own processes. Leave out --workers, or use --engine "
            "local."
        )


def check_object(settings: RunSettings, workers: int | None) -> None:
    """Refuse a method that only this process has where other processes would need it."""
    if is_object(settings.method) and (settings.engine != "local" or (workers or 1) > 1):
        raise RametError(
            f"{settings.method.partition(':')[2]} is an object that only this process has. Use the "
            "engine local without workers, or put a function that returns the method into a file, "
            "and name it: file.py:FACTORY."
        )


def check_ray_address(address: str | None, engine: str) -> None:
    if address is None:
        return
    if engine != "ray":
        raise RametError(f"the engine {engine} does not use Ray. Leave out --ray-address.")
    from ramet.flower.programs import check_ray

    check_ray(address)


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


def _finish(
    folder: RunFolder,
    track: Sequence[str],
    observe: Observer | None,
    workers: int | None,
    cores: int | None,
    ray_address: str | None,
) -> Result:
    experiment = folder.experiment()
    if is_object(experiment.settings.method):
        workers = 1
    try:
        with progress(observe) as shown, tracking(folder, track) as trackers:
            trackers.start()
            observer = trackers.wrap(shown)
            if experiment.settings.engine == "local":
                threads = torch_threads(experiment.settings.threads)
                with threads, local_engine(folder, workers, cores) as wire:
                    folder.execute(wire, observer)
            else:
                from ramet.flower.launch import launch

                launch(folder, observer, ray_address)
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


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with this number of PyTorch threads; another may change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _new_path(settings: RunSettings) -> Path:
    when = time.strftime("%Y%m%d-%H%M%S")
    method = Experiment(settings).method.name
    stem = f"{method}-{settings.setting}-seed{settings.seed}-{when}"
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path
