"""The model card: a README in Hugging Face's form, written from what the run knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.data.own.schema import Schema, TargetKind
from ramet.data.splits import PARTS
from ramet.experiment import Experiment
from ramet.export.example import Form
from ramet.export.networks import Standalone
from ramet.leak import ATTACKS, Audit
from ramet.metrics import Summary
from ramet.metrics.evaluation import Evaluation
from ramet.privacy.budget import Unit
from ramet.scale import PERCENT

_TEMPLATE = Path(__file__).with_name("card.md.jinja")
_TAGS = ("federated-learning", "graph-neural-network", "pytorch-geometric", "ramet")
_COUNTED = ("graphs", "nodes", "links")
_FEWEST_IN_A_MEAN = 3
"""Of two, each can compute the other's."""
_HASHES = ("data_sha256", "labels_sha256", "links_sha256")


@dataclass(frozen=True)
class Facts:
    """What is known about an exported model.

    Args:
        client: whose model it is.
        experiment: of the run.
        found: the network, as it is exported.
        form: what the model takes.
        inputs: the names of the network's arguments.
        split: what the run recorded about the client's own data; empty where it is not known.
        best_round: whose weights these are, if not the last round's.
        summary: of the run; None at a site, which does not have it.
        evaluation: on the client's own test data; None where the data is not available.
        intervals: of the metrics in the evaluation.
        resamples: bootstrap samples from which the intervals are.
        versions: of the packages that the run started with.
        started: when the run started.
        files: the files of the folder, with what they contain.
        left_out: files that could not be written, with the reason.
        audit: what `ramet leak` found about the run, if it was audited.
    """

    client: str
    experiment: Experiment
    found: Standalone
    form: Form
    inputs: Sequence[str]
    split: Mapping[str, Any]
    best_round: int | None
    summary: Summary | None
    evaluation: Evaluation | None
    intervals: Mapping[str, tuple[float, float]]
    resamples: int
    versions: Mapping[str, str]
    started: str
    files: Mapping[str, str]
    left_out: Mapping[str, str]
    audit: Audit | None


def card(facts: Facts) -> str:
    """Render the card."""
    from jinja2 import Environment, StrictUndefined

    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        _TEMPLATE.read_text()
    )
    experiment, form = facts.experiment, facts.form
    return template.render(
        header=_header(facts),
        name=_name(facts),
        task=experiment.method.task.name.replace("-", " "),
        client=facts.client,
        clients=experiment.clients,
        outputs=_outputs(form),
        usual=_USUAL[form.target],
        relations=[" → ".join(relation) for relation in form.relations],
        usage=_usage(form),
        decision=form.decision,
        file=facts.found.file,
        tables=form.tables,
        inputs=facts.inputs,
        schema=form.schema,
        setting=experiment.settings.shown_setting,
        columns=[*_columns(form)],
        edges=_edges(form.schema),
        size=_size(facts.split),
        procedure=dict(_procedure(facts)),
        command=experiment.settings.command,
        metric=experiment.method.task.metric,
        scores=[*_scores(facts)],
        evaluation=facts.evaluation,
        metrics=[*_metrics(facts)],
        by_output=[*_by_output(facts)],
        resamples=facts.resamples,
        left=[*_left(facts)],
        audited=[*_audited(facts.audit)],
        limits=[*_limits(facts)],
        files=[*facts.files.items()],
        versions=facts.versions,
    )


def _header(facts: Facts) -> str:
    """The YAML header; every value is written as JSON, which YAML includes."""
    method = facts.experiment.method
    metadata: dict[str, Any] = {
        "library_name": "pytorch",
        "pipeline_tag": "graph-ml",
        "tags": [*_TAGS, method.name, method.task.name],
    }
    results = [*_results(facts)]
    if results:
        metadata["model-index"] = [{"name": _name(facts), "results": results}]
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in metadata.items())


def _results(facts: Facts) -> Iterator[dict[str, Any]]:
    if facts.evaluation is not None:
        scores = facts.evaluation.metrics
    elif facts.summary is not None and facts.summary.scores.clients.get(facts.client) is not None:
        scores = {facts.summary.metric: facts.summary.scores.clients[facts.client] or 0.0}
    else:
        return
    yield {
        "task": {"type": "graph-ml", "name": facts.experiment.method.task.name},
        "dataset": {"type": "private", "name": f"test data of {facts.client}"},
        "metrics": [
            {"type": name, "value": round(score, 4), "name": f"test {name}"}
            for name, score in scores.items()
        ],
    }


def _name(facts: Facts) -> str:
    return f"{facts.client}: {facts.experiment.method.name} ({facts.found.name})"


