from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import GCNConv, GINConv, global_add_pool

from ramet.data import GraphBlock
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.layers import Dropout, InputLinear, self_and_neighbours
from ramet.models.settings import DenseNetwork, GraphNetwork
from ramet.models.shape import GraphShape
from ramet.models.single_channel import GIN

BZR = GraphShape(features=53, structure=32, classes=2)


def scalars(model: nn.Module, prefix: str = "") -> int:
    return sum(p.numel() for name, p in model.named_parameters() if name.startswith(prefix))


def test_sizes_match_the_papers() -> None:
    assert scalars(GIN(BZR)) == 32_706
    assert scalars(GIN(BZR), "layers.") == 24_960
    assert scalars(DualChannel(BZR)) == 67_842
    assert scalars(DualChannel(BZR), "structure.") == 14_592
    for width, total, shared in ((16, 34_386, 3_696), (32, 56_290, 6_304)):
        assert scalars(DenseDualChannel(BZR, DenseNetwork(width=width))) == total
        assert scalars(DenseDualChannel(BZR, DenseNetwork(width=width)), "structure.") == shared
    assert (
        round(4 * scalars(DenseDualChannel(BZR, DenseNetwork(width=10)), "structure.") / 1024, 2)
        == 11.65
    )


def test_the_sum_over_neighbours_and_its_gradient_by_hand(two_graphs: GraphBlock) -> None:
    batch = two_graphs.cut(torch.tensor([0]))
    values = torch.tensor([[1.0], [10.0], [100.0], [1000.0]], requires_grad=True)
    sums = self_and_neighbours(values, batch.whole)
    assert sums.flatten().tolist() == [111, 111, 1111, 1100]
    (sums * torch.tensor([[1.0], [2.0], [4.0], [8.0]])).sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.flatten().tolist() == [7, 7, 15, 12]


def test_dual_channel_equals_the_papers_equations_in_pyg(two_graphs: GraphBlock) -> None:
    torch.manual_seed(1)
    shape = GraphShape(two_graphs.feature_width, two_graphs.structure.size(1), 3)
    model = DualChannel(shape, GraphNetwork(hidden=8, layers=3)).eval()
    batch = two_graphs.cut(torch.tensor([1, 0]))
    links = torch.stack([batch.columns.long(), batch.whole.rows])
    x = model.embed(nn.functional.one_hot(batch.features, 2).float())
    s = model.structure.embed(batch.structure)
    for gin, gcn in zip(model.layers, model.structure.layers, strict=True):
        pyg_gcn = GCNConv(8, 8)
        pyg_gcn.lin.weight.data.copy_(gcn.weight.data)
        pyg_gcn.bias.data.copy_(gcn.bias.data)
        mlp = nn.Sequential(gin.first, nn.ReLU(), gin.second)  # type: ignore[arg-type]
        x = GINConv(mlp)(torch.cat([x, s], 1), links).relu()
        s = pyg_gcn(s, links).tanh()
    pooled = global_add_pool(model.mix(torch.cat([x, s], 1)), batch.graph)
    expected = model.classify(model.hidden(pooled).relu())
    assert torch.allclose(model(batch), expected, atol=1e-5)


def test_indices_equal_one_hot_rows() -> None:
    layer, kinds = InputLinear(5, 4), torch.tensor([3, 0, 3])
    assert torch.allclose(layer(kinds), layer(nn.functional.one_hot(kinds, 5).float()), atol=1e-7)


def test_dropout_keeps_the_mean_is_seeded_and_off_in_eval() -> None:
    drop, ones = Dropout(0.5), torch.ones(999, 101)
    torch.manual_seed(3)
    first = drop(ones)
    torch.manual_seed(3)
    assert torch.equal(drop(ones), first)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert abs(float(first.mean()) - 1.0) < 0.02
    quarter = Dropout(0.25)(ones)
    assert abs(float((quarter == 0).float().mean()) - 0.25) < 0.01
    assert abs(float(quarter.mean()) - 1.0) < 0.02
    assert torch.equal(drop.eval()(ones), ones)


def test_dropout_after_relu_equals_both_one_by_one() -> None:
    drop, values, weights = Dropout(0.3), torch.randn(40, 31), torch.randn(40, 31)
    results = []
    for apart in (True, False):
        torch.manual_seed(3)
        given = values.clone().requires_grad_()
        result = drop(given.relu()) if apart else drop.after(torch.relu, given)
        (result * weights).sum().backward()
        results.append((result, given.grad))
    (both, gradient), (at_once, gradient_at_once) = results
    assert torch.equal(both, at_once)
    assert gradient is not None
    assert gradient_at_once is not None
    assert torch.equal(gradient, gradient_at_once)
    assert torch.equal(drop.eval().after(torch.relu, values), values.relu())
