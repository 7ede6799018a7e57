"""Link prediction: cross-entropy on links and negatives, ROC-AUC and MRR on held-out pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ramet.data import ClientData, StructureEncoding
from ramet.data.graphs.copies import copy_on
from ramet.data.graphs.hetero_graph import HeldOutPairs, HeteroGraph, LabelledPairs, Links
from ramet.data.own.schema import Schema, TaskName, check_task, width_of
from ramet.metrics.classification import area_under_roc
from ramet.metrics.summary import Baseline
from ramet.models.shape import LinkShape
from ramet.tasks.base import Scores, Task, encoded, mismatch
from ramet.tasks.targets import CLASSES, Predictions


@dataclass(frozen=True)
class LinkSamples:
    """A client's graph, with held-out pairs for validation and test."""

    graph: HeteroGraph
    held_out: HeldOutPairs

    @property
    def manifest(self) -> dict[str, Any]:
        """Numbers of nodes and links, with hashes of the links and the held-out pairs."""
        counts = torch.bincount(self.graph.links.kinds, minlength=len(self.graph.relations))
        learned = torch.bincount(
            self.graph.links.kinds[self.graph.learned], minlength=len(self.graph.relations)
        )
        names = [relation.name for relation in self.graph.relations]
        return {
            "nodes": self.graph.nodes,
            "links": dict(zip(names, counts.tolist(), strict=True)),
            "learned": dict(zip(names, learned.tolist(), strict=True)),
            "links_sha256": _sha256(self.graph.links, self.graph.learned),
            "val_sha256": _sha256(self.held_out.val.pairs, self.held_out.val.labels),
            "test_sha256": _sha256(self.held_out.test.pairs, self.held_out.test.labels),
        }

    def to(self, device: torch.device) -> LinkSamples:
        """The same samples on a device; they are copied once, and kept."""
        here = self.graph.links.heads.device
        return copy_on(device, self, here, lambda: self._moved(device))

    def _moved(self, device: torch.device) -> LinkSamples:
        held_out = HeldOutPairs(self.held_out.val.to(device), self.held_out.test.to(device))
        moved = LinkSamples(self.graph.to(device), held_out)
        moved.__dict__["on_host"] = self
        return moved

    @cached_property
    def on_host(self) -> LinkSamples:
        """The samples from which these were copied; batches are drawn and scores computed there."""
        return self


@dataclass(frozen=True)
class LinkBatch:
    """Labelled pairs, and the graph for message passing."""

    graph: HeteroGraph
    pairs: Links
    labels: Tensor  # [pairs]

    def to(self, device: torch.device) -> LinkBatch:
        return LinkBatch(self.graph.to(device), self.pairs.to(device), self.labels.to(device))


LINK_METRICS = ("ROC-AUC", "mrr")


