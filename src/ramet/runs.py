"""Run a method in one call; the command line is a thin layer on top of this."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from ramet.computing import check_computing, torch_threads
from ramet.engine.server.journal import Observer
from ramet.engine.server.state import RunState
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError, RametWarning
from ramet.experiment import (
    Experiment,
    RunFolder,
    checked_experiment,
    create_from,
    default_data,
)
from ramet.experiment.continuing import check_split, extend
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_engine
from ramet.experiment.objects import is_object, method_name
from ramet.experiment.run_models import evaluation_of, model_of
from ramet.metrics import WORK, Summary
from ramet.metrics.evaluation import Evaluation
from ramet.notebook import curves, html_table, progress, text_table
from ramet.options import allow_code, folder_name
from ramet.partition.given import with_given
from ramet.payload import Payload
from ramet.prediction import BesideTest, Links, Source, Trained, beside_test, predicted
from ramet.rules.method import Method
from ramet.run_options import (
    CODE,
    COMPUTING,
    DEFAULT_COMPUTING,
    KEYWORDS,
    Computing,
    with_keywords,
)
from ramet.tracking import tracking

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

    @property
    def state(self) -> Mapping[str, Payload]:
        """What the server's rules know after the last round: ``state["merging"].arrays``."""
        saved = Snapshots(self.folder / "server").latest_valid()
        return RunState.restored(saved).slices if saved else {}

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
        return model_of(RunFolder(self.folder), client, best)

    def evaluation(self, client: str, best: bool = False) -> dict[str, Evaluation]:
        """All metrics of a client's final or ``best`` model on its validation and test data."""
        return evaluation_of(RunFolder(self.folder), client, best)

    def beside_test(
        self,
        client: str | None = None,
        site: Path | str | None = None,
        *,
        new: Path | str | None = None,
        context: Path | str | None = None,
        best: bool = False,
    ) -> BesideTest:
        """Scores on new data whose classes are known by now, beside those of the test.

        Arguments as of `predict`. Rows without a class, and rows that the model was trained on, are
        not scored.
        """
        trained = Trained.open(self.folder, best)
        return beside_test(trained, Source.of(site, new, context), client)

    def predict(
        self,
        client: str | None = None,
        site: Path | str | None = None,
        *,
        new: Path | str | None = None,
        relation: str | None = None,
        top: int = 10,
        known: bool = False,
        best: bool = False,
        context: Path | str | None = None,
    ) -> pd.DataFrame:
        """Predictions for a site's new data, or without any for the data of training.

        Nodes and graphs: ``id``, ``class`` and the probability of each class, ``p_CLASS``. Links:
        ``source``, ``rank``, ``target`` and ``probability``. How the data differs from that of
        training is in ``frame.attrs["warnings"]``, a threshold that was chosen for the model in
        ``frame.attrs["decision"]``, and how new rows were joined in ``frame.attrs["notes"]``.

        Args:
            client: whose model is used; default: the site's name.
            site: the TOML file that describes new data with a whole graph.
            new: a folder with tables of new rows and links, or their TOML file. They continue the
                graph of training, and they alone are predicted.
            relation: the edge type whose links are predicted.
            top: candidates for each node.
            known: whether links that the data already has are ranked too.
            best: use the model of the best round instead of the final one.
            context: the TOML file of the graph that ``new`` continues, if it is another one.
        """
        source, links = Source.of(site, new, context), Links(relation, top, known)
        found = predicted(Trained.open(self.folder, best), source, client, links)
        found.frame.attrs["warnings"] = [*found.warnings]
        found.frame.attrs["notes"] = [*found.notes]
        found.frame.attrs["decision"] = str(found.decision) if found.decision else None
        return found.frame

    def explain(
        self,
        id_: str | int,
        client: str | None = None,
        site: Path | str | None = None,
        *,
        of: str | None = None,
        new: Path | str | None = None,
        best: bool = False,
        context: Path | str | None = None,
    ) -> Explanation:
        """What the prediction for a node or graph rests on: its features and links.

        Args:
            id_: the id of the node or graph.
            client: whose model is used; default: the site's name.
            site: the TOML file that describes the data; default: the data of training.
            of: the class, label or number; default: the predicted class, the likeliest label, or
                the only number.
            new: a folder with tables of new rows, or their TOML file, as for `predict`.
            best: use the model of the best round instead of the final one.
            context: the TOML file of the graph that ``new`` continues, if it is another one.
        """
        from ramet.prediction.explanation import explained

        source = Source.of(site, new, context)
        return explained(Trained.open(self.folder, best), str(id_), source, client, of)

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


