"""Methods without a network of their own run on every task, with every network for the task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

import ramet
from command_line import ramet as command
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.methods import METHODS
from ramet.models.networks import NETWORKS
from ramet.models.shape import NodeShape

GENERIC = [name for name, factory in METHODS.items() if factory().model is None]
GRAPHS: dict[str, Any] = {"setting": "tiny", "hidden": 4, "layers": 2}
NODES: dict[str, Any] = {"setting": "planted", "clients": 4, "nodes": 60, "links": 60, "hidden": 4}
LINKS: dict[str, Any] = {
    "setting": "planted-hetero",
    "clients": 3,
    "nodes": 20,
    "links": 40,
    "hidden": 4,
}
CASES = [
    *((GRAPHS, network) for network in ("gin", "sage")),
    *((NODES, network) for network in ("gcn", "fedlit-gcn")),
    *((LINKS, network) for network in ("simple-hgn", "gcn")),
]


DEFAULTS = ("gin", "gcn", "simple-hgn")
LIKE_FEDAVG = ("scaffold", "moon", "ditto", "fedadam", "fedyogi", "fedbuff")


def _runs() -> Iterator[ParameterSet]:
    """Every method with every case; some with the second network of a task in `make e2e` only."""
    for method in GENERIC:
        for given, network in CASES:
            often = method not in LIKE_FEDAVG or network in DEFAULTS
            marks = () if often else (pytest.mark.e2e, pytest.mark.thorough)
            name = f"{method}-{given['setting']}-{network}"
            yield pytest.param(method, given, network, marks=marks, id=name)


@pytest.mark.parametrize(("method", "given", "network"), [*_runs()])
def test_every_method_runs_on_every_task(
    method: str, given: dict[str, Any], network: str, tmp_path: Path
) -> None:
    if method in ("fedproto", "fedtgp") and given is not NODES:
        with pytest.raises(RametError, match=r"whose size depends on|has no `embedding_size`"):
            ramet.run(method, network=network, rounds=2, out=tmp_path / "run", **given)
        return
    result = ramet.run(method, network=network, rounds=2, out=tmp_path / "run", **given)
    assert math.isfinite(result.summary.scores.test)
    losses = result.frame["loss"].dropna()  # FedDA pauses clients
    assert losses.map(math.isfinite).all()
    assert len(losses) > len(result.summary.scores.clients)
    assert (result.summary.model.shared_scalars > 0) == (
        method not in {"local", "fedproto", "fedtgp"}
    )


def test_the_cases_cover_every_method_without_a_network() -> None:
    assert GENERIC == [
        "local",
        "fedavg",
        "fedprox",
        "fedper",
        "scaffold",
        "moon",
        "ditto",
        "fedadam",
        "fedyogi",
        "fedbuff",
        "fedproto",
        "fedtgp",
        "gcfl",
        "gcfl+",
        "fedda",
    ]


NET = """
from torch import nn
from torch_geometric.nn import GCNConv

from ramet import NodeShape


class Net(nn.Module):
    def __init__(self, shape: NodeShape, hidden: int = 8, depth: int = 2) -> None:
        super().__init__()
        widths = [shape.features, *[hidden] * depth]
        self.layers = nn.ModuleList(map(GCNConv, widths, widths[1:]))
        self.classify = nn.Linear(hidden, shape.classes)

    def forward(self, data):
        x = data.x
        for layer in self.layers:
            x = layer(x, data.edge_index).relu()
        return self.classify(x)


def unnamed(size): ...
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return f"{tmp_path}/net.py:Net"


def test_a_network_of_the_user_takes_options(net: str, tmp_path: Path) -> None:
    result = ramet.run("fedper", network=net, rounds=2, out=tmp_path / "run", **NODES, depth=3)
    features, classes = 32, 4
    layers = 4 * features + 4 + 2 * (4 * 4 + 4)
    assert set(result.summary.model.scalars.values()) == {layers + 4 * classes + classes}
    assert result.summary.model.shared_scalars == layers - (4 * 4 + 4)  # without the last layer
    assert (result.folder / "network.py").read_text() == NET
    folder = RunFolder(result.folder)
    assert folder.experiment().settings.label.startswith("fedper,clients=4")
    assert "network=net.py:Net" in folder.experiment().settings.label
    assert "--network net.py:Net" in folder.experiment().settings.command


def test_a_network_of_the_user_on_the_command_line(net: str, tmp_path: Path) -> None:
    sizes = [f"--set={key}={value}" for key, value in NODES.items() if key != "setting"]
    arguments = ["run", "fedavg", "--setting", "planted", "--network", net, *sizes, "--set=depth=1"]
    done = command(*arguments, "--rounds", "1", "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.stderr
    assert '"shared_scalars": 152' in done.stdout  # 32 * 4 + 4, and 4 * 4 + 4


def refused(**given: Any) -> str:
    with pytest.raises(RametError) as error:
        ramet.run(**{**GRAPHS, **given}, rounds=1)
    return str(error.value)


def test_a_network_for_another_task_is_refused(net: str) -> None:
    nodes = {"method": "fedavg", "setting": "planted"}
    suited = ", ".join(name for name, by_shape in NETWORKS.items() if NodeShape in by_shape)
    assert refused(**nodes, network="simple-hgn") == (
        f"the network simple-hgn is not for node-classification. Use {suited}, or file.py:NETWORK."
    )
    assert refused(method="fedavg", network=net) == (
        "the network net.py:Net takes a NodeShape, but graph-classification has a GraphShape. Use "
        "a network for graph-classification."
    )
    assert "the network fedlit-gcn is not for graph-classification" in refused(method="fed-gcn")


def test_a_network_must_take_the_shape(net: str) -> None:
    error = refused(method="fedavg", network=net.replace("Net", "unnamed"))
    assert "net.py:unnamed takes (size), but its first argument must be `shape`" in error


def test_a_method_that_is_a_network_takes_no_other() -> None:
    assert refused(method="fedstar", network="sage") == (
        "fedstar does not work with --network: fedstar is a network of its own, which another "
        "cannot replace. Leave out --network, or use fedavg."
    )


def test_a_name_of_a_paper_takes_no_other_network(tmp_path: Path) -> None:
    assert refused(method="fed-gcn", setting="planted", network="sage") == (
        "fed-gcn is fedavg with the network fedlit-gcn. For another network, write fedavg "
        "--network sage."
    )
    same = [
        ramet.run(method, network="fedlit-gcn", rounds=1, out=tmp_path / method, **NODES)
        for method in ("fed-gcn", "fedavg")
    ]
    plain = ramet.run("fed-gcn", rounds=1, out=tmp_path / "plain", **NODES)
    assert {result.summary.sha256 for result in [*same, plain]} == {plain.summary.sha256}
    assert plain.summary.method == "fed-gcn"


def test_an_unknown_network_lists_the_choices() -> None:
    error = refused(method="fedavg", network="transformer")
    assert error == f"unknown network 'transformer'. Choose one of: {', '.join(sorted(NETWORKS))}."
