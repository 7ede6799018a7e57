"""A site's samples as an attacker uses them: members, other samples, and altered copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramet.leak.intervals import Scores
from ramet.tasks import GraphSamples, NodeSamples


@dataclass(frozen=True)
class Candidates:
    """The samples of a site that may have been trained with."""

    samples: GraphSamples | NodeSamples

    @property
    def members(self) -> Tensor:
        return self.samples.split.train

    @property
    def others(self) -> Tensor:
        """The held-out samples, if they are the site's own."""
        if isinstance(self.samples, NodeSamples) and self.samples.evaluated_elsewhere:
            return self.members.new_empty(0)
        return torch.cat([self.samples.split.val, self.samples.split.test])

    @property
    def labels(self) -> Tensor:
        labels: Tensor = self._content.labels
        return labels

    @property
    def classes(self) -> int:
        return int(self._content.classes)

    @property
    def _content(self) -> Any:
        return self.samples.block if isinstance(self.samples, GraphSamples) else self.samples.graph

    def trained_with(self, members: Tensor) -> GraphSamples | NodeSamples:
        """The samples with other ones for training."""
        return replace(self.samples, split=replace(self.samples.split, train=members))

    def relabelled(self, chosen: Tensor, labels: Tensor) -> Candidates:
        """A copy in which the chosen samples have other classes."""
        changed = self.labels.clone()
        changed[chosen] = labels
        if isinstance(self.samples, GraphSamples):
            block = replace(self.samples.block, labels=changed, class_count=self.classes)
            return Candidates(replace(self.samples, block=block))
        graph = replace(self.samples.graph, labels=changed)
        return Candidates(replace(self.samples, graph=graph))

    @torch.inference_mode()
    def logits(self, model: nn.Module, chosen: Tensor) -> Tensor:  # [chosen, classes]
        """The network's logits; those of nodes are computed with their neighbours."""
        model.eval()
        if isinstance(self.samples, NodeSamples):
            outputs: Tensor = model(self.samples.graph)[chosen]
        else:
            parts = [model(self.samples.block.cut(part)) for part in torch.split(chosen, 64)]
            outputs = torch.cat(parts)
        return outputs.double().nan_to_num(0.0)

    def margins(self, model: nn.Module, chosen: Tensor) -> Scores:
        """log p / (1 - p) of each sample's own class, which grows as the loss falls."""
        logs = self.logits(model, chosen).log_softmax(dim=1)
        own = logs.gather(1, self.labels[chosen].unsqueeze(1)).squeeze(1)
        rest = logs.scatter(1, self.labels[chosen].unsqueeze(1), -torch.inf).logsumexp(dim=1)
        found: Scores = (own - rest).numpy().astype(np.float64)
        return found

    def shares(self) -> Scores:
        """The share of each class among the members."""
        counts = torch.bincount(self.labels[self.members], minlength=self.classes).double()
        found: Scores = (counts / counts.sum()).numpy()
        return found