@with_keywords(*KEYWORDS)
def run(
    method: str | Method = "fedstar",
    setting: str = "tiny",
    *,
    start_from: Path | str | None = None,
    out: Path | str | None = None,
    observe: Observer | None = None,
    **options: Any,
) -> Result:
    """Run a method on a setting and wait for the result.

    The options of `ramet run` are keywords.

    Args:
        method: a name from ``ramet list methods``, ``module:factory`` or ``file.py:factory``; or a
            `Method`. Other processes do not have an object that differs from what a built-in
            factory returns by default, so it runs in the engine ``local`` without workers, and
            only this process can continue its run.
        setting: a name from ``ramet list settings``, or ``file.py:setting``.
        start_from: the folder of a finished run whose models this one starts with: its shared
            arrays, and the private ones of each client that it had. A warning says what did not
            fit.
        out: the run's folder, which must be new or empty.
        observe: called with the record of each round; default: in IPython, shows the progress.
        options: options of `ramet run`, and arguments of the method, the setting, the network and
            the training, e.g. ``lr=0.01``. ``sites``, of the setting ``own``, is a path or a list
            of paths. ``clients``, instead of a setting, is your own data: by the name of each
            client, a `Data` of PyTorch Geometric whose nodes have classes, or a list of `Data` with
            a class each; floats in ``y`` are numbers to predict. They are copied into the data
            folder, so that every process finds them. ``split=0.2`` is the share of nodes or graphs
            for test, and for validation; default: their masks, or 0.2. ``directed`` and
            ``same_schema`` are as in the docs.
    """
    computing = Computing.taken_from(options)
    given = {name: options.pop(name) for name in KEYWORDS if name in options}
    data = Path(given.get("data") or default_data())
    setting, options = with_given(setting, options, data, given.get("task"))
    texts = {key: _text(value) for key, value in options.items()}
    experiment = given_experiment(method, setting, texts, given)
    return start(experiment, out, computing, start_from, observe)


def given_experiment(
    method: str | Method, setting: str, options: Mapping[str, str], given: Mapping[str, Any]
) -> Experiment:
    """The checked run of what a user has given, whose code may be loaded."""
    allow_code(method, setting, *(given.get(kind) for kind in CODE))
    return checked_experiment(method=method_name(method), setting=setting, options=options, **given)


def _text(value: Any) -> str:
    """An option as `--set` takes it: several paths as a command line has them."""
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    return shlex.quote(str(value)) if isinstance(value, Path) else str(value)


def start(
    experiment: Experiment,
    out: Path | str | None = None,
    computing: Computing = DEFAULT_COMPUTING,
    start_from: Path | str | None = None,
    observe: Observer | None = None,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Like `run`, but with a checked experiment.

    ``tell`` is given what users may want to know about the data, a sentence at a time.
    """
    check_computing(experiment.settings, computing)
    path = (Path(out) if out else _new_path(experiment)).absolute()
    if start_from is None:
        folder = RunFolder.create(path, experiment)
        remarks = folder.remarks()
    else:
        taken = create_from(Path(start_from), path, experiment.settings)
        folder = taken.folder
        remarks = [*folder.remarks(), *taken.notes()]
        for sentence in taken.sentences():
            warnings.warn(f"{sentence}.", RametWarning, stacklevel=2)
    if tell is not None:
        for remark in remarks:
            tell(f"{remark}.")
    return _finish(folder, computing, observe)


@with_keywords(*COMPUTING)
def resume(
    folder: Path | str,
    *,
    rounds: int | None = None,
    observe: Observer | None = None,
    **options: Any,
) -> Result:
    """Finish a run that was stopped; for a finished run, return its result.

    The run's trackers continue without being named. Those in ``track`` also log all earlier rounds
    that they do not have yet, even those of a finished run.

    Args:
        folder: the folder of the run.
        rounds: continue to this number of rounds in total, also if the run was finished. The
            result is the same as if the run had been started with this number.
        observe: called with the record of each round, as in `run`.
        options: ``workers``, ``ray_address`` and ``track``, whatever they were before.
    """
    computing = Computing.taken_from(options)
    if options:
        raise TypeError(f"resume() got an unexpected keyword argument '{next(iter(options))}'")
    run_folder = RunFolder.open(Path(folder).absolute())
    settings, summary = run_folder.experiment().settings, run_folder.summary()
    if summary is not None and rounds in (None, settings.rounds):
        with tracking(run_folder, computing.track) as trackers:
            if computing.track:
                trackers.start()
        return Result(run_folder.path, summary, trackers.failures)
    check_computing(settings, computing)
    check_split(run_folder)
    if rounds is not None:
        extend(run_folder, rounds)
    return _finish(run_folder, computing, observe)


def _finish(folder: RunFolder, computing: Computing, observe: Observer | None) -> Result:
    experiment = folder.experiment()
    workers = 1 if is_object(experiment.settings.method) else computing.workers
    try:
        with progress(observe) as shown, tracking(folder, computing.track) as trackers:
            trackers.start()
            observer = trackers.wrap(shown)
            if experiment.settings.engine == "local":
                threads = torch_threads(experiment.settings.threads)
                with threads, local_engine(folder, workers, computing.cores) as wire:
                    execute(folder, wire, observer, wire.write, elsewhere=wire.elsewhere)
            else:
                from ramet.flower.launch import launch

                launch(folder, observer, computing.ray_address)
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


def _new_path(experiment: Experiment) -> Path:
    when, settings = time.strftime("%Y%m%d-%H%M%S"), experiment.settings
    stem = f"{experiment.method.name}-{folder_name(settings.setting)}-seed{settings.seed}-{when}"
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path
