"""Per-graph gradients: by hand, in one pass and one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ramet.data import Batch
from ramet.engine.start import start_model
from ramet.methods import fedavg, feddense, fedstar
from ramet.models.layers import graph_sums
from ramet.models.settings import GraphNetwork
from ramet.models.single_channel import GIN, GraphGCN, GraphSAGE
from ramet.privacy.accounting import Mechanism
from ramet.privacy.draws import SeededDraws
from ramet.randomness import Randomness
from ramet.rules.method import Method, assembled
from ramet.tasks import GraphClassification
from ramet.training.graph_gradients import Clipped, _Use, clipped_sum, in_one_pass, one_by_one
from ramet.training.local import LocalTraining, Session
from ramet.training.private import fit_privately, training_steps

SamplesMaker = Callable[[str, Method], Any]
TASK = GraphClassification()
NETWORKS: dict[str, tuple[Method, Callable[[Any], nn.Module] | None]] = {
    "GIN": (fedavg(), lambda shape: GIN(shape, GraphNetwork(dropout=0.0))),
    "GCN": (fedavg(), lambda shape: GraphGCN(shape, GraphNetwork(dropout=0.0))),
    "SAGE": (fedavg(), lambda shape: GraphSAGE(shape, GraphNetwork(dropout=0.0))),
    "FedStar": (fedstar(network=GraphNetwork(dropout=0.0)), None),
    "FedDense": (feddense(), None),
}


class _OneLayer(nn.Module):
    """The class scores of a graph are a linear map of the sum of its features."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.map = nn.Linear(features, classes, bias=False)
        nn.init.zeros_(self.map.weight)

    def forward(self, batch: Batch) -> Tensor:
        scores: Tensor = self.map(graph_sums(batch.x, batch))
        return scores


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_one_pass_equals_one_by_one(name: str, clip: float, tiny_samples: SamplesMaker) -> None:
    method, network = NETWORKS[name]
    samples = tiny_samples("rings", method)
    model = start_model(assembled(method, network=network), TASK.shape(samples), 1, "rings").eval()
    graphs = samples.split.train[:20]
    fast = in_one_pass(model, TASK, samples, graphs, clip)
    slow = one_by_one(model, TASK, samples, graphs, clip)
    torch.testing.assert_close(fast.norms, slow.norms, rtol=1e-4, atol=1e-6)
    assert fast.gradients.keys() == dict(model.named_parameters()).keys()
    for parameter, gradient in slow.gradients.items():
        largest = max(1.0, float(gradient.abs().max()))
        assert float((fast.gradients[parameter] - gradient).abs().max()) < 1e-6 * largest * 5


def test_the_sum_without_clipping_is_the_gradient_of_the_batch(tiny_samples: SamplesMaker) -> None:
    method, network = NETWORKS["FedStar"]
    samples = tiny_samples("trees", method)
    model = start_model(assembled(method, network=network), TASK.shape(samples), 1, "trees")
    batch = samples.block.cut(samples.split.train)
    (TASK.loss(model(batch), batch) * batch.graphs).backward()
    found = clipped_sum(model, TASK, samples, samples.split.train, 1e9).gradients
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-4)


def test_clipped_gradients_by_hand(tiny_samples: SamplesMaker) -> None:
    """Zero weights give probabilities 1/c, so that a graph's gradient is (1/c - onehot) · sumᵀ."""
    samples = tiny_samples("rings", fedavg())
    features, classes = samples.block.feature_width, samples.block.classes
    graphs = samples.split.train[:7]
    batch, clip = samples.block.cut(graphs), 2.0
    expected = torch.zeros(classes, features)
    for graph in range(7):
        summed = batch.x[batch.graph == graph].sum(0)
        error = torch.full((classes,), 1 / classes)
        error[batch.labels[graph]] -= 1
        gradient = torch.outer(error, summed)
        expected += gradient * min(1.0, clip / float(gradient.norm()))
    found = clipped_sum(_OneLayer(features, classes), TASK, samples, graphs, clip)
    torch.testing.assert_close(found.gradients["map.weight"], expected, rtol=1e-5, atol=1e-6)


def _distance(first: Clipped, second: Clipped) -> float:
    changes = [first.gradients[name] - second.gradients[name] for name in first.gradients]
    return float(torch.stack([change.double().square().sum() for change in changes]).sum().sqrt())


