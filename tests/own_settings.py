"""Settings as users write them, and PyG objects as they give them."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch_geometric.data import Data

PAGE = Path(__file__).parents[1] / "docs" / "your-own-setting.md"
GRAPHS = '''
from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from ramet import ClientData, GraphBlock, Reading, Setting, Split, from_pyg


@dataclass(frozen=True)
class Shapes(Setting):
    """Dense and sparse graphs."""

    task = "graph-classification"
    clients = ("one", "two", "three")
    rounds = 2

    def client_data(self, client: str, reading: Reading) -> ClientData[GraphBlock, Split]:
        draw = torch.Generator().manual_seed(self.clients.index(client))
        graphs = []
        for number in range(20):
            x = torch.randn(6, 3, generator=draw)
            ends = torch.randint(6, (2, 5 + 10 * (number % 2)), generator=draw)
            graphs.append(Data(x=x, edge_index=ends, y=torch.tensor([number % 2])))
        return from_pyg(graphs, reading)
'''


def documented(folder: Path) -> str:
    """The setting of the docs, in a file; its name."""
    (code,) = re.findall(r"```python\n(# shops\.py\n.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (folder / "shops.py").write_text(code)
    return f"{folder}/shops.py:Shops"


def shapes(folder: Path) -> str:
    """A setting of many graphs per client; its name."""
    (folder / "shapes.py").write_text(GRAPHS)
    return f"{folder}/shapes.py:Shapes"


def people(seed: int, nodes: int = 40, masks: bool = False) -> Data:
    """One graph, whose nodes have two classes."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.randint(2, (nodes,), generator=draw)
    x = torch.randn(nodes, 3, generator=draw) + kind.unsqueeze(1)
    data = Data(x=x, y=kind, edge_index=torch.randint(nodes, (2, 4 * nodes), generator=draw))
    if masks:
        for part, (first, last) in {"train": (0, 20), "val": (20, 30), "test": (30, 40)}.items():
            data[f"{part}_mask"] = torch.arange(nodes).ge(first) & torch.arange(nodes).lt(last)
    return data


def molecules(seed: int, count: int = 20) -> list[Data]:
    """Many graphs of two classes."""
    draw = torch.Generator().manual_seed(seed)
    return [
        Data(
            x=torch.randn(6, 3, generator=draw) + number % 2,
            edge_index=torch.randint(6, (2, 12), generator=draw),
            y=torch.tensor([number % 2]),
        )
        for number in range(count)
    ]
