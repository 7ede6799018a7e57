"""Training on another device: what is copied there, and when the host waits for it.

There is no GPU here. PyTorch's `meta` device stands in for one: its tensors have shapes and no
values, so whatever needs a value on the host (a size that depends on data, a condition, a boolean
index) is an error, and so is an operation between tensors of two devices. A dispatch mode counts
the copies and the values that are read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ramet.data.graphs.flow import offsets
from ramet.data.graphs.hetero_graph import Links
from ramet.engine.processes.devices import WORKER, compute_device, places
from ramet.methods import fedavg, feddense, fedstar
from ramet.models.networks import NETWORKS
from ramet.models.shape import GraphShape, LinkShape, NodeShape
from ramet.randomness import Randomness
from ramet.rules.method import AssembledMethod, assembled
from ramet.tasks import GraphClassification, LinkPrediction, NodeClassification, Task
from ramet.training.local import LocalTraining, Session

META, CPU = torch.device("meta"), torch.device("cpu")


class Watch(TorchDispatchMode):
    """Counts copies between devices, and values that the host reads."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.copies = self.reads = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        if packet is torch.ops.aten._local_scalar_dense and args[0].device == META:
            self.reads += 1
            return 0.0
        result = func(*args, **(kwargs or {}))
        if packet is torch.ops.aten._to_copy:
            self.copies += result.device != args[0].device
        return result


def with_network(name: str, shape: type[Any], task: Task) -> AssembledMethod:
    return assembled(fedavg(), task, NETWORKS[name][shape], LocalTraining(), same_schema=True)


METHODS: dict[str, Callable[[], AssembledMethod]] = {
    "fedstar": lambda: assembled(fedstar()),
    "feddense": lambda: assembled(feddense()),
    **{
        f"{name} of graphs": partial(with_network, name, GraphShape, GraphClassification())
        for name in ("gin", "gcn", "sage", "gat")
    },
    **{
        f"{name} of nodes": partial(with_network, name, NodeShape, NodeClassification())
        for name in ("gin", "gcn", "sage", "gat", "fedlit-gcn", "fedsage-sage")
    },
    **{
        f"{name} of links": partial(with_network, name, LinkShape, LinkPrediction())
        for name in ("gin", "gcn", "sage", "gat", "simple-hgn")
    },
}


def watched(
    method: AssembledMethod, samples: Any, epochs: int, batch_size: int
) -> tuple[int, Watch]:
    """Train on the meta device; the number of steps, and what was copied and read meanwhile."""
    model = method.model(method.task.shape(samples)).to(META)
    training = LocalTraining(algorithm="sgd", epochs=epochs, batch_size=batch_size)
    session = Session(
        model=model,
        optimiser=training.optimiser(model),
        training=training,
        task=method.task,
        samples=samples.to(META),
        shared=(),
        randomness=Randomness(0, "client", 1),
        device=META,
    )
    next(iter(method.task.batches(session.samples, batch_size, torch.Generator())))  # warm-up
    with Watch() as watch:
        training.fit(session)
    return session.steps, watch


@pytest.mark.parametrize("name", METHODS)
def test_training_copies_per_epoch_and_the_host_waits_once_per_round(
    name: str, tiny_samples: Callable[[str, Any], Any]
) -> None:
    method = METHODS[name]()
    samples = tiny_samples("trees", method)
    one, two, small = (watched(method, samples, *how) for how in ((1, 8192), (2, 8192), (2, 40)))
    assert two[0] == 2 * one[0]
    if name.endswith("nodes"):
        assert small[0] == two[0]  # the whole graph is one batch
    else:
        assert small[0] > two[0]
    for steps, watch in (one, two, small):
        assert watch.reads == 1, (steps, watch.reads)  # the loss, at the end
    assert one[1].copies == int("nodes" not in name)  # the order of graphs, or the pairs
    assert small[1].copies == two[1].copies == 2 * one[1].copies


def test_samples_are_copied_once_with_what_they_cache(
    tiny_samples: Callable[[str, Any], Any],
) -> None:
    for method in (METHODS[name]() for name in ("fedstar", "gcn of nodes", "simple-hgn of links")):
        samples = tiny_samples("trees", method)
        assert samples.to(CPU) is samples
        assert samples.to(META) is samples.to(META)
        assert samples.to(META).to(META) is samples.to(META)
    graph = samples.graph
    assert graph.to(META).flow is graph.to(META).flow


@pytest.mark.parametrize("name", ["fedstar", "gcn of nodes", "simple-hgn of links"])
def test_evaluation_leaves_the_network_on_its_device(
    name: str, tiny_samples: Callable[[str, Any], Any]
) -> None:
    method = METHODS[name]()
    samples = tiny_samples("trees", method)
    model = method.model(method.task.shape(samples)).to(META)
    with pytest.raises(NotImplementedError, match="meta"):  # scores are computed on the host
        method.task.evaluate(model, samples, META)
    assert {parameter.device for parameter in model.parameters()} == {META}


def test_a_cut_on_a_device_has_the_shapes_of_one_on_the_host(
    tiny_samples: Callable[[str, Any], Any],
) -> None:
    samples = tiny_samples("rings", METHODS["fedstar"]())
    chosen = samples.split.train[:5]
    here, there = samples.block.cut(chosen), samples.to(META).block.cut(chosen)
    for one in ("features", "structure", "row_starts", "columns", "graph", "labels", "edge_index"):
        assert getattr(there, one).shape == getattr(here, one).shape
        assert getattr(there, one).device == META


def test_links_of_a_kind_are_found_without_their_values(
    tiny_samples: Callable[[str, Any], Any],
) -> None:
    links = tiny_samples("trees", METHODS["simple-hgn of links"]()).graph.links
    parts = [links[torch.arange(0, 40)], links[torch.arange(40, 55)]]
    for part, copied in zip(parts, Links.copied(parts, CPU), strict=True):
        assert torch.equal(copied.heads, part.heads)
        assert torch.equal(copied.tails, part.tails)
        for kind in range(5):  # two more than there are
            assert torch.equal(copied.of_kind(kind), part.of_kind(kind))


def test_offsets_off_the_cpu_equal_those_on_it() -> None:
    ends = torch.tensor([0, 0, 2, 3, 3, 3])
    assert offsets(ends, 5).tolist() == [0, 2, 2, 3, 6, 6]
    assert offsets(ends.to(META), 5).shape == (6,)


def test_each_worker_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_, **__: None)
    found = []
    for worker in range(3):
        monkeypatch.setenv(WORKER, str(worker))
        found.append(compute_device("cuda"))
    assert found == [torch.device("cuda:0"), torch.device("cuda:1"), torch.device("cuda:0")]
    assert compute_device("cpu") == CPU
    assert compute_device("mps") == torch.device("mps:0")
    assert (places("cuda", 64), places("mps", 64), places("cpu", 64)) == (2, 1, 64)
