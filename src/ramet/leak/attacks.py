"""The attacks: what each looks for, in what it sees, and the leak that its control must find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from ramet.leak import canaries, columns, control, links
from ramet.leak.attacked import Attacked
from ramet.leak.control import Plant
from ramet.leak.estimates import area, fmean, hits, paired
from ramet.leak.findings import Finding, View, finding, not_applicable
from ramet.leak.intervals import Ranked, epsilon_bound, f1, f1_estimate, proportion
from ramet.leak.labels import words
from ramet.leak.membership import by_loss
from ramet.leak.prepared import prepared, rows_read
from ramet.randomness import Randomness
from ramet.tasks import GraphSamples, NodeSamples

_NOT_ASKED = "no site was asked for its first layer in round 1"
Models: TypeAlias = Sequence[Mapping[str, nn.Module]]


@dataclass(frozen=True)
class Attack:
    """An attack on a run, or on its control: the same run, made to leak.

    Args:
        name: of its first finding.
        views: what it is tried on; ``replies`` are sums in runs with secure sums.
        find: attacks a run.
        control: plants in a control what the attack looks for.
    """

    name: str
    views: tuple[View, ...]
    find: Callable[[Attacked, View], list[Finding]]
    control: Plant


def _degrees(run: Attacked, view: View) -> list[Finding]:
    encoding = run.experiment.method.inputs
    layer = _layer(run, structure=True) if encoding.degrees else None
    reason = run.sharing.no_replies or run.not_repeated
    if layer is None and not reason:
        reason = "no layer over structure encodings leaves a site"
    if layer is None or reason:
        return [not_applicable("degrees", view, reason)]
    truth, found = columns.degrees_found(run.first(), run.sites, layer, encoding.degrees)
    if not truth.size:
        return [not_applicable("degrees", view, _NOT_ASKED)]
    always = f1(truth, np.ones_like(truth))
    note = "chance: saying that all degrees occur"
    return [finding("degrees", view, f1_estimate(truth, found), always, truth.size, note)]


def _features(run: Attacked, view: View) -> list[Finding]:
    layer = _layer(run, structure=False) or _layer(run, structure=True)
    reason = run.sharing.no_replies or run.not_repeated
    if layer is None and not reason:
        reason = "no layer over features leaves a site"
    if layer is None or reason:
        return [not_applicable("features", view, reason)]
    found = columns.Reconstruction.of(run.sites, layer)
    for number in range(run.effort.small_sites):
        small = {
            client: replace(site, samples=site.trained_with(_one_member(run, client, number)))
            for client, site in run.sites.items()
        }
        seen = run.first({client: site.samples for client, site in small.items()})
        for client, arrays in columns.with_layer(layer, seen):
            found.add(small[client], seen.training, seen.sent[client], arrays)
    if not found.by_attack:
        return [not_applicable("features", view, _NOT_ASKED)]
    name, one = found.best()
    what = "structure encodings" if layer.structure else "features"
    note = f"of {what}, by {name}; chance: their mean over all sites"
    result = paired(one.told, one.known, least=-1.0), fmean(one.known)
    return [finding("features", view, *result, len(one.told), note)]


def _layer(run: Attacked, structure: bool) -> columns.Layer | None:
    return columns.first_layer(run.sharing.sent_up, next(iter(run.sites.values())), structure)


def _one_member(run: Attacked, client: str, number: int) -> torch.Tensor:
    members = run.sites[client].members
    draw = Randomness(run.effort.seed, client, number).generator("small site")
    return members[torch.randperm(members.numel(), generator=draw)[:1]]


def _rows(run: Attacked, view: View) -> list[Finding]:
    shared, layer = run.sharing.sent_up, _layer(run, structure=False)
    reason = run.sharing.no_replies or run.not_repeated or run.refuses_prepared
    if not reason and (layer is None or layer.bias not in shared):
        reason = "no layer over features with a bias leaves a site"
    if layer is None or reason:
        return [not_applicable("rows", view, reason)]
    seen = run.first(prepared=prepared(shared, layer, run.sites))
    if not columns.with_layer(layer, seen):
        return [not_applicable("rows", view, _NOT_ASKED)]
    found = rows_read(seen, layer, run.sites)
    share = proportion(found.rows, found.total)
    note = f"{found.rows} of {found.total}; chance: as many guesses, each another sample's"
    return [finding("rows", view, share, found.chance, found.total, note)]


def _labels(run: Attacked, view: View) -> list[Finding]:
    reason = "" if run.target.has_classes else f"for classes, not for {words(run.target)}"
    reason = reason or run.sharing.no_network(view) or run.not_repeated
    errors, chance = ([], []) if reason else _label_errors(run, view)
    if not errors:
        reason = reason or "no other site has held-out samples"
        return [not_applicable("labels", view, reason)]
    note = "chance: the mean of the other sites' shares"
    return [finding("labels", view, paired(errors, chance), fmean(chance), len(errors), note)]


def _label_errors(run: Attacked, view: View) -> tuple[list[float], list[float]]:
    """How far the mean prediction for other sites' samples is from a site's own shares."""
    errors, chance = [], []
    for client, model in run.networks(view)[-1].items():
        probabilities = [
            site.outputs(model, site.others).softmax(dim=1)
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


def _membership(run: Attacked, view: View) -> list[Finding]:
    return _told(run, "membership", view, lambda models: by_loss(models, run.sites))


def _lira(run: Attacked, view: View) -> list[Finding]:
    reason = "" if run.effort.references else "no shadow runs were asked for"
    return _told(run, "lira", view, lambda seen: run.shadows.ratios(seen, run.sites), reason)


def _told(
    run: Attacked,
    attack: str,
    view: View,
    ranking: Callable[[Models], list[Ranked]],
    reason: str = "",
) -> list[Finding]:
    """AUC and hit rate of an attack on networks."""
    if not any(site.others.numel() for site in run.sites.values()):
        reason = "the held-out samples are not the sites' own, so there is nothing to compare"
    repeats = view != "model" or attack == "lira"
    reason = reason or run.sharing.no_network(view) or (run.not_repeated if repeats else "")
    models = [] if reason else run.networks(view)
    if not models:
        reason = reason or "no merged model reached all members before the last round"
        return [not_applicable(name, view, reason) for name in (attack, f"{attack}-tpr")]
    found = ranking(models)
    return [area(attack, view, found), hits(f"{attack}-tpr", view, found)]


def _links(run: Attacked, view: View) -> list[Finding]:
    graphs = {
        client: site.samples.graph
        for client, site in run.sites.items()
        if isinstance(site.samples, NodeSamples)
    }
    reason = "" if graphs else "for nodes of one graph; here the samples are graphs"
    repeats = view not in ("model", "predictions")
    reason = reason or run.sharing.no_network(view) or (run.not_repeated if repeats else "")
    if reason:
        return [not_applicable("links", view, reason)]
    models, with_links = run.networks(view)[-1], view == "predictions"
    found = links.stolen(models, graphs, run.pairs, run.target, with_links)
    return [area("links", view, found)]


def _epsilon(run: Attacked, view: View) -> list[Finding]:
    reason = "" if run.effort.canaries else "no canaries were asked for"
    if reason or run.not_repeated:
        return [not_applicable("epsilon", view, reason or run.not_repeated)]
    made = canaries.guesses(run)
    graphs = isinstance(next(iter(run.sites.values())).samples, GraphSamples)
    what = "graph" if graphs else f"node's {words(run.target)}"
    note = f"unit: one {what}; {made.correct} of {made.made} guesses were correct"
    budget = run.experiment.settings.budget
    bound = epsilon_bound(made.correct, made.made, 0.0 if budget is None else budget.delta)
    return [finding("epsilon", view, bound, 0.0, made.made, note)]


ATTACKS: tuple[Attack, ...] = (
    Attack("degrees", ("replies",), _degrees, control.as_it_is),
    Attack("features", ("replies",), _features, control.as_it_is),
    Attack("rows", ("prepared",), _rows, control.as_it_is),
    Attack("labels", ("replies",), _labels, control.one_class),
    Attack("membership", ("replies", "rounds", "model"), _membership, control.random_labels),
    Attack("lira", ("replies", "model"), _lira, control.random_labels),
    Attack("links", ("replies", "model", "predictions"), _links, control.labels_per_link),
    Attack("epsilon", ("model",), _epsilon, control.random_labels),
)
