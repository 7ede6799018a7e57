"""A site's samples as an attacker uses them: members, other samples, and altered copies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ramet.leak import labels as of_labels
from ramet.leak.intervals import Scores
from ramet.tasks import GraphSamples, NodeSamples, Target
from ramet.tasks.targets import CLASSES


@dataclass(frozen=True)
class Candidates:
    """The samples of a site that may have been trained with."""

    samples: GraphSamples | NodeSamples
    target: Target = CLASSES
    """What is predicted."""

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
        """The number of classes, or of outputs."""
        return int(self._content.classes)

    @property
    def scale(self) -> Tensor | None:
        """The means and deviations of numbers, or weights of classes."""
        scale: Tensor | None = self._content.label_scale
        return scale

    @property
    def _content(self) -> Any:
        return self.samples.block if isinstance(self.samples, GraphSamples) else self.samples.graph

    def trained_with(self, members: Tensor) -> GraphSamples | NodeSamples:
        """The samples with other ones for training."""
        return replace(self.samples, split=replace(self.samples.split, train=members))

    def with_random_labels(self, draw: torch.Generator) -> Candidates:
        """A copy with labels that nothing tells."""
        labels = of_labels.random_labels(self.target, self.labels, self.classes, self.scale, draw)
        return self.relabelled(torch.arange(len(labels)), labels)

    def with_wrong_labels(self, chosen: Tensor, draw: torch.Generator) -> Candidates:
        """A copy in which the chosen samples have labels that are not theirs."""
        true = self.labels[chosen]
        wrong = of_labels.wrong_labels(self.target, true, self.classes, self.scale, draw)
        return self.relabelled(chosen, wrong)

    def relabelled(self, chosen: Tensor, labels: Tensor) -> Candidates:
        """A copy in which the chosen samples have other labels."""
        changed = self.labels.clone()
        changed[chosen] = labels
        if isinstance(self.samples, GraphSamples):
            block = replace(self.samples.block, labels=changed, class_count=self.classes)
            return replace(self, samples=replace(self.samples, block=block))
        graph = replace(self.samples.graph, labels=changed)
        return replace(self, samples=replace(self.samples, graph=graph))

    @torch.inference_mode()
    def outputs(self, model: nn.Module, chosen: Tensor) -> Tensor:  # [chosen, outputs]
        """The network's outputs; those of nodes are computed with their neighbours."""
        model.eval()
        if isinstance(self.samples, NodeSamples):
            outputs: Tensor = model(self.samples.graph)[chosen]
        else:
            parts = [model(self.samples.block.cut(part)) for part in torch.split(chosen, 64)]
            outputs = torch.cat(parts)
        return outputs.double().nan_to_num(0.0)

    def margins(self, model: nn.Module, chosen: Tensor) -> Scores:
        """How well the network knows each sample, which grows as the loss falls."""
        outputs = self.outputs(model, chosen)
        margins = of_labels.margins(self.target, outputs, self.labels[chosen], self.scale)
        found: Scores = margins.double().numpy()
        return found

    def shares(self) -> Scores:
        """The share of each class among the members."""
        counts = torch.bincount(self.labels[self.members], minlength=self.classes).double()
        found: Scores = (counts / counts.sum()).numpy()
        return found
