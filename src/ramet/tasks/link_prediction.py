"""Link prediction: cross-entropy on links and negatives, ROC-AUC and MRR on held-out pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ramet.data import ClientData, StructureEncoding
from ramet.data.graphs.hetero_graph import HeteroGraph, LabelledPairs, Links
from ramet.data.link_split import HeldOutPairs
from ramet.data.own import Schema, TaskName, check_task, width_of
from ramet.models import LinkShape
from ramet.tasks.base import Predictions, Scores, encoded, mismatch


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
class LinkPrediction:
    """The task for links between nodes of typed graphs."""

    name: ClassVar[TaskName] = "link-prediction"
    metric: str = "ROC-AUC"

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
        graph = samples.graph
        training = graph.learned.nonzero().flatten()
        shuffled = training[torch.randperm(training.numel(), generator=generator)]
        for part in torch.split(shuffled, size):
            links = graph.links[part]
            tails = graph.random_tails(links.kinds, generator)
            pairs = Links.joined([links, Links(links.heads, tails, links.kinds)])
            labels = torch.cat([torch.ones(len(links)), torch.zeros(len(links))])
            yield LinkBatch(graph, pairs, labels)

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
        model.eval()
        nodes = model.encode(samples.graph.to(device)).cpu()
        predictions = {}
        for part, held in (("val", samples.held_out.val), ("test", samples.held_out.test)):
            linked = model.cpu().scores(nodes, held.pairs).double()
            logits = torch.stack([torch.zeros_like(linked), linked], dim=1)
            predictions[part] = Predictions.of(logits, held.labels.long(), torch.ones(1).long())
        return predictions

    @torch.no_grad()
    def evaluate(self, model: Any, samples: LinkSamples, device: torch.device) -> Scores:
        """ROC-AUC or MRR (``val``, ``test``), as means over relations and for each relation."""
        model.eval()
        nodes = model.encode(samples.graph.to(device)).cpu()
        names = [relation.name for relation in samples.graph.relations]
        val = _by_relation(model, nodes, samples.held_out.val, len(names))
        test = _by_relation(model, nodes, samples.held_out.test, len(names))
        means = {part: _means(by_kind) for part, by_kind in (("val", val), ("test", test))}
        scores = {part: of_part[self.metric] for part, of_part in means.items()}
        scores["mrr"] = means["test"]["mrr"]
        for kind, (auc, mrr) in test.items():
            scores |= {f"auc of {names[kind]}": auc, f"mrr of {names[kind]}": mrr}
        return scores

    def extra_scores(
        self,
        model: nn.Module,  # noqa: ARG002
        samples: LinkSamples,  # noqa: ARG002
        device: torch.device,  # noqa: ARG002
    ) -> Scores:
        return {}


def _means(by_relation: Mapping[int, tuple[float, float]]) -> dict[str, float]:
    aucs, ranks = zip(*by_relation.values(), strict=True)
    return dict(zip(LINK_METRICS, (fmean(aucs), fmean(ranks)), strict=True))


def _by_relation(
    model: Any, nodes: Tensor, held_out: LabelledPairs, relations: int
) -> dict[int, tuple[float, float]]:
    """ROC-AUC and MRR of each relation with held-out pairs."""
    from sklearn.metrics import roc_auc_score  # takes a second to import

    scores = model.cpu().scores(nodes, held_out.pairs).numpy()
    labels, kinds = held_out.labels.numpy(), held_out.pairs.kinds.numpy()
    heads = held_out.pairs.heads.numpy()
    by_relation = {}
    for kind in range(relations):
        own = kinds == kind
        if own.any():
            auc = float(roc_auc_score(labels[own], scores[own]))
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
