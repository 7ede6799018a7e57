"""CPU time of one training round of FedStar, relative to a plain PyG implementation.

The plain implementation uses a DataLoader over `Data` objects, GINConv, GCNConv with `gcn_norm` in
every call, `F.dropout` and Adam. Both train the same network on the same graphs with the same batch
size, in one process and one thread, in alternation. Structure encodings are precomputed for both.

    RAMET_DATA=DIR python benchmarks/plain_pyg.py [TRIALS] [SETTING]      default: 5 single
"""

from __future__ import annotations

import resource

import torch
from harness import Clock, given, print_ratio, settings, sites
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, global_add_pool

from ramet.experiment import Experiment
from ramet.models.dual_channel import DualChannel
from ramet.models.shape import GraphShape
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


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    setting = given(2, "single")
    experiment = Experiment(settings("fedstar", setting))
    ours = sites(experiment, lambda shape, _: DualChannel(shape))

    def our_round(number: int) -> float:
        clock, order = Clock(), torch.Generator().manual_seed(number)
        for site in ours:
            with clock.running():
                for batch in site.task.batches(site.samples, BATCH, order):
                    site.step(batch)
        return clock.seconds

    our_round(0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{setting}: peak memory {peak:.2f} GB for the data and one Ramet round")
    plain = []
    for site in ours:
        model = PlainDualChannel(site.task.shape(site.samples))
        assert parameters(model) == parameters(site.model)
        adam = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=5e-4)
        plain.append((DataLoader(as_data(site.samples), BATCH, shuffle=True), model, adam))

    def plain_round() -> float:
        clock = Clock()
        for loader, model, adam in plain:
            with clock.running():
                for data in loader:
                    loss = functional.cross_entropy(model(data), data.y)
                    adam.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()
        return clock.seconds

    print_ratio(given(1, 5), lambda n: (our_round(n), plain_round()), "Ramet", "plain PyG")


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    main()
