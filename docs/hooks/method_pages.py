"""A page for each method's file, generated when the site is built.

The idea and the formulas are the module's docstring. What leaves a site and what it costs come from
the method itself, and results from the kept runs. Nothing here is maintained by hand.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean, stdev
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.core import publish_parts
from docutils.parsers.rst import roles
from docutils.writers.html5_polyglot import HTMLTranslator, Writer
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ramet.engine.start import state_names
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.experiment.named import NamedParts, method_factory
from ramet.methods import METHODS, PAPER_NAMES
from ramet.models.networks import NETWORKS
from ramet.models.shape import GraphShape, LinkShape, NodeShape
from ramet.report.text import markdown_table
from ramet.rules.method import switchable_arrays
from ramet.scale import Scale
from ramet.studies.archive import finished_runs
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import by_split_or_seed
from ramet.tasks import TaskName

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FOLDER = "methods"
_ONE_ROUND_ONLY = "cost-cross-diff"
_GENERATED: dict[TaskName, str] = {
    "graph-classification": "tiny",
    "node-classification": "planted",
    "link-prediction": "planted-hetero",
}
_SHAPES = {"tiny": GraphShape, "planted": NodeShape, "planted-hetero": LinkShape}

for role in ("class", "mod"):
    roles.register_generic_role(role, nodes.literal)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every method's page and every decision to the menu."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    filled: dict[str, list[Any]] = {
        "Methods": [f"{FOLDER}/index.md", *(page.place for page in pages())],
        "Decisions": ["decisions/README.md", *(f"decisions/{name}" for name in decisions)],
    }
    for section in config.nav or []:
        for name in section.keys() & filled.keys():
            section[name] = filled[name]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, f"{FOLDER}/index.md", content=overview()))
    for page in pages():
        files.append(File.generated(config, page.place, content=page.text()))
    return files


@cache
def pages() -> tuple[MethodPage, ...]:
    """All pages, in the order of `METHODS`."""
    modules = dict.fromkeys(factory.__module__ for factory in METHODS.values())
    return tuple(MethodPage(sys.modules[name]) for name in modules)


def overview() -> str:
    rows = [
        [
            f"[{page.title}]({Path(page.place).name})",
            ", ".join(f"`{name}`" for name in page.methods),
            page.lead,
        ]
        for page in pages()
    ]
    return (
        "# Methods\n\nOne paper, one file. [Choosing a method](../choosing.md) helps to pick one, "
        "and [Your own method](../your-own-method.md) shows how to write another.\n\n"
        + markdown_table(["page", "names", "idea"], rows)
    )


@dataclass(frozen=True)
class MethodPage:
    """The page of one file of `ramet.methods`."""

    module: ModuleType

    @property
    def stem(self) -> str:
        return self.module.__name__.rpartition(".")[2]

    @property
    def place(self) -> str:
        return f"{FOLDER}/{self.stem}.md"

    @cached_property
    def methods(self) -> list[str]:
        """The file's methods as they are called on the command line, and by papers."""
        own = [n for n, make in METHODS.items() if make.__module__ == self.module.__name__]
        return [*own, *(name for name, paper in PAPER_NAMES.items() if paper.method in own)]

    @property
    def title(self) -> str:
        return self._first_line.partition(":")[0]

    @property
    def lead(self) -> str:
        idea = self._first_line.partition(":")[2].strip()
        return idea[:1].upper() + idea[1:]

    @property
    def _first_line(self) -> str:
        return inspect.getdoc(self.module).splitlines()[0]  # type: ignore[union-attr]

    def description(self) -> str:
        """What the docstring says after its first line."""
        return html((inspect.getdoc(self.module) or "").partition("\n")[2])

    def text(self) -> str:
        source = inspect.getsource(self.module)
        parts = [
            f"# {self.title}",
            f"**{self.lead}**",
            self.description(),
            "## What leaves a site",
            *(leaves(name, setting) for name in self.methods for setting in settings_of(name)),
            "As well as arrays, a reply carries numbers: the weight in the mean, the loss, the "
            "scores on the site's own validation and test data, and in the client's first round "
            "the cost of its training. [Security and privacy](../security.md) says what these may "
            "reveal.",
            "## What it costs",
            costs(self.methods),
            "## Options",
            *(arguments(name) for name in self.methods),
            "## Results",
            results(self.methods),
            f'??? note "Source: `src/ramet/methods/{self.stem}.py`"\n',
            "\n".join(f"    {line}" for line in ["```python", *source.splitlines(), "```"]),
        ]
        return "\n\n".join(parts)


