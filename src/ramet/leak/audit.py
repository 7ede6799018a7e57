"""Attack a finished run with what its participants see, and say how far one gets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ramet.engine.store.client_state import load_arrays
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.leak import canaries, columns, links
from ramet.leak.candidates import Candidates
from ramet.leak.capture import Seen, first_round, last_round, starts_anew
from ramet.leak.control import PLAIN_STEP, plain_step
from ramet.leak.findings import VIEWS, Audit, Finding, View, finding, not_applicable
from ramet.leak.intervals import (
    Estimate,
    Ranked,
    auc_estimate,
    epsilon_bound,
    f1,
    f1_estimate,
    hit_rate,
    mean,
    mean_auc,
)
from ramet.leak.membership import References, by_loss, references
from ramet.payload import Array
from ramet.randomness import Randomness
from ramet.tasks import GraphSamples, NodeSamples

_FALSE_ALARMS = 0.01
_NOT_ASKED = "no site was asked for its first layer in round 1"
_NOBODY = "no site has both members and other samples, or none answered in the last round"


@dataclass(frozen=True)
class Effort:
    """How much the attackers may compute.

    Args:
        references: reference models per site; 0 for none.
        rounds: the largest number of rounds for which a reference model is trained.
        canaries: the largest number of canaries per site; 0 for none.
        small_sites: how often each site is repeated with one training sample.
        redrawn: how often masks are drawn anew, to see how much they alone make a number vary.
        seed: of everything that the attackers draw.
    """

    references: int = 4
    rounds: int = 20
    canaries: int = 50
    small_sites: int = 4
    redrawn: int = 50
    seed: int = 0


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
        attacked = _Attacked(run, experiment, Path(scratch), effort)
        found = tuple(attacked.findings())
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
    if dp := getattr(settings, "dp", None):
        parts.append(f"DP {dp}")
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
    run.check_split()


class _Attacked:
    """A run with what its attackers see, each part computed on first use."""

    def __init__(
        self, run: RunFolder, experiment: Experiment, scratch: Path, effort: Effort
    ) -> None:
        self.run, self.experiment, self.effort = run, experiment, effort
        self._scratch = scratch
        self.sites = {
            client: Candidates(experiment.samples(client)) for client in experiment.clients
        }

    def findings(self) -> Iterator[Finding]:
        yield self._degrees()
        yield self._features()
        yield self._labels()
        yield from self._membership("replies")
        yield from self._membership("model")
        for view in VIEWS:
            yield self._links(view)
        yield self._epsilon()

    @cached_property
    def first(self) -> Seen:
        return first_round(self.experiment, self._scratch / "first")

    @cached_property
    def last(self) -> Seen:
        return last_round(self.run, self.experiment, self._scratch / "last")

    @cached_property
    def final(self) -> dict[str, nn.Module]:
        return {client: self.run.model(client) for client in self.experiment.clients}

    @cached_property
    def references(self) -> References:
        rounds = min(self.experiment.settings.rounds, self.effort.rounds)
        effort = self.effort
        return references(self.experiment, self.sites, effort.references, rounds, effort.seed)

    @property
    def _round_one_is_lost(self) -> str:
        if not starts_anew(self.run):
            return "the run started from another one's models, so round 1 cannot be repeated"
        return ""

    @property
    def _names(self) -> list[str]:
        """The names of the parameters that leave a site."""
        up = self.experiment.method.up
        return [name for name in self.experiment.sizes.shared_names() if name in up]

    @property
    def _sent_up(self) -> dict[str, Array]:
        """The parameters that leave a site, as they are before round 1."""
        start = self.experiment.sizes.shared_start() if self._names else {}
        return {name: start[name] for name in self._names}

    @property
    def _no_replies(self) -> str:
        return "" if self._names else "no parameters leave a site"

    @cached_property
    def _no_network(self) -> str:
        """Why a reply is no network, if it is none."""
        if self._no_replies:
            return self._no_replies
        names = {*self.experiment.start_model(self.experiment.clients[0]).state_dict()}
        missing = sorted(names - {*self._names})
        if missing:
            return f"needs the whole network, of which '{missing[0]}' does not leave a site"
        return ""

    def networks(self, seen: Seen) -> dict[str, nn.Module]:
        """The networks in the replies."""
        models = {}
        for client, arrays in seen.read().items():
            models[client] = self.experiment.start_model(client)
            load_arrays(models[client], arrays)
        return models

    def _degrees(self) -> Finding:
        encoding, site = self.experiment.method.inputs, next(iter(self.sites.values()))
        shared = self._sent_up
        layer = columns.first_layer(shared, site, structure=True) if encoding.degrees else None
        reason = self._no_replies or self._round_one_is_lost
        if layer is None and not reason:
            reason = "no layer over structure encodings leaves a site"
        if layer is None or reason:
            return not_applicable("degrees", "replies", reason)
        truth, found = columns.degrees_found(self.first, self.sites, layer, encoding.degrees)
        if not truth.size:
            return not_applicable("degrees", "replies", _NOT_ASKED)
        always = f1(truth, np.ones_like(truth))
        note = "chance: saying that all degrees occur"
        return finding("degrees", "replies", f1_estimate(truth, found), always, truth.size, note)

    def _features(self) -> Finding:
        shared, site = self._sent_up, next(iter(self.sites.values()))
        reason = self._no_replies or self._round_one_is_lost
        layer = columns.first_layer(shared, site, structure=False)
        layer = layer or columns.first_layer(shared, site, structure=True)
        if layer is None and not reason:
            reason = "no layer over features leaves a site"
        if layer is None or reason:
            return not_applicable("features", "replies", reason)
        found, control = (columns.Reconstruction.of(self.sites, layer) for _ in range(2))
        for number in range(self.effort.small_sites):
            small = {
                client: Candidates(site.trained_with(self._one_member(client, number)))
                for client, site in self.sites.items()
            }
            samples = {client: site.samples for client, site in small.items()}
            seen = first_round(self.experiment, self._scratch / f"small-{number}", samples)
            for client, arrays in columns.with_layer(layer, seen):
                site, training = small[client], self.experiment.method.training
                found.add(site, training, seen.sent[client], arrays)
                start = self.experiment.start_model(client)
                control.add(site, PLAIN_STEP, *plain_step(self.experiment, start, site.samples))
        if not found.by_attack:
            return not_applicable("features", "replies", _NOT_ASKED)
        name, one = found.best()
        _, open_one = control.best()
        leaking = _paired(open_one.told, open_one.known), fmean(open_one.known)
        what = "structure encodings" if layer.structure else "features"
        note = f"of {what}, by {name}; chance: their mean over all sites"
        result = _paired(one.told, one.known), fmean(one.known)
        return replace(
            finding("features", "replies", *result, len(one.told), note),
            has_power=finding("features", "replies", *leaking, len(open_one.told)).leaks,
        )

    def _one_member(self, client: str, number: int) -> torch.Tensor:
        members = self.sites[client].members
        draw = Randomness(self.effort.seed, client, number).generator("small site")
        return members[torch.randperm(members.numel(), generator=draw)[:1]]

    def _labels(self) -> Finding:
        if self._no_network:
            return not_applicable("labels", "replies", self._no_network)
        errors, chance = self._label_errors(self.last)
        if not errors:
            return not_applicable("labels", "replies", "no other site has held-out samples")
        note = "chance: the mean of the other sites' shares"
        return finding(
            "labels", "replies", _paired(errors, chance), fmean(chance), len(errors), note
        )

    def _label_errors(self, seen: Seen) -> tuple[list[float], list[float]]:
        """How far the mean prediction for other sites' samples is from a site's own shares."""
        errors, chance = [], []
        for client, model in self.networks(seen).items():
            probabilities = [
                site.logits(model, site.others).softmax(dim=1)
                for other, site in self.sites.items()
                if other != client and site.others.numel()
            ]
            if not probabilities:
                continue
            guess = torch.cat(probabilities).mean(dim=0).numpy()
            others = [site.shares() for other, site in self.sites.items() if other != client]
            truth = self.sites[client].shares()
            errors.append(float(np.abs(guess - truth).sum() / 2))
            chance.append(float(np.abs(np.mean(others, axis=0) - truth).sum() / 2))
        return errors, chance

    def _membership(self, view: View) -> Iterator[Finding]:
        reason = self._no_network if view == "replies" else ""
        if not any(site.others.numel() for site in self.sites.values()):
            reason = "the held-out samples are not the sites' own, so there is nothing to compare"
        yield from self._told("membership", view, reason, lambda m: by_loss(m, self.sites))
        if not reason and not self.effort.references:
            reason = "no reference models were asked for"
        yield from self._told(
            "reference", view, reason, lambda m: self.references.calibrated(m, self.sites)
        )

    def _told(
        self,
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
        ranked = ranking(self.final if view == "model" else self.networks(self.last))
        controls = self._controls(ranking) if view == "replies" and self.last.masked else []
        yield _area(attack, view, ranked, controls)
        yield _hits(f"{attack}-tpr", view, ranked, controls)

    def _controls(
        self, ranking: Callable[[Mapping[str, nn.Module]], list[Ranked]]
    ) -> list[list[Ranked]]:
        """The same attack on random numbers in place of masked replies, many times."""
        return [
            ranking(self.networks(self.last.redrawn(self.effort.seed + number)))
            for number in range(self.effort.redrawn)
        ]

    def _links(self, view: View) -> Finding:
        samples = {
            client: site.samples
            for client, site in self.sites.items()
            if isinstance(site.samples, NodeSamples)
        }
        reason = self._no_network if view == "replies" else ""
        if not samples:
            reason = "for nodes of one graph; here the samples are graphs"
        if reason:
            return not_applicable("links", view, reason)
        chosen = {c: links.pairs(one, c, self.effort.seed) for c, one in samples.items()}

        def ranking(models: Mapping[str, nn.Module]) -> list[Ranked]:
            return links.stolen(models, samples, chosen, with_links=view == "predictions")

        ranked = ranking(self.networks(self.last) if view == "replies" else self.final)
        controls = self._controls(ranking) if view == "replies" and self.last.masked else []
        return _area("links", view, ranked, controls)

    def _epsilon(self) -> Finding:
        reason = self._round_one_is_lost
        if not self.effort.canaries:
            reason = "no canaries were asked for"
        if reason:
            return not_applicable("epsilon", "model", reason)
        effort = self.effort
        folder = self._scratch / "canaries"
        made = canaries.guesses(self.experiment, self.sites, folder, effort.canaries, effort.seed)
        what = (
            "graph"
            if isinstance(next(iter(self.sites.values())).samples, GraphSamples)
            else ("node's class")
        )
        note = f"unit: one {what}; {made.correct} of {made.made} guesses were correct"
        bound = epsilon_bound(made.correct, made.made, delta_of(self.experiment))
        return finding("epsilon", "model", bound, 0.0, made.made, note)


def delta_of(experiment: Experiment) -> float:
    """The δ that a run with differential privacy promises; 0 without."""
    given = str(getattr(experiment.settings, "dp", None) or "")
    options = dict(part.split("=", 1) for part in given.split(",") if "=" in part)
    return float(options.get("delta", 0.0))


def _area(
    attack: str, view: View, ranked: Sequence[Ranked], controls: Sequence[Sequence[Ranked]]
) -> Finding:
    if not ranked:
        return not_applicable(attack, view, _NOBODY)
    areas = [mean_auc(one) for one in controls]
    estimate = auc_estimate(ranked, float(np.var(areas, ddof=1)) if areas else 0.0)
    return finding(attack, view, estimate, *_chance(areas, 0.5, ranked))


def _hits(
    attack: str, view: View, ranked: Sequence[Ranked], controls: Sequence[Sequence[Ranked]]
) -> Finding:
    if not ranked:
        return not_applicable(attack, view, _NOBODY)
    rates = [hit_rate(one, _FALSE_ALARMS).value for one in controls]
    estimate = hit_rate(ranked, _FALSE_ALARMS)
    if rates:
        spread = 2 * float(np.std(rates, ddof=1))
        low, high = estimate.value - spread, estimate.value + spread
        estimate = Estimate(
            estimate.value, max(0.0, min(low, estimate.low)), min(1.0, max(high, estimate.high))
        )
    return finding(attack, view, estimate, *_chance(rates, _FALSE_ALARMS, ranked))


def _chance(
    controls: Sequence[float], otherwise: float, ranked: Sequence[Ranked]
) -> tuple[float, int, str]:
    """What one gets without the view, on how many samples, and where the first is from."""
    samples = sum(one.positives.size + one.negatives.size for one in ranked)
    if not controls:
        return otherwise, samples, ""
    note = f"chance: mean of {len(controls)} draws of random numbers in place of the replies"
    return round(fmean(controls), 6), samples, note


def _paired(values: Sequence[float], chance: Sequence[float]) -> Estimate:
    """The mean of values from 0 to 1, with the interval of their difference from chance."""
    difference, centre = mean([a - b for a, b in zip(values, chance, strict=True)]), fmean(chance)
    low, high = centre + difference.low, centre + difference.high
    return Estimate(fmean(values), max(0.0, low), min(1.0, high))


def fmean(values: Sequence[float]) -> float:
    return float(np.mean(values))
