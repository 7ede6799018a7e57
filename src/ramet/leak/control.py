"""A run that is made to leak, on which an attack must succeed to mean anything elsewhere.

It has the networks and the sample sizes of the audited run, and protects nothing. Round 1 is one
step of plain SGD without decay and dropout. Networks are trained, without decay and dropout, until
they know the labels of their training samples by heart. What an attack looks for is planted in
these labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ramet.engine.store.client_state import load_arrays, model_arrays
from ramet.experiment import Experiment
from ramet.experiment.run_models import start_model_of
from ramet.leak.attacked import Attacked
from ramet.leak.candidates import Candidates
from ramet.leak.capture import Seen
from ramet.leak.findings import View
from ramet.leak.links import Pairs, alone
from ramet.payload import Array, Arrays
from ramet.randomness import Randomness
from ramet.tasks import GraphSamples, NodeSamples
from ramet.training.local import LocalTraining, descend

PLAIN_STEP = LocalTraining(lr=0.1, weight_decay=0.0, algorithm="sgd")
_BY_HEART = LocalTraining(lr=0.01, weight_decay=0.0)
_STEPS, _KNOWN = 100, 0.05
"""Training by heart ends after this many steps, or with this loss."""
_SHADOWS = 2
"""The largest number of shadow runs, which are alike where samples are known by heart."""

Plant: TypeAlias = Callable[[Candidates, Pairs | None, int, torch.Generator], Candidates]
"""Plants a secret at a site, given its pairs of nodes, its number, and a source of draws."""


def as_it_is(site: Candidates, _pairs: Pairs | None, _number: int, _draw: Any) -> Candidates:
    """The attack looks for something that every gradient has."""
    return site


def random_labels(
    site: Candidates, _pairs: Pairs | None, _number: int, draw: torch.Generator
) -> Candidates:
    """Who knows a sample's labels was trained with it."""
    return site.with_random_labels(draw)


def one_class(
    site: Candidates, _pairs: Pairs | None, number: int, draw: torch.Generator
) -> Candidates:
    """Nearly all samples of a site have the same class, which the next site has not."""
    classes = site.with_random_labels(draw).labels
    usual = torch.rand(classes.shape, generator=draw) < 0.9
    return site.relabelled(_every(site), classes.where(~usual, number % site.classes))


def labels_per_link(
    site: Candidates, pairs: Pairs | None, _number: int, draw: torch.Generator
) -> Candidates:
    """Linked nodes have the same labels, which are learned from the nodes' own features."""
    assert pairs is not None
    planted = site.with_random_labels(draw)
    planted = planted.relabelled(pairs.linked[1], planted.labels[pairs.linked[0]])
    samples = planted.trained_with(_every(site))
    assert isinstance(samples, NodeSamples)
    return replace(site, samples=replace(samples, graph=alone(samples.graph)))


def _every(site: Candidates) -> Tensor:
    return torch.arange(len(site.labels))


class Leaking(Attacked):
    """A run that is made to leak."""

    def __init__(self, run: Attacked, plant: Plant) -> None:
        sites = {}
        for number, (client, site) in enumerate(run.sites.items()):
            draw = Randomness(run.effort.seed, client, 0).generator("planted")
            sites[client] = plant(site, run.pairs.get(client), number, draw)
        effort = replace(run.effort, references=min(run.effort.references, _SHADOWS))
        super().__init__(run.experiment, sites, effort)
        self.pairs = run.pairs

    def first(
        self, samples: Mapping[str, Any] | None = None, prepared: Arrays | None = None
    ) -> Seen:
        given = samples or {client: site.samples for client, site in self.sites.items()}
        sent, received = dict[str, Arrays](), dict[str, Arrays]()
        for client, own in given.items():
            model = start_model_of(self.experiment, client)
            load_arrays(model, prepared or {})
            sent[client], received[client] = _plain_step(self.experiment, model, own)
        return Seen(PLAIN_STEP, sent, received)

    def networks(self, view: View) -> list[dict[str, nn.Module]]:  # noqa: ARG002
        return [self._by_heart]

    def trained(self, samples: Mapping[str, Any], number: int) -> dict[str, nn.Module]:  # noqa: ARG002
        return {client: _learned(self.experiment, client, own) for client, own in samples.items()}

    @cached_property
    def _by_heart(self) -> dict[str, nn.Module]:
        return self.trained({client: site.samples for client, site in self.sites.items()}, 0)


def _plain_step(
    experiment: Experiment, model: nn.Module, samples: GraphSamples | NodeSamples
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The arrays of a network before and after one step over all samples."""
    model.eval()
    before = {name: array.copy() for name, array in model_arrays(model).items()}
    descend(PLAIN_STEP.optimiser(model), _loss(experiment, model, samples))
    return before, model_arrays(model)


def _learned(experiment: Experiment, client: str, samples: GraphSamples | NodeSamples) -> nn.Module:
    """A network that knows the training samples by heart."""
    model = start_model_of(experiment, client).eval()
    optimiser = _BY_HEART.optimiser(model)
    for _ in range(_STEPS):
        loss = _loss(experiment, model, samples)
        if loss.item() < _KNOWN:
            break
        descend(optimiser, loss)
    return model


def _loss(experiment: Experiment, model: nn.Module, samples: GraphSamples | NodeSamples) -> Tensor:
    """The loss over all training samples."""
    task, draw = experiment.method.task, torch.Generator().manual_seed(0)
    batch = next(iter(task.batches(samples, samples.split.train.numel(), draw)))
    return task.loss(task.output(model, batch), batch)