class Translator(HTMLTranslator):  # type: ignore[misc]  # docutils has no types
    """Literals as code, formulas as MathML, tables without classes, to match the site's style."""

    def visit_literal(self, node: nodes.literal) -> None:
        self.body.append(f"<code>{self.encode(node.astext())}</code>")
        raise nodes.SkipNode

    def visit_math(self, node: nodes.math) -> None:
        self.body.append(convert(node.astext(), display="inline"))
        raise nodes.SkipNode

    def visit_math_block(self, node: nodes.math_block) -> None:
        self.body.append(convert(node.astext(), display="block") + "\n")
        raise nodes.SkipNode

    def visit_table(self, node: nodes.table) -> None:  # noqa: ARG002
        self.body.append("<table>\n")


def html(rest: str) -> str:
    """Convert a docstring's reST; an error in it stops the build."""
    writer = Writer()
    writer.translator_class = Translator
    asked = {"report_level": 2, "halt_level": 2}
    body: str = publish_parts(rest, writer=writer, settings_overrides=asked)["body"]
    return body


def leaves(name: str, setting: str) -> str:
    experiment = _experiment(name, setting)
    method = experiment.method
    shared = experiment.sizes.shared_names()
    client = experiment.clients[0]
    shape = method.task.shape(experiment.samples(client))
    private = [tensor for tensor in state_names(method.model(shape)) if tensor not in shared]
    patterns = " ".join(f"`{pattern}`" for pattern in method.shared.patterns) or "nothing"
    asked = type(method.activation).__name__
    omitted = len(switchable_arrays(method, shared)) if method.activation.asks_parts else 0
    where = f" on `{setting}`" if len(settings_of(name)) > 1 else ""
    extras = _extras(experiment)
    sentences = [
        f"**`{name}`**{where} shares {patterns}.",
        *([f"Extras: {len(extras)} arrays besides parameters."] if extras else []),
        f"Activation: `{asked}`"
        + (f", which may let clients omit {omitted} tensors." if omitted else "."),
        f"Merging: `{type(method.merging).__name__}`." if shared else "No parameters are merged.",
    ]
    folded = [
        f'??? info "All tensors, on `{setting}`"',
        "",
        f"    Shared: {_listed(shared)}",
        "",
        *([f"    Extras: {_listed(tuple(extras))}", ""] if extras else []),
        f"    Private: {_listed(private)}",
    ]
    return " ".join(sentences) + "\n\n" + "\n".join(folded)


def _extras(experiment: Experiment) -> dict[str, Any]:
    """The start values of all extras."""
    return {k: a for arrays in experiment.sizes.start_extras().values() for k, a in arrays.items()}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def costs(methods: Sequence[str]) -> str:
    rows = []
    for name, setting in [(one, setting) for one in methods for setting in settings_of(one)]:
        experiment = _experiment(name, setting)
        extras = _extras(experiment)
        sent = experiment.sizes.shared_scalars() + sum(array.size for array in extras.values())
        sizes = sorted(set(experiment.sizes.scalars().values()))
        own = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
        rows.append(
            [
                f"`{name}`",
                f"`{setting}`",
                own,
                f"{sent:,}",
                str(len(experiment.sizes.shared_names()) + len(extras)),
                f"{4 * sent / 1024:,.2f} KB",
            ]
        )
    heads = ["method", "setting", "scalars per client", "scalars sent", "tensors sent"]
    return (
        markdown_table([*heads, "bytes each way, per client and round"], rows)
        + "\n\nComputed from the code with default arguments when this page was built. Bytes are "
        "those of the arrays if every shared tensor is asked for. What is sent includes extras and "
        "a model's buffers, such as FedLIT's centres; the scalars per client do not. The [cost of "
        "training](../decisions/08-cost.md) is counted in every run."
    )


