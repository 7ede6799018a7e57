"""A page for each method's file, made when the site is built.

Idea and formula are the module's docstring, what leaves a site and what it costs come from the
method itself, and results from the kept runs. Nothing here has to be kept up by hand.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
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

from ramet.archive import found
from ramet.engine.node import state_names
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.methods import METHODS, Method
from ramet.methods.base import switchable_arrays
from ramet.metrics import Story
from ramet.tasks import LinkPrediction, NodeClassification

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FOLDER = "methods"
_ONE_ROUND_ONLY = "cost-cross-diff"
_MADE_UP = {LinkPrediction: "planted-hetero", NodeClassification: "planted"}

for role in ("class", "mod"):
    roles.register_generic_role(role, nodes.literal)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every method's page stands in the menu, and so does every decision."""
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
    """In the order of the methods' own list."""
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
        "# Methods\n\nOne paper, one file. [Choosing a method](../choosing.md) says which is for "
        "what; [your own method](../your-own-method.md) how to write another.\n\n"
        + table(["page", "names", "idea"], rows)
    )


@dataclass(frozen=True)
class MethodPage:
    """What the site says of one file of `ramet.methods`."""

    module: ModuleType

    @property
    def stem(self) -> str:
        return self.module.__name__.rpartition(".")[2]

    @property
    def place(self) -> str:
        return f"{FOLDER}/{self.stem}.md"

    @cached_property
    def methods(self) -> dict[str, Method]:
        """By the names that people type."""
        own = self.module.__name__
        return {name: make() for name, make in METHODS.items() if make.__module__ == own}

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

    def text(self) -> str:
        rest = (inspect.getdoc(self.module) or "").partition("\n")[2]
        source = inspect.getsource(self.module)
        parts = [
            f"# {self.title}",
            f"**{self.lead}**",
            html(rest),
            "## What leaves a site",
            *(leaves(name, method) for name, method in self.methods.items()),
            "Besides arrays a reply carries numbers: the weight in the mean, the loss, the scores "
            "on the site's own held-out data, and in the first round what the training cost. "
            "[Security and privacy](../security.md) says what all this may tell.",
            "## What it costs",
            costs(self.methods),
            "## What may be set",
            *(arguments(name) for name in self.methods),
            "## What we measured",
            results(self.methods),
            f'??? note "The file: `src/ramet/methods/{self.stem}.py`"\n',
            "\n".join(f"    {line}" for line in ["```python", *source.splitlines(), "```"]),
        ]
        return "\n\n".join(parts)


class Translator(HTMLTranslator):  # type: ignore[misc]  # docutils has no types
    """Literals as code, formulas as MathML, tables without classes: as the site styles them."""

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
    """A docstring's reST; anything wrong in it stops the build."""
    writer = Writer()
    writer.translator_class = Translator
    asked = {"report_level": 2, "halt_level": 2}
    body: str = publish_parts(rest, writer=writer, settings_overrides=asked)["body"]
    return body


def leaves(name: str, method: Method) -> str:
    experiment = made_up(name, method)
    shared = experiment.shared_names()
    client = experiment.clients[0]
    shape = method.task.shape(experiment.samples(client))
    private = [tensor for tensor in state_names(method.model(shape)) if tensor not in shared]
    patterns = " ".join(f"`{pattern}`" for pattern in method.shared.patterns) or "nothing"
    asked = type(method.activation).__name__
    spared = len(switchable_arrays(method, shared)) if method.activation.asks_parts else 0
    told = [
        f"**`{name}`** shares {patterns}.",
        f"Who is asked: `{asked}`"
        + (f"; {spared} of the tensors may be spared." if spared else "."),
        f"Merged by `{type(method.merging).__name__}`." if shared else "Nothing is merged.",
    ]
    folded = [
        f'??? info "Tensor by tensor, on `{experiment.settings.setting}`"',
        "",
        f"    Leaves: {_listed(shared)}",
        "",
        f"    Stays: {_listed(private)}",
    ]
    return " ".join(told) + "\n\n" + "\n".join(folded)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def costs(methods: dict[str, Method]) -> str:
    rows = []
    for name, method in methods.items():
        experiment = made_up(name, method)
        shared = experiment.shared_scalars()
        sizes = sorted(set(experiment.scalars().values()))
        own = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
        rows.append(
            [
                f"`{name}`",
                f"`{experiment.settings.setting}`",
                own,
                f"{shared:,}",
                str(len(experiment.shared_names())),
                f"{4 * shared / 1024:,.2f} KB",
            ]
        )
    heads = ["method", "setting", "scalars of a client's model", "scalars shared", "tensors"]
    return (
        table([*heads, "bytes each way, per client and round"], rows)
        + "\n\nComputed from the code with default arguments when this page was built; bytes are "
        "those of the arrays if everything shared is asked for. What is shared counts a model's "
        "buffers too, such as FedLIT's centres, and a model's size does not. [What training "
        "costs](../decisions/08-cost.md) is counted in every run."
    )


def arguments(name: str) -> str:
    taken = inspect.signature(METHODS[name]).parameters.values()
    texts = [
        f"`{parameter.name}={parameter.default}`"
        for parameter in taken
        if isinstance(parameter.default, int | float | str | bool)
    ]
    training = METHODS[name]().training
    texts += [
        f"`{key}={value}`" for key, value in vars(training).items() if not key.startswith("_")
    ]
    return f"`ramet run {name} --set …`: " + ", ".join(texts) + "."


def results(methods: dict[str, Method]) -> str:
    """The last round of the kept runs, setting by setting."""
    rows, dates, versions = [], set(), set()
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        if folder.name == _ONE_ROUND_ONLY:
            continue
        for label, runs in found([folder]).items():
            if label.partition(",")[0] in methods:
                told = list(runs.values())
                rows.append([f"`{told[0].setting}`", f"`{label}`", *_scores(told)])
                dates |= {story.date for story in told}
                versions |= {story.versions["torch"] for story in told}
    if not rows:
        return "No run is kept yet."
    heads = ["setting", "as run", "seeds", "clients' mean, %", "server's model on all data, %"]
    return (
        table([*heads, "KB up per client and round"], rows)
        + "\n\nMean ± standard deviation over seeds after the last round: accuracy, or ROC-AUC "
        "where links are predicted. The server's model is judged only where all is shared and the "
        f"setting is a simulation with all data at hand. Runs of {_range(dates)}, torch "
        f"{', '.join(sorted(versions))}; each one's command and SHA-256 stand in `results/`. "
        "[Reproducing the papers](../reproducing.md) reads them."
    )


def _scores(runs: Sequence[Story]) -> Iterator[str]:
    scores = [story.result["scores"] for story in runs]
    yield str(len(runs))
    yield _mean([told["test"] for told in scores])
    on_all = [told["overview"]["test"] for told in scores if "overview" in told]
    yield _mean(on_all) if on_all else "–"
    up = fmean(story.result["traffic"]["up_per_client_round"] for story in runs)
    yield f"{up / 1024:,.2f}"


def _mean(scores: Sequence[float]) -> str:
    spread = f" ± {100 * stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{100 * fmean(scores):.2f}{spread}"


def _range(dates: set[str]) -> str:
    return " to ".join(dict.fromkeys((min(dates), max(dates))))


@cache
def _experiment(name: str, setting: str) -> Experiment:
    return Experiment(
        checked_settings(method=name, setting=setting, data=default_data().absolute())
    )


def made_up(name: str, method: Method) -> Experiment:
    """The method on the made-up setting of its task, which needs no download."""
    return _experiment(name, _MADE_UP.get(type(method.task), "tiny"))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows])