def _columns(form: Form) -> Iterator[tuple[str, str, str, str]]:
    schema, preparation = form.schema, form.preparation
    for node_type, names in schema.nodes.items() if schema is not None else ():
        assert schema is not None
        kinds = schema.columns.get(node_type, {})
        if not names:
            yield _cell(node_type), "none", "", "one constant feature"
        for name in kinds or names:
            if name not in kinds or preparation is None:
                yield _cell(node_type), _cell(name), "number", "as it is"
                continue
            features = preparation.types[node_type][name].names(name)
            yield _cell(node_type), _cell(name), kinds[name], _cell(", ".join(features))


def _edges(schema: Schema | None) -> list[str]:
    if schema is None:
        return []
    return [f"{name} ({head} → {tail})" for name, (head, tail) in schema.edges.items()]


def _size(known: Mapping[str, Any]) -> str:
    """The site's own numbers of samples. Other sites' are for them to tell."""
    counts = [f"{_total(known[what]):,} {what}" for what in _COUNTED if what in known]
    counts += [f"{len(known[part]):,} for {part}" for part in PARTS if part in known]
    hashes = (f"SHA-256 {str(known[name])[:12]}…" for name in _HASHES if name in known)
    return ", ".join([*counts, *list(hashes)[:1]])


def _total(counted: Any) -> int:
    """A number, or the sum over types."""
    return sum(counted.values()) if isinstance(counted, Mapping) else int(counted)


def _procedure(facts: Facts) -> Iterator[tuple[str, str]]:
    experiment, found, summary = facts.experiment, facts.found, facts.summary
    settings, method = experiment.settings, experiment.method
    scalars = sum(parameter.numel() for parameter in found.network.parameters())
    yield "sites", ", ".join(experiment.clients)
    yield "method", f"{method.name} ({method.paper})"
    yield "network", f"`{found.name}` in `{found.file}`, {scalars:,} parameters"
    yield "rounds", str(summary.rounds if summary is not None else settings.rounds)
    if summary is not None:
        yield "round with the best validation score", str(summary.scores.best_val_round)
    yield "seed", f"{settings.seed}; of the split {settings.split_seed}"
    yield "training at a site", f"`{method.training}`"
    yield "merging", f"`{method.merging}`"
    yield "activation", f"`{method.activation}`"
    if facts.started:
        yield "started", facts.started


def _scores(facts: Facts) -> Iterator[tuple[str, str]]:
    """The site's own score, and the mean of all where it does not give away another site's."""
    if facts.summary is None:
        return
    scores = facts.summary.scores
    if (own := scores.clients.get(facts.client)) is not None:
        yield facts.client, f"{own:.4f}"
    if sum(score is not None for score in scores.clients.values()) >= _FEWEST_IN_A_MEAN:
        yield f"mean of {len(facts.experiment.clients)} sites", f"{scores.test:.4f}"


def _metrics(facts: Facts) -> Iterator[tuple[str, str, str, str]]:
    if facts.evaluation is None:
        return
    evaluation = facts.evaluation
    for name, score in evaluation.metrics.items():
        constant, unit = evaluation.constant.get(name), evaluation.scales[name].unit
        low, high = facts.intervals.get(name, (None, None))
        interval = "–" if low is None or high is None else f"{_short(low)} to {_short(high)}"
        shown = name if unit in ("", PERCENT) else f"{name} in {unit}"
        yield shown, _short(score), interval, "–" if constant is None else _short(constant)
    if evaluation.brier is not None and evaluation.calibration_error is not None:
        yield "calibration error (ECE)", f"{evaluation.calibration_error:.3f}", "", ""
        yield "Brier score", f"{evaluation.brier:.3f}", "", ""


def _by_output(facts: Facts) -> Iterator[tuple[str, ...]]:
    """The metrics of each number or label, if there are several."""
    found = facts.evaluation.outputs if facts.evaluation is not None else {}
    for name, metrics in found.items() if len(found) > 1 else ():
        known = (f"{metric} {_short(score)}" for metric, score in metrics.items())
        yield _cell(name), ", ".join(known)


def _short(score: float) -> str:
    """Three decimals, or three digits of what is much smaller."""
    return f"{score:.3f}" if abs(score) >= 0.01 or score == 0 else f"{score:.3g}"


_USUAL: Mapping[TargetKind, str] = {
    "class": "the most frequent class",
    "number": "the mean",
    "flag": "the share of each label",
}


def _outputs(form: Form) -> str:
    """What each column of the output is."""
    names = ", ".join(form.classes)
    if form.target == "number":
        unit = f", in {form.unit}" if form.unit else ""
        return f"Numbers that are predicted, in the order of the columns: {names}{unit}."
    what = "Labels" if form.target == "flag" else "Classes"
    return f"{what}, in the order of the probabilities: {names}." if names else ""


