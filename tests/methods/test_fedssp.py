"""FedSSP against numbers that were derived by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ramet
from federations import graphs_of, stopped_and_resumed
from ramet.data import GraphBlock, Split, StructureEncoding
from ramet.data.client_data import ClientData
from ramet.data.fingerprint import data_sha256
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.errors import RametError
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import fedssp
from ramet.methods.fedssp import MeanOfClients
from ramet.models.settings import SpectralNetwork
from ramet.models.shape import GraphShape
from ramet.models.spectral import SpectralGNN, link_softmax, padded_eigenvalues
from ramet.payload import Payload
from ramet.randomness import Randomness
from ramet.rules.method import assembled
from ramet.training.local import Session

SMALL = SpectralNetwork(hidden=2, layers=1, dropout=0.0, heads=1)


@pytest.fixture
def with_spectrum(two_graphs: GraphBlock) -> GraphBlock:
    return StructureEncoding(3, 4, spectrum=True).added_to(two_graphs)


def test_the_spectrum_by_hand(with_spectrum: GraphBlock) -> None:
    """A triangle with a tail has eigenvalues 0, 1, 3, 4; a pair with a lone node 0, 0, 2.

    Rows have as many cells as the largest graph has nodes, and one for an eigenvalue.
    """
    batch = with_spectrum.cut(torch.tensor([1, 0]))
    values, real = padded_eigenvalues(batch)
    expected = torch.tensor([[0.0, 0, 2, 0], [0, 1, 3, 4]])
    assert torch.allclose(values, expected, atol=1e-6)
    assert real.tolist() == [[True, True, True, False], [True] * 4]
    pair, triangle = batch.spectrum[:3, 1:], batch.spectrum[3:, 1:]
    laplacian = torch.tensor([[2.0, -1, -1, 0], [-1, 2, -1, 0], [-1, -1, 3, -1], [0, 0, -1, 1]])
    assert torch.allclose(triangle @ values[1].diag() @ triangle.T, laplacian, atol=1e-5)
    assert torch.allclose(pair @ pair.T, torch.eye(3), atol=1e-6)
    assert not pair[:, 3].any()


def test_a_stored_block_has_its_spectrum_and_other_methods_have_none(
    with_spectrum: GraphBlock, two_graphs: GraphBlock
) -> None:
    again = GraphBlock.from_tensors(with_spectrum.tensors(), with_spectrum.feature_width)
    assert torch.equal(again.spectrum, with_spectrum.spectrum)
    assert with_spectrum.spectrum.numel() == 4 * 5 + 3 * 4
    assert not two_graphs.cut(torch.tensor([0])).spectrum.numel()
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([1]))
    one, other = (data_sha256(ClientData(block, split)) for block in (two_graphs, with_spectrum))
    assert one == other  # encodings are no data


def test_a_filter_of_the_spectrum_by_hand(with_spectrum: GraphBlock) -> None:
    """With the filter g(λ) = λ the matrix is the Laplacian, which is -1 at every link.

    With g(λ) = 1 it is the identity, which is 0 at every link.
    """
    model = SpectralGNN(GraphShape(2, 0, 2), SMALL).eval()
    for parameter in model.parameters():
        parameter.data.zero_()  # attention adds nothing
    model.decode.bias.data.fill_(1.0)
    batch = with_spectrum.cut(torch.tensor([0, 1]))
    assert torch.allclose(model.link_filters(batch), torch.zeros(10, 1), atol=1e-6)
    model.decode.bias.data.zero_()
    model.eigenvalues.linear.weight.data[0, 0] = 1.0  # λ itself, no wave
    model.decode.weight.data[0, 0] = 1.0
    assert torch.allclose(model.link_filters(batch), -torch.ones(10, 1), atol=1e-5)


def test_link_weights_of_a_node_add_up_to_one(with_spectrum: GraphBlock) -> None:
    """Node 2 has three neighbours, with scores 0, ln 2 and ln 5: weights 1/8, 2/8 and 5/8."""
    batch = with_spectrum.cut(torch.tensor([0]))
    scores = torch.zeros(8, 1)
    assert batch.whole.rows.tolist() == [0, 0, 1, 1, 2, 2, 2, 3]
    scores[4:7, 0] = torch.tensor([0.0, math.log(2), math.log(5)])
    weights = link_softmax(scores, batch).flatten()
    expected = torch.tensor([0.5, 0.5, 0.5, 0.5, 1 / 8, 2 / 8, 5 / 8, 1])
    assert torch.allclose(weights, expected)


def test_the_consensus_is_the_mean_over_clients() -> None:
    replies = [
        (name, Payload({}, {"weight": weight}, extras={"consensus": np.array(mean, np.float32)}))
        for name, weight, mean in (("a", 1, [1, 2]), ("b", 9, [3, 6]))
    ]
    rule = MeanOfClients()
    state = rule.start({"consensus": np.zeros(2, np.float32), "known": np.zeros(1, np.float32)})
    merged = rule.merge(state, replies, None)  # type: ignore[arg-type]
    assert merged.arrays["consensus"].tolist() == [2, 4]
    assert merged.arrays["known"].tolist() == [1]


def test_distance_from_the_consensus_by_hand(tiny_client: Callable[..., Client]) -> None:
    """A network of zeros has embeddings of zeros: with the consensus (2, 0) and strength 25 the
    term is 25 / 2 · (4 + 0) / 2 = 25. In round 1 there is none.
    """
    method = assembled(fedssp(SMALL))
    node = tiny_client("rings", method)
    model = method.model(method.task.shape(node.samples)).eval()
    for parameter in model.parameters():
        parameter.data.zero_()
    (batch,) = method.task.batches(node.samples, 1000, torch.Generator())
    assert method.penalty is not None
    for known, expected in ((0.0, 0.0), (1.0, 25.0)):
        session = Session(
            model=model,
            optimiser=method.training.optimiser(model),
            training=method.training,
            task=method.task,
            samples=node.samples,
            shared=(),
            randomness=Randomness(0, "rings", 1),
            device=node.device,
            received={"consensus": torch.tensor([2.0, 0.0]), "known": torch.tensor([known])},
        )
        term = method.penalty(session)(batch, method.task.output(model, batch))
        assert term.item() == pytest.approx(expected)


def test_graphs_without_links_and_of_one_node_can_be_trained_on(
    tiny_client: Callable[..., Client],
) -> None:
    method = assembled(fedssp(SMALL))
    samples = graphs_of([1], [1])
    samples = replace(samples, block=method.inputs.added_to(samples.block))
    node = replace(tiny_client("rings", method), samples=samples)
    reply = node.answer(request(1, True, {}))
    assert reply.numbers["loss"] > 0
    assert np.isfinite(reply.extras["consensus"]).all()
    assert not any("running" in name for name in reply.arrays)


def test_other_inputs_are_refused(two_graphs: GraphBlock) -> None:
    model = SpectralGNN(GraphShape(2, 0, 2), SMALL)
    with pytest.raises(RametError, match="needs the spectrum of each graph"):
        model(two_graphs.cut(torch.tensor([0])))
    with pytest.raises(RametError, match="hidden must be even"):
        ramet.run("fedssp", "tiny", hidden=3, heads=1)


@pytest.mark.thorough
def test_a_stopped_run_ends_with_the_same_result_and_can_be_summed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"hidden": 4, "heads": 2, "layers": 1}
    whole = ramet.run("fedssp", "tiny", rounds=3, out=tmp_path / "whole", **options)
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    assert why_not(assembled(fedssp()), Can.SECURE) is None
