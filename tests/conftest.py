"""Fixtures that many tests share; none of them is a mock."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ramet
from ramet.data import (
    ClientData,
    GraphBlock,
    HeteroGraph,
    NodeGraph,
    Split,
    StructureEncoding,
    stratified,
)
from ramet.data.graphs.hetero_graph import HeldOutPairs
from ramet.data.sources.graph_sets import read_block
from ramet.data.sources.planted import PlantedKind, planted
from ramet.data.splits import node_fold_split
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.partition import Reading
from ramet.partition.by_relation import Sampling, planted_hetero
from ramet.partition.by_target import by_target
from ramet.rules.method import Method, assembled
from ramet.studies.archive import finished_runs
from ramet.studies.finished_run import FinishedRuns
from ramet.tasks import EdgeClassification, GraphSamples, LinkPrediction, NodeClassification
from ramet.user_code import LIST_VARIABLE

if TYPE_CHECKING:
    from chartered_sites import Chartered

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _own_list_of_allowed_code(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the list of the user who runs the tests as it is."""
    os.environ[LIST_VARIABLE] = str(tmp_path_factory.mktemp("allowed") / "code.txt")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the real datasets, requested by the tests that need them."""
    root = os.environ.get("RAMET_DATA")
    if not root:
        pytest.skip("RAMET_DATA is not set: the real datasets are not available")
    return Path(root)


@pytest.fixture
def tiny_samples() -> Callable[[str, Method], Any]:
    def make(name: str, method: Method) -> Any:
        task = assembled(method).task
        if isinstance(task, NodeClassification):
            return task.samples(_small_planted(TINY.index(name)))
        if isinstance(task, LinkPrediction):
            return task.samples(_small_hetero(TINY.index(name)))
        if isinstance(task, EdgeClassification):
            edges = by_target("edge-classification")
            return task.samples(edges.client_data(edges.clients[TINY.index(name)], READING))
        block = read_block(f"tiny:{name}", method.inputs, Path())
        return GraphSamples(block, stratified(block.labels, 123))

    return make


TINY = ("rings", "trees", "blocks")
READING = Reading(Path(), 123, StructureEncoding(0, 0))


def _small_planted(seed: int) -> ClientData[NodeGraph, Split]:
    """150 nodes and four kinds of links."""
    kinds = [PlantedKind(100, homophily, 0.9) for homophily in (0.9, 0.6, 0.3, 0.1)]
    graph = planted(150, 3, kinds, features=8, class_signal=1.5, seed=seed)
    return ClientData(graph, node_fold_split(graph.labels, 123, 0))


def _small_hetero(part: int) -> ClientData[HeteroGraph, HeldOutPairs]:
    """160 nodes of two types, and three relations."""
    setting = planted_hetero(Sampling(clients=3), nodes=80, links=300)
    return setting.client_data(setting.clients[part], READING)


@pytest.fixture
def small_graph() -> NodeGraph:
    return _small_planted(0).content


@pytest.fixture
def tiny_client(
    tmp_path: Path, tiny_samples: Callable[[str, Method], Any]
) -> Callable[..., Client]:
    def make(name: str, method: Method, seed: int = 0) -> Client:
        return Client(
            name=name,
            method=assembled(method),
            samples=tiny_samples(name, method),
            seed=seed,
            snapshots=Snapshots(tmp_path / "states" / name),
            device=torch.device("cpu"),
        )

    return make


@pytest.fixture
def two_graphs() -> GraphBlock:
    """A triangle with a tail (nodes 0-1-2, 2-3), and a pair with a lone node (4-5, 6)."""
    links = torch.tensor([[0, 1], [1, 2], [0, 2], [2, 3], [4, 5]])
    block = GraphBlock.from_links(
        rows=torch.cat([links[:, 0], links[:, 1]]),
        columns=torch.cat([links[:, 1], links[:, 0]]),
        node_starts=torch.tensor([0, 4, 7]),
        features=torch.tensor([0, 1, 1, 0, 1, 0, 1]),
        feature_width=2,
        labels=torch.tensor([0, 1]),
        name="two graphs",
    )
    return block.with_structure(StructureEncoding(3, 4)(block))


RESULTS = Path(__file__).parents[1] / "results"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders of Local and FedStar on `tiny`: two rounds, two seeds. Read-only."""
    folder = tmp_path_factory.mktemp("tiny")
    for method in ("local", "fedstar"):
        for seed in (1, 2):
            ramet.run(method, "tiny", rounds=2, seed=seed, out=folder / f"{method}-{seed}")
    return folder


@pytest.fixture(scope="session")
def tiny_runs(tiny_folder: Path) -> FinishedRuns:
    return finished_runs([tiny_folder])


@pytest.fixture(scope="session")
def single_runs() -> FinishedRuns:
    """Kept results: 200 rounds on seven molecule datasets; of GCFL the first run alone."""
    runs = finished_runs([RESULTS / "single"])
    return {**runs, "gcfl": dict([*runs["gcfl"].items()][:1])}


@pytest.fixture(scope="session")
def acm_runs() -> FinishedRuns:
    """Kept results of link prediction, where the server's model is evaluated on all data."""
    return finished_runs([RESULTS / "acm-hetero-8"])


@pytest.fixture(scope="session")
def chartered(tmp_path_factory: pytest.TempPathFactory) -> Chartered:
    """Sites of which one was forgotten, with a certificate that all others have signed."""
    from chartered_sites import chartered_sites, signed  # imports Flower, which few tests need
    from ramet.forget import Certificate

    made = chartered_sites(tmp_path_factory.mktemp("chartered"))
    signed(made, Certificate.read(made.certificate)).write(made.certificate)
    return made