def _left(facts: Facts) -> Iterator[str]:
    """What left the sites in training, and what protected it."""
    experiment, summary = facts.experiment, facts.summary
    names, settings = experiment.sizes.shared_names(), experiment.settings
    shown = ", ".join(f"`{name}`" for name in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    yield f"Parameters in every round: {shown}{more}." if names else "No parameters."
    if facts.form.has_prepared_columns:
        yield (
            "Before round 1, counts and sums of columns, and the names of categories, each of at "
            "least the site's smallest count of rows."
        )
    budget = settings.budget
    loss = "" if budget else "the loss, "
    numbers = f"the number of samples, {loss}and scores on the site's own data"
    if settings.secure:
        yield (
            "Parameters and numbers left masked. The server learned their sums over more than half "
            f"of the sites, and the means of the numbers: {numbers}."
        )
    else:
        yield f"With every reply: {numbers}."
    if summary is not None:
        traffic = summary.traffic
        yield (
            f"{traffic.total:,} bytes of arrays in the whole run; per site and round "
            f"{traffic.up_per_client_round:,.0f} up and {traffic.down_per_client_round:,.0f} down."
        )
    releases = ", ".join(f"`{release}`" for release in experiment.method.release)
    yield f"Applied to replies before they left: {releases or 'nothing; they left as they are'}."
    bound = settings.norm_bound
    yield f"Norm bound of replies: {'none' if bound is None else f'{bound:g}'}."
    if budget is None:
        yield "No differential privacy was applied, so there is no formal guarantee."
        return
    privacy = summary.privacy if summary is not None else None
    simulated = privacy is not None and privacy.simulated
    promise = budget.sentence if privacy is None else privacy.promise
    yield f"Differential privacy of what left in this run: {promise}."
    yield (
        "The noise followed from the run's seed (simulated), so there is no guarantee."
        if simulated
        else "Other runs on the same data add to it."
    )
    yield _COVERED[budget.unit]


_COVERED: Mapping[Unit, str] = {
    "graph": "This model was trained with the noise. The scores on held-out data are exact.",
    "site": "This model has private parts without noise: the guarantee is for what left the sites. "
    "The scores on held-out data are exact.",
    "link": "This model, and the scores that left, were computed from sums over neighbours with "
    "noise. Features and labels are not covered, nor are predictions for a graph, which use its "
    "exact links.",
}


def _audited(audit: Audit | None) -> Iterator[tuple[str, str, str, str, str]]:
    """What attacks on the run achieved, as far as they apply."""
    for one in audit.findings if audit is not None else ():
        if one.value is not None:
            yield ATTACKS[one.attack], one.view, *one.cells


_DIFFERENT: Mapping[TargetKind, str] = {
    "class": "frequencies of classes",
    "number": "values",
    "flag": "frequencies of labels",
}


def _limits(facts: Facts) -> Iterator[str]:
    yield (
        f"It was trained for the data of {facts.client}. Other sites' data may have other columns "
        f"and other {_DIFFERENT[facts.form.target]}."
    )
    if facts.best_round is not None:
        yield f"These are the weights after round {facts.best_round}, in which validation was best."
    elif facts.summary is not None and facts.summary.scores.best_val_round < facts.summary.rounds:
        yield (
            f"These are the weights after the last round; validation was best after round "
            f"{facts.summary.scores.best_val_round}."
        )
    if facts.form.has_prepared_features:
        yield "Values far outside of the range of training are scaled like any other."
        yield "Categories that were not known in training all count as `other`."
    yield "It predicts from correlations. It says nothing about causes."
    for file, reason in facts.left_out.items():
        yield f"`{file}` could not be written: {reason}."


def _usage(form: Form) -> str:
    """Code that predicts from the site's tables, or from the example where they are not known."""
    if form.tables is None:
        return (
            "from predict import example, load, probabilities\n\n"
            "inputs, expected = example()  # the arguments of the network, by name\n"
            "chances = probabilities(load(), **inputs)"
        )
    if not form.relations:
        rows = "graphs" if form.tables["graphs"] else next(iter(form.tables["nodes"]))
        what = {"class": "class", "number": "number", "flag": "label"}[form.target]
        given = "numbers" if form.target == "number" else "chances"
        return _OF_ROWS.format(rows=rows, what=what, given=given)
    held = [one for one in form.relations if form.tables["edges"][one[1]]["file"]]
    head, name, tail = (held or form.relations)[0]
    return _OF_PAIRS.format(head=head, name=name, tail=tail)


_OF_ROWS = """\
from predict import classes, load, probabilities
from prepare import read_inputs

inputs, ids = read_inputs(".")  # the folder of the tables
{given} = probabilities(load(), **inputs)  # a row for each of ids["{rows}"], a column per {what}"""
_OF_PAIRS = """\
import torch
from predict import load, probabilities
from prepare import read_inputs

inputs, ids = read_inputs(".")  # the folder of the tables
relation = ("{head}", "{name}", "{tail}")
heads, tails = (torch.arange(len(ids[end])) for end in ("{head}", "{tail}"))
asked = {{relation: torch.cartesian_prod(heads, tails).T}}  # all pairs, by their places in ids
chances = probabilities(load(), **inputs, edge_label_index_dict=asked)[relation]"""


def _cell(text: str) -> str:
    """Text that does not break a table."""
    return text.replace("|", "\\|").replace("\n", " ")