@pytest.mark.parametrize("name", ["GIN", "FedDense"])
@pytest.mark.parametrize("way", [in_one_pass, one_by_one])
def test_a_graph_with_infinite_activations_contributes_nothing(
    name: str, way: Callable[..., Clipped], tiny_samples: SamplesMaker
) -> None:
    """A bias so large that only the sum over the largest graph's nodes overflows."""
    method, network = NETWORKS[name]
    samples = tiny_samples("rings", method)
    whole = assembled(method, network=network)
    model: Any = start_model(whole, TASK.shape(samples), 1, "rings").eval()
    train = samples.split.train
    sizes = torch.tensor([samples.block.cut(graph).nodes for graph in torch.split(train, 1)])
    largest, below = int(sizes.max()), int(sizes[sizes < sizes.max()].max())
    others, target = train[sizes < largest][:6], train[sizes == largest][:1]
    summed = model.mix if name == "FedDense" else model.layers[-1].second
    with torch.no_grad():
        summed.bias[0] = torch.finfo(torch.float32).max / ((largest + below) / 2)
        model.hidden.bias[:] = 1
        model.hidden.weight[:] = 0
    found = way(model, TASK, samples, torch.cat([others[:3], target, others[3:]]), 1.0)
    assert not torch.isfinite(found.norms[3])
    assert _distance(found, way(model, TASK, samples, others, 1.0)) < 1e-5


@pytest.mark.parametrize("scale", [1e1, 1e3, 1e4, 1e6, 1e12, 1e38])
def test_one_graph_changes_the_sum_by_the_clipping_norm_at_most(
    scale: float, tiny_samples: SamplesMaker
) -> None:
    """However large the parameters, and so activations, gradients and norms are."""
    method, network = NETWORKS["GCN"]
    samples = tiny_samples("rings", method)
    model = start_model(assembled(method, network=network), TASK.shape(samples), 1, "rings").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    graphs = samples.split.train[:6]
    for way in (in_one_pass, one_by_one):
        found = way(model, TASK, samples, graphs, 0.5)
        assert _distance(found, way(model, TASK, samples, graphs[1:], 0.5)) < 0.5 * (1 + 1e-4)


def test_terms_that_cancel_each_other_are_not_left_to_rounding(tiny_samples: SamplesMaker) -> None:
    """Norms of rows see what their sum hides: here 1e9 each way, of which 1 remains."""
    rows = torch.tensor([[1e9], [1.0], [-1e9]])
    use = _Use(rows, weight="w", inputs=torch.ones(3, 1))
    graph = torch.zeros(3, dtype=torch.long)
    assert float(use.bounds(rows, graph, 1)) == pytest.approx(2e9)
    assert float(use.squares(rows, graph, 1)) <= 1.0
    tiny = torch.full((1, 1), 1e-25)
    apart = _Use(tiny, weight="w", inputs=torch.full((1, 1), 1e25))
    assert float(apart.squares(tiny, graph[:1], 1)) == pytest.approx(1.0)  # not 0 · inf


def _session(samples: Any, model: nn.Module, training: LocalTraining) -> Session:
    return Session(
        model=model,
        optimiser=training.optimiser(model),
        training=training,
        task=TASK,
        samples=samples,
        shared=(),
        randomness=Randomness(1, "rings", 1),
        device=torch.device("cpu"),
    )


def test_a_step_adds_the_stated_noise(tiny_samples: SamplesMaker) -> None:
    """SGD with lr 1: the step is -(clipped sum + noise) / expected graphs."""
    samples = tiny_samples("rings", fedavg())
    training = LocalTraining(lr=1.0, weight_decay=0.0, algorithm="sgd", batch_size=60)
    sampling, steps = training_steps(training, samples)
    graphs = samples.split.train.numel()
    assert (sampling, steps) == (60 / graphs, -(-graphs // 60))
    model = GIN(TASK.shape(samples), GraphNetwork(dropout=0.0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    draws = SeededDraws(torch.Generator().manual_seed(3))
    drawn = samples.split.train[draws.chosen(graphs, sampling)]
    clipped = clipped_sum(model, TASK, samples, drawn, 0.5).gradients
    draws.generator.manual_seed(3)
    mechanism = Mechanism(noise=4.0, sampling=sampling, steps=1)
    fit_privately(_session(samples, model, training), mechanism, 0.5, draws)
    noise = torch.cat(
        [
            ((before[name] - p.detach()) * 60 - clipped[name]).flatten()
            for name, p in model.named_parameters()
        ]
    )
    assert float(noise.std()) == pytest.approx(4.0 * 0.5, rel=0.02)
    assert abs(float(noise.mean())) < 0.1


def test_a_step_without_graphs_is_noise_only(tiny_samples: SamplesMaker) -> None:
    samples = tiny_samples("rings", fedavg())
    training = LocalTraining(lr=1.0, weight_decay=0.0, algorithm="sgd")
    model = _OneLayer(samples.block.feature_width, samples.block.classes)
    draws = SeededDraws(torch.Generator().manual_seed(3))
    mechanism = Mechanism(noise=1.0, sampling=1e-12, steps=1)
    fit_privately(_session(samples, model, training), mechanism, 1e-12, draws)
    assert model.map.weight.abs().max() > 0