@dataclass(frozen=True)
class LinkPrediction(Task):
    """The task for links between nodes of typed graphs."""

    name: ClassVar[TaskName] = "link-prediction"
    metric: str = "ROC-AUC"

    @property
    def has_classes(self) -> bool:
        """Pairs that are links, and others."""
        return True

    def samples(self, data: ClientData[Any, Any]) -> LinkSamples:
        if not isinstance(data.content, HeteroGraph) or not isinstance(data.split, HeldOutPairs):
            raise mismatch(self.name, HeteroGraph, data)
        return LinkSamples(data.content, data.split)

    def plain_shape(self, inputs: StructureEncoding) -> LinkShape:  # noqa: ARG002
        return LinkShape((("node", 1),), ("link",))

    def shape(self, samples: LinkSamples) -> LinkShape:
        graph = samples.graph
        return LinkShape(
            tuple((kind.name, kind.width) for kind in graph.types),
            tuple(relation.name for relation in graph.relations),
        )

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> LinkShape:  # noqa: ARG002
        check_task(schema, self.name)
        types = tuple((name, width_of(features)) for name, features in sorted(schema.nodes.items()))
        return LinkShape(types, tuple(sorted(schema.edges)))

    def weight(self, samples: LinkSamples) -> int:  # noqa: ARG002
        """1 for all clients (eq. 5 of FedDA)."""
        return 1

    def batches(
        self, samples: LinkSamples, size: int, generator: torch.Generator
    ) -> Iterator[LinkBatch]:
        """All training links once, shuffled, each with a negative that has a random tail."""
        graph, on_host = samples.graph, samples.on_host.graph
        training = on_host.learned.nonzero().flatten()
        shuffled = training[torch.randperm(training.numel(), generator=generator)]
        drawn = (_with_negatives(on_host, part, generator) for part in torch.split(shuffled, size))
        device = graph.links.heads.device
        for pairs in drawn if graph is on_host else Links.copied([*drawn], device):
            positive = torch.ones(len(pairs) // 2, device=device)
            yield LinkBatch(graph, pairs, torch.cat([positive, torch.zeros_like(positive)]))

    def output(self, model: nn.Module, batch: LinkBatch) -> Tensor:
        logits: Tensor = model(batch.graph, batch.pairs)
        return logits

    def loss(self, output: Tensor, batch: LinkBatch) -> Tensor:
        return functional.binary_cross_entropy_with_logits(output, batch.labels)

    def encode(self, model: nn.Module, batch: LinkBatch) -> Tensor:
        """An embedding for each node."""
        return encoded(model, batch.graph)

    def labelled(self, batch: LinkBatch) -> tuple[Tensor, Tensor]:
        """All pairs, with 1 for links and 0 for others."""
        return torch.arange(len(batch.pairs), device=batch.labels.device), batch.labels

    @torch.no_grad()  # not inference_mode: tensors that the graph caches are used in training too
    def predictions(
        self, model: Any, samples: LinkSamples, device: torch.device
    ) -> dict[str, Predictions]:
        """Probabilities that held-out pairs are links."""
        predictions = {}
        for part, (held, scores) in self._scored(model, samples, device).items():
            linked = scores.double()
            logits = torch.stack([torch.zeros_like(linked), linked], dim=1)
            predictions[part] = Predictions.of(
                CLASSES, logits, held.labels.long(), torch.ones(1).long()
            )
        return predictions

    def baseline(self, samples: LinkSamples) -> Baseline:
        """Numbers of links; there is no constant prediction."""
        links, test = samples.graph.learned, samples.held_out.test.labels
        return Baseline(train=int(links.sum()), test=int((test > 0).sum()))

    @torch.no_grad()
    def evaluate(self, model: Any, samples: LinkSamples, device: torch.device) -> Scores:
        """ROC-AUC or MRR (``val``, ``test``), as means over relations and for each relation."""
        names = [relation.name for relation in samples.graph.relations]
        by_relation = {
            part: _by_relation(scores.numpy(), held, len(names))
            for part, (held, scores) in self._scored(model, samples, device).items()
        }
        means = {part: _means(by_kind) for part, by_kind in by_relation.items() if by_kind}
        scores: Scores = {part: means.get(part, {}).get(self.metric) for part in by_relation}
        if "test" in means:
            scores["mrr"] = means["test"]["mrr"]
        for kind, (auc, mrr) in by_relation["test"].items():
            scores |= {f"auc of {names[kind]}": auc, f"mrr of {names[kind]}": mrr}
        return scores

    def _scored(
        self, model: Any, samples: LinkSamples, device: torch.device
    ) -> dict[str, tuple[LabelledPairs, Tensor]]:
        """The held-out pairs of both parts and their scores, from one pass of the encoder."""
        model.eval()
        there, here = samples.to(device), samples.on_host.held_out
        nodes = model.encode(there.graph)
        return {
            "val": (here.val, model.scores(nodes, there.held_out.val.pairs).cpu()),
            "test": (here.test, model.scores(nodes, there.held_out.test.pairs).cpu()),
        }


def _with_negatives(graph: HeteroGraph, chosen: Tensor, draw: torch.Generator) -> Links:
    """Links, and then as many pairs with the same heads and random tails."""
    links = graph.links[chosen]
    tails = graph.random_tails(links.kinds, draw)
    return Links.joined([links, Links(links.heads, tails, links.kinds)])


def _means(by_relation: Mapping[int, tuple[float, float]]) -> dict[str, float]:
    aucs, ranks = zip(*by_relation.values(), strict=True)
    return dict(zip(LINK_METRICS, (fmean(aucs), fmean(ranks)), strict=True))


def _by_relation(
    scores: NDArray[Any], held_out: LabelledPairs, relations: int
) -> dict[int, tuple[float, float]]:
    """ROC-AUC and MRR of each relation with held-out pairs."""
    labels, kinds = held_out.labels.numpy(), held_out.pairs.kinds.numpy()
    heads = held_out.pairs.heads.numpy()
    by_relation = {}
    for kind in range(relations):
        own = kinds == kind
        if own.any():
            auc = area_under_roc(labels[own] > 0, scores[own])
            by_relation[kind] = auc, mean_reciprocal_rank(heads[own], scores[own], labels[own])
    return by_relation


def mean_reciprocal_rank(heads: NDArray[Any], scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """1 / rank of a head's best link among its candidates, averaged over the heads with a link.

    Among candidates with equal scores, non-links are ranked first.
    """
    order = np.lexsort((labels, -scores, heads))
    heads, linked = heads[order], labels[order] > 0
    firsts = np.flatnonzero(np.r_[True, heads[1:] != heads[:-1]])
    start_of = np.repeat(firsts, np.diff(np.r_[firsts, heads.size]))
    ranks = np.arange(heads.size) - start_of + 1
    reciprocal = np.where(linked, 1.0 / ranks, 0.0)
    best = np.maximum.reduceat(reciprocal, firsts)
    return float(best[best > 0].mean())


def _sha256(links: Links, flags: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in (links.heads, links.tails, links.kinds, flags):
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def link_prediction() -> LinkPrediction:
    """The task without options."""
    return LinkPrediction()
