"""Networks that read what links carry: they learn what only that decides, as plain PyG does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import elu
from torch_geometric.data import Data
from torch_geometric.nn import DirGNNConv, GATv2Conv, GCNConv, GINEConv, SAGEConv

import ramet
from planted_links import AMOUNTS, directions, net_amounts, weights
from ramet.prediction import Trained

AGGREGATED = f'{AMOUNTS}\naggregate = ["sum"]'
LEARNED: list[tuple[Callable[..., Path], str, str, float]] = [
    (net_amounts, AMOUNTS, "gine", 0.98),
    (net_amounts, AGGREGATED, "dir-sage", 0.98),
    (directions, "directed = true", "dir-sage", 0.98),
    (directions, "directed = true", "gatv2", 0.98),
    (weights, 'weight = "amount"', "gcn", 0.98),
    (weights, 'columns = { amount = "number" }', "gatv2", 0.98),
]
CHANCE: list[tuple[Callable[..., Path], str, str]] = [
    (net_amounts, AMOUNTS, "gin"),
    (net_amounts, "directed = true", "dir-sage"),
    (directions, "", "sage"),
    (weights, "", "gcn"),
]


def trained_on(
    make: Callable[..., Path], links: str, network: str, folder: Path, **more: Any
) -> tuple[ramet.Result, list[Path]]:
    tomls = [make(folder / f"bank-{number}", links, seed=number) for number in (1, 2)]
    options: dict[str, Any] = {"rounds": 20, "lr": 0.01, "epochs": 8, "dropout": 0.0, **more}
    sites = [str(toml) for toml in tomls]
    result = ramet.run(
        "fedavg", "own", sites=sites, network=network, seed=1, out=folder / "run", **options
    )
    return result, tomls


@pytest.mark.parametrize(("make", "links", "network", "least"), LEARNED)
def test_networks_learn_what_only_links_tell(
    make: Callable[..., Path], links: str, network: str, least: float, tmp_path: Path
) -> None:
    result, _ = trained_on(make, links, network, tmp_path)
    assert result.summary.scores.test > least


@pytest.mark.parametrize(("make", "links", "network"), CHANCE)
def test_without_it_they_guess(
    make: Callable[..., Path], links: str, network: str, tmp_path: Path
) -> None:
    result, _ = trained_on(make, links, network, tmp_path)
    assert 0.3 < result.summary.scores.test < 0.7


class _Layers(nn.Module):
    """Two of PyG's layers between a linear map of the features and the logits."""

    def __init__(
        self, layers: list[nn.Module], carried: int = 0, activation: Any = torch.relu
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 16)
        self.carried = nn.Linear(carried, 16) if carried else None
        self.one, self.two = layers
        self.activation = activation

    def forward(self, data: Data) -> Tensor:
        index, more = data.edge_index, []
        if self.carried is not None:
            given, zeros, one = (
                data.edge_attr,
                torch.zeros_like(data.edge_attr),
                data.edge_attr[:, :1] ** 0,
            )
            along = torch.cat([given, zeros, one], dim=1)
            against = torch.cat([zeros, given, -one], dim=1)
            index = torch.cat([index, index.flip(0)], dim=1)
            more = [self.carried(torch.cat([along, against]))]
        x = self.activation(self.one(self.embed(data.x), index, *more))
        logits: Tensor = self.two(x, index, *more)
        return logits


class _WeightedGCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = GCNConv(1, 16), GCNConv(16, 2)

    def forward(self, data: Data) -> Tensor:
        index, weight = data.edge_index, data.edge_attr[:, 0]
        both, twice = torch.cat([index, index.flip(0)], dim=1), torch.cat([weight, weight])
        x = self.one(data.x, both, twice).relu()
        logits: Tensor = self.two(x, both, twice)
        return logits


def _mlp(out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, out))