def arguments(name: str) -> str:
    """The options of a method, and of the network and the training on each generated setting."""
    lines = []
    for setting in settings_of(name):
        parts = NamedParts.of(_experiment(name, setting).settings)
        taken = {
            k: v
            for owner, own in parts.accepted.items()
            if owner != "setting"
            for k, v in own.items()
        }
        texts = [f"`{k}={v}`" for k, v in taken.items() if isinstance(v, int | float | str | bool)]
        on = f" --setting {setting}" if len(settings_of(name)) > 1 else ""
        lines.append(f"`ramet run {name}{on} --set …`: " + ", ".join(texts) + ".")
    return "\n\n".join(lines)


def results(methods: Sequence[str]) -> str:
    """The scores of the kept runs after the last round, by setting."""
    joined = _joined(methods)
    if not joined:
        return "There are no kept runs yet."
    rows = [
        [f"`{setting}`", f"`{label}`", str(rounds), *_scores(by_draw)]
        for (setting, label, rounds), by_draw in sorted(joined.items())
    ]
    runs = [run for by_draw in joined.values() for run in by_draw.values()]
    heads = ["setting", "method", "rounds", "runs", "metric", "mean over clients"]
    more = ["server's model on all data", "KB up per client and round"]
    return (
        markdown_table([*heads, *more], rows)
        + "\n\nMean ± standard deviation over the means of splits, or over the seeds of one split, "
        "after the last round. The server's model is evaluated only if everything is shared and "
        "the setting is a simulation with all data. Runs of "
        f"{_range({run.date for run in runs})}, torch "
        f"{', '.join(sorted({run.versions['torch'] for run in runs}))}; `results/` has each run's "
        "command and SHA-256. [Reproducing the papers](../reproducing.md) discusses them."
    )


def _joined(methods: Sequence[str]) -> dict[tuple[str, str, int], dict[Draw, FinishedRun]]:
    """By setting, method with options, and rounds: the runs of all folders."""
    joined: dict[tuple[str, str, int], dict[Draw, FinishedRun]] = {}
    for folder in sorted({path.parent for path in RESULTS.glob("*/*.json")}):
        if folder.name == _ONE_ROUND_ONLY:
            continue
        for label, by_draw in finished_runs(sorted(folder.glob("*.json"))).items():
            if label.partition(",")[0] in methods:
                for draw, run in by_draw.items():
                    joined.setdefault((run.setting, label, len(run.rounds)), {})[draw] = run
    return joined


def _scores(by_draw: Mapping[Draw, FinishedRun]) -> Iterator[str]:
    splits = len({draw.split_seed for draw in by_draw})
    yield f"{len(by_draw)} on {splits} splits" if splits > 1 else str(len(by_draw))
    summary = next(iter(by_draw.values())).summary
    yield summary.scale.label(summary.metric)
    scores = {draw: run.summary.scores for draw, run in by_draw.items()}
    yield _mean({draw: one.test for draw, one in scores.items()}, summary.scale)
    on_all = {draw: one.overview["test"] for draw, one in scores.items() if one.overview}
    yield _mean(on_all, summary.scale) if on_all else "–"
    up = fmean(run.summary.traffic.up_per_client_round for run in by_draw.values())
    yield f"{up / 1024:,.2f}"


def _mean(scores: Mapping[Draw, float], scale: Scale) -> str:
    means = [scale.factor * mean for mean in by_split_or_seed(scores)]
    return f"{fmean(means):.2f}" + (f" ± {stdev(means):.2f}" if len(means) > 1 else "")


def _range(dates: set[str]) -> str:
    return " to ".join(dict.fromkeys((min(dates), max(dates))))


@cache
def _experiment(name: str, setting: str) -> Experiment:
    return Experiment(
        checked_settings(method=name, setting=setting, data=default_data().absolute())
    )


@cache
def settings_of(name: str) -> tuple[str, ...]:
    """The generated settings, which need no download, that a method runs on."""
    task = method_factory(name)().task
    if task is not None:
        return (_GENERATED[task.name],)
    if name not in PAPER_NAMES:
        return tuple(setting for setting in _GENERATED.values() if _runs_on(name, setting))
    shapes = NETWORKS[PAPER_NAMES[name].network]
    return tuple(setting for setting, shape in _SHAPES.items() if shape in shapes)


def _runs_on(name: str, setting: str) -> bool:
    """FedProto, for example, needs classes that all clients have in common."""
    try:
        _experiment(name, setting)
    except RametError:
        return False
    return True
