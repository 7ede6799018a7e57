"""Attack a finished run with what its participants see, and say how far one gets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.continuing import check_split
from ramet.experiment.run_models import start_model_of
from ramet.leak import canaries, columns, links
from ramet.leak.attacked import Attacked, Effort
from ramet.leak.candidates import Candidates
from ramet.leak.capture import first_round
from ramet.leak.control import PLAIN_STEP, plain_step
from ramet.leak.estimates import area, fmean, hits, paired
from ramet.leak.findings import VIEWS, Audit, Finding, View, finding, not_applicable
from ramet.leak.intervals import Ranked, epsilon_bound, f1, f1_estimate
from ramet.leak.membership import by_loss
from ramet.randomness import Randomness
from ramet.tasks import GraphSamples, NodeSamples

_NOT_ASKED = "no site was asked for its first layer in round 1"


def audit(run: RunFolder, effort: Effort = Effort()) -> Audit:  # noqa: B008 (frozen)
    """Attack the finished run in a folder. The folder itself is not changed."""
    summary = run.summary()
    if summary is None:
        raise RametError(
            f"the run in {run.path} is not finished. Finish it with `ramet resume {run.path}`."
        )
    experiment = run.experiment()
    _check_data(run, experiment)
    with tempfile.TemporaryDirectory(prefix="ramet-leak-") as scratch:
        found = tuple(_findings(Attacked(run, experiment, Path(scratch), effort)))
    settings = experiment.public_settings()
    facts = {
        "seed": effort.seed,
        "references": effort.references,
        "canaries": effort.canaries,
        "clients": len(experiment.clients),
        "test": round(summary.scores.test, 4),
    }
    return Audit(settings.command, summary.sha256, protection(experiment), found, facts)


def protection(experiment: Experiment) -> str:
    """What protected the replies of a run."""
    settings = experiment.settings
    parts = ["secure sum"] if settings.secure else []
    if settings.dp:
        parts.append(f"DP {settings.dp}")
    return " and ".join(parts) or "none"


def _check_data(run: RunFolder, experiment: Experiment) -> None:
    away = [
        client
        for client in experiment.clients
        if experiment.setting.data_of(client, experiment.settings.data) is None
    ]
    if away:
        raise RametError(
            f"the data of {', '.join(away)} is not on this machine, so what leaks about it cannot "
            "be measured. Audit a simulation: the same command with each site's file, or a run on "
            "similar public data."
        )
    if experiment.method.task.name == "link-prediction":
        raise RametError(
            "`ramet leak` audits graph and node classification, but this run predicts links."
        )
    check_split(run)


def _findings(run: Attacked) -> Iterator[Finding]:
    yield _degrees(run)
    yield _features(run)
    yield _labels(run)
    yield from _membership(run, "replies")
    yield from _membership(run, "model")
    for view in VIEWS:
        yield _links(run, view)
    yield _epsilon(run)


def _degrees(run: Attacked) -> Finding:
    encoding, site = run.experiment.method.inputs, next(iter(run.sites.values()))
    shared = run.sent_up
    layer = columns.first_layer(shared, site, structure=True) if encoding.degrees else None
    reason = run.no_replies or run.round_one_is_lost
    if layer is None and not reason:
        reason = "no layer over structure encodings leaves a site"
    if layer is None or reason:
        return not_applicable("degrees", "replies", reason)
    truth, found = columns.degrees_found(run.first, run.sites, layer, encoding.degrees)
    if not truth.size:
        return not_applicable("degrees", "replies", _NOT_ASKED)
    always = f1(truth, np.ones_like(truth))
    note = "chance: saying that all degrees occur"
    return finding("degrees", "replies", f1_estimate(truth, found), always, truth.size, note)


def _features(run: Attacked) -> Finding:
    shared, site = run.sent_up, next(iter(run.sites.values()))
    reason = run.no_replies or run.round_one_is_lost
    layer = columns.first_layer(shared, site, structure=False)
    layer = layer or columns.first_layer(shared, site, structure=True)
    if layer is None and not reason:
        reason = "no layer over features leaves a site"
    if layer is None or reason:
        return not_applicable("features", "replies", reason)
    found, control = (columns.Reconstruction.of(run.sites, layer) for _ in range(2))
    for number in range(run.effort.small_sites):
        small = {
            client: Candidates(site.trained_with(_one_member(run, client, number)))
            for client, site in run.sites.items()
        }
        samples = {client: site.samples for client, site in small.items()}
        seen = first_round(run.experiment, run.scratch / f"small-{number}", samples)
        for client, arrays in columns.with_layer(layer, seen):
            site, training = small[client], run.experiment.method.training
            found.add(site, training, seen.sent[client], arrays)
            start = start_model_of(run.experiment, client)
            control.add(site, PLAIN_STEP, *plain_step(run.experiment, start, site.samples))
    if not found.by_attack:
        return not_applicable("features", "replies", _NOT_ASKED)
    name, one = found.best()
    _, open_one = control.best()
    leaking = paired(open_one.told, open_one.known), fmean(open_one.known)
    what = "structure encodings" if layer.structure else "features"
    note = f"of {what}, by {name}; chance: their mean over all sites"
    result = paired(one.told, one.known), fmean(one.known)
    return replace(
        finding("features", "replies", *result, len(one.told), note),
        has_power=finding("features", "replies", *leaking, len(open_one.told)).leaks,
    )


def _one_member(run: Attacked, client: str, number: int) -> torch.Tensor:
    members = run.sites[client].members
    draw = Randomness(run.effort.seed, client, number).generator("small site")
    return members[torch.randperm(members.numel(), generator=draw)[:1]]


def _labels(run: Attacked) -> Finding:
    if run.no_network:
        return not_applicable("labels", "replies", run.no_network)
    errors, chance = _label_errors(run)
    if not errors:
        return not_applicable("labels", "replies", "no other site has held-out samples")
    note = "chance: the mean of the other sites' shares"
    return finding("labels", "replies", paired(errors, chance), fmean(chance), len(errors), note)


def _label_errors(run: Attacked) -> tuple[list[float], list[float]]:
    """How far the mean prediction for other sites' samples is from a site's own shares."""
    errors, chance = [], []
    for client, model in run.networks(run.last).items():
        probabilities = [
            site.logits(model, site.others).softmax(dim=1)
            for other, site in run.sites.items()
            if other != client and site.others.numel()
        ]
        if not probabilities:
            continue
        guess = torch.cat(probabilities).mean(dim=0).numpy()
        others = [site.shares() for other, site in run.sites.items() if other != client]
        truth = run.sites[client].shares()
        errors.append(float(np.abs(guess - truth).sum() / 2))
        chance.append(float(np.abs(np.mean(others, axis=0) - truth).sum() / 2))
    return errors, chance


def _membership(run: Attacked, view: View) -> Iterator[Finding]:
    reason = run.no_network if view == "replies" else ""
    if not any(site.others.numel() for site in run.sites.values()):
        reason = "the held-out samples are not the sites' own, so there is nothing to compare"
    yield from _told(run, "membership", view, reason, lambda m: by_loss(m, run.sites))
    if not reason and not run.effort.references:
        reason = "no reference models were asked for"
    yield from _told(
        run, "reference", view, reason, lambda m: run.references.calibrated(m, run.sites)
    )


def _told(
    run: Attacked,
    attack: str,
    view: View,
    reason: str,
    ranking: Callable[[Mapping[str, nn.Module]], list[Ranked]],
) -> Iterator[Finding]:
    """AUC and hit rate of an attack on networks."""
    if reason:
        yield not_applicable(attack, view, reason)
        yield not_applicable(f"{attack}-tpr", view, reason)
        return
    found = run.ranked(view, ranking)
    yield area(attack, view, *found)
    yield hits(f"{attack}-tpr", view, *found)


def _links(run: Attacked, view: View) -> Finding:
    samples = {
        client: site.samples
        for client, site in run.sites.items()
        if isinstance(site.samples, NodeSamples)
    }
    reason = run.no_network if view == "replies" else ""
    if not samples:
        reason = "for nodes of one graph; here the samples are graphs"
    if reason:
        return not_applicable("links", view, reason)
    chosen = {c: links.pairs(one, c, run.effort.seed) for c, one in samples.items()}

    def ranking(models: Mapping[str, nn.Module]) -> list[Ranked]:
        return links.stolen(models, samples, chosen, with_links=view == "predictions")

    return area("links", view, *run.ranked(view, ranking))


def _epsilon(run: Attacked) -> Finding:
    reason = run.round_one_is_lost
    if not run.effort.canaries:
        reason = "no canaries were asked for"
    if reason:
        return not_applicable("epsilon", "model", reason)
    effort = run.effort
    folder = run.scratch / "canaries"
    made = canaries.guesses(run.experiment, run.sites, folder, effort.canaries, effort.seed)
    graphs = isinstance(next(iter(run.sites.values())).samples, GraphSamples)
    what = "graph" if graphs else "node's class"
    note = f"unit: one {what}; {made.correct} of {made.made} guesses were correct"
    budget = run.experiment.settings.budget
    bound = epsilon_bound(made.correct, made.made, 0.0 if budget is None else budget.delta)
    return finding("epsilon", "model", bound, 0.0, made.made, note)