PLAIN: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "gine": (
        'features = ["amount"]\ndirected = true',
        lambda: _Layers([GINEConv(_mlp(16), train_eps=True), GINEConv(_mlp(2), train_eps=True)], 3),
    ),
    "gatv2": (
        'features = ["amount"]\ndirected = true',
        lambda: _Layers([GATv2Conv(16, 4, 4, edge_dim=16), GATv2Conv(16, 2, edge_dim=16)], 3, elu),
    ),
    "dir-sage": (
        'features = ["amount"]\ndirected = true',
        lambda: _Layers(
            [DirGNNConv(SAGEConv(16, out, root_weight=False)) for out in (16, 2)],
        ),
    ),
    "gcn": ('weight = "amount"', _WeightedGCN),
}
NAMES = {
    "embed_links.": "carried.",
    "layers.0.": "one.",
    "layers.1.": "two.",
}


def plain_data(toml: Path) -> Data:
    """A bank's tables as PyG's data, read by pandas; ages are used as they are."""
    accounts = pd.read_csv(toml.parent / "accounts.csv")
    transfers = pd.read_csv(toml.parent / "transfers.csv")
    rows = {name: row for row, name in enumerate(accounts["id"])}
    ends = [transfers[end].map(rows).tolist() for end in ("source", "target")]
    return Data(
        x=torch.tensor(accounts[["age"]].to_numpy(), dtype=torch.float32),
        edge_index=torch.tensor(ends),
        edge_attr=torch.tensor(transfers[["amount"]].to_numpy(), dtype=torch.float32),
        y=torch.tensor((accounts["state"] == "receiver").to_numpy().astype(int)),
    )


def named(name: str, network: str) -> str:
    """The name of an array of Ramet's in the plain network."""
    for ours, theirs in NAMES.items():
        if name.startswith(ours):
            name = name.replace(ours, theirs, 1)
    if network == "gcn":
        name = name.replace(".weight", ".lin.weight")
    return name


@pytest.mark.parametrize("network", PLAIN)
def test_a_round_is_that_of_a_plain_loop_over_pygs_layers(network: str, tmp_path: Path) -> None:
    (links, build), lr = PLAIN[network], 0.001 if network == "gine" else 0.05
    tomls = []
    for number in (1, 2):
        toml = net_amounts(tmp_path / f"bank-{number}", links, number, accounts=30 + 10 * number)
        text = toml.read_text().replace('columns = { age = "number" }', 'features = ["age"]')
        toml.write_text(text)
        transfers = pd.read_csv(toml.parent / "transfers.csv")
        transfers["amount"] = (transfers["amount"] / 100).round(3)
        transfers.to_csv(toml.parent / "transfers.csv", index=False)
        tomls.append(toml)
    options: dict[str, Any] = {"hidden": 16, "dropout": 0.0, "epochs": 3, "weight_decay": 0.0}
    options |= {"algorithm": "sgd", "lr": lr} | ({"heads": 4} if network == "gatv2" else {})
    result = ramet.run(
        *("fedavg", "own"),
        sites=[str(toml) for toml in tomls],
        network=network,
        rounds=1,
        out=tmp_path / "run",
        **options,
    )
    trained = Trained.open(result.folder)
    start = trained.experiment.sizes.shared_start()
    replies, sizes = [], []
    for toml in tomls:
        model, data = build(), plain_data(toml)
        model.load_state_dict(
            {named(name, network): torch.as_tensor(array) for name, array in start.items()}
        )
        train = trained.experiment.samples(toml.parent.name).split.train
        optimiser = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(3):
            loss = nn.functional.cross_entropy(model(data)[train], data.y[train])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        replies.append(model.state_dict())
        sizes.append(data.num_nodes)
    found = trained.model("bank-1").state_dict()
    changed = 0.0
    for name, array in found.items():
        own = [reply[named(name, network)] for reply in replies]
        expected = (own[0] * sizes[0] + own[1] * sizes[1]) / sum(sizes)
        torch.testing.assert_close(array, expected, atol=1e-6, rtol=1e-5)
        changed += float((array - torch.as_tensor(start[name])).abs().sum())
    assert changed > 0.01
