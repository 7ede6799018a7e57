"""CPU time of one training round of FedStar, relative to a plain PyG implementation.

The plain implementation uses a DataLoader over `Data` objects, GINConv, GCNConv with `gcn_norm` in
every call, `F.dropout` and Adam. Both train the same network on the same graphs with the same batch
size, in one process and one thread, in alternation. Structure encodings are precomputed for both.

    RAMET_DATA=DIR python benchmarks/plain_pyg.py [TRIALS] [SETTING]      default: 5 single
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, global_add_pool

from ramet.experiment import Experiment, checked_settings, default_data
from ramet.models import DualChannel, GraphShape
from ramet.tasks import GraphSamples

BATCH = 128


class PlainDualChannel(nn.Module):
    """FedStar's network in plain PyG."""

    def __init__(self, shape: GraphShape, hidden: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(shape.features, hidden)
        self.embed_structure = nn.Linear(shape.structure, hidden)
        self.gins = nn.ModuleList(
            GINConv(
                nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
            )
            for _ in range(layers)
        )
        self.gcns = nn.ModuleList(GCNConv(hidden, hidden) for _ in range(layers))
        self.mix = nn.Linear(2 * hidden, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.classify = nn.Linear(hidden, shape.classes)

    def forward(self, data: Data) -> Tensor:
        x, s = self.embed(data.x), self.embed_structure(data.structure)
        for gin, gcn in zip(self.gins, self.gcns, strict=True):
            x = gin(torch.cat([x, s], dim=1), data.edge_index).relu()
            x = functional.dropout(x, 0.5, self.training)
            s = gcn(s, data.edge_index).tanh()
        pooled = global_add_pool(self.mix(torch.cat([x, s], dim=1)), data.batch)
        pooled = functional.dropout(self.hidden(pooled).relu(), 0.5, self.training)
        logits: Tensor = self.classify(pooled)
        return logits


def as_data(samples: GraphSamples) -> list[Data]:
    """The training graphs as PyG objects, one per graph."""
    graphs = []
    for graph in samples.split.train:
        batch = samples.block.cut(graph.unsqueeze(0))
        x = batch.features
        if not x.is_floating_point():
            x = functional.one_hot(x, samples.block.feature_width).float()
        links = torch.stack([batch.whole.rows, batch.columns.long()])
        graphs.append(Data(x=x, structure=batch.structure, edge_index=links, y=batch.labels))
    return graphs


def plain_round(sites: Sequence[tuple[DataLoader, nn.Module, torch.optim.Optimizer]]) -> float:
    start = time.process_time()
    for loader, model, optimiser in sites:
        for data in loader:
            loss = functional.cross_entropy(model(data), data.y)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return time.process_time() - start


def our_round(
    experiment: Experiment,
    sites: Sequence[tuple[GraphSamples, nn.Module, torch.optim.Optimizer]],
    number: int,
) -> float:
    task, order = experiment.method.task, torch.Generator().manual_seed(number)
    start = time.process_time()
    for samples, model, optimiser in sites:
        for batch in task.batches(samples, BATCH, order):
            loss = task.loss(task.output(model, batch), batch)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    setting = sys.argv[2] if len(sys.argv) > 2 else "single"
    experiment = Experiment(
        checked_settings(method="fedstar", setting=setting, data=default_data())
    )
    our_sites, plain_sites = [], []
    for client in experiment.clients:
        samples = experiment.samples(client)
        ours = DualChannel(experiment.method.task.shape(samples))
        our_sites.append((samples, ours, experiment.method.training.optimiser(ours)))
    our_round(experiment, our_sites, 0)  # warm-up
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{setting}: peak memory {peak:.2f} GB for the data and one Ramet round")
    for samples, ours, _ in our_sites:
        plain = PlainDualChannel(experiment.method.task.shape(samples))
        assert sum(p.numel() for p in plain.parameters()) == sum(
            p.numel() for p in ours.parameters()
        )
        adam = torch.optim.Adam(plain.parameters(), lr=1e-3, weight_decay=5e-4)
        plain_sites.append((DataLoader(as_data(samples), BATCH, shuffle=True), plain, adam))
    plain_round(plain_sites[:1])  # warm-up
    theirs, mine = [], []
    for trial in range(1, trials + 1):
        theirs.append(plain_round(plain_sites))
        mine.append(our_round(experiment, our_sites, trial))
        print(f"trial {trial}: plain PyG {theirs[-1]:.2f} s, Ramet {mine[-1]:.2f} s (CPU time)")
    print(f"ratio of medians, Ramet to plain PyG: {median(mine) / median(theirs):.3f}")


if __name__ == "__main__":
    main()
