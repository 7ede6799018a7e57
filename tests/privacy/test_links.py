"""Differential privacy per link: what a link changes, noise, ledger, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant

import ramet
from capable_method import Added, Zero
from federations import protected
from ramet.data import NodeGraph
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.ledger import Ledger
from ramet.engine.site.outer_gates import Unlinked
from ramet.engine.site.request import Request
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, checked_settings
from ramet.experiment.client_side import client_of
from ramet.models.hops import distinct_links, hops_of, summed_hops, unit_rows
from ramet.models.plain_node import NodeGCN
from ramet.policy import Ceiling, PolicyError
from ramet.privacy.budget import SENSITIVITY
from ramet.rules.extras import Extras, Stage
from ramet.tasks import NodeSamples
from ramet.training.local import LocalTraining, Penalty, Session, Term

LINK = "unit=link,epsilon=4,delta=1e-5"
SIZE = {"nodes": "200", "links": "400", "clients": "4"}
CHOSEN: dict[str, Any] = {"setting": "planted", "network": "hops", "rounds": 2}
SMALL = {**CHOSEN, **SIZE}
NOISE = "hops.safetensors"


def graph_of(pairs: list[tuple[int, int]], nodes: int = 6, scale: float = 100.0) -> NodeGraph:
    """A graph with long feature vectors, some of them far longer than others."""
    draw = torch.Generator().manual_seed(1)
    ends = torch.tensor(pairs, dtype=torch.int32).reshape(-1, 2)
    features = torch.randn(nodes, 3, generator=draw) * scale ** torch.arange(nodes).unsqueeze(1)
    return NodeGraph(
        features=features,
        labels=torch.zeros(nodes, dtype=torch.int64),
        classes=2,
        left=ends[:, 0],
        right=ends[:, 1],
        kinds=torch.zeros(len(pairs), dtype=torch.int32),
        kind_names=("link",),
        trained=torch.zeros(nodes, dtype=torch.bool),
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_link_changes_sums_by_more_than_the_sensitivity(seed: int) -> None:
    """Each pair of nodes, added to or removed from random graphs."""
    draw = torch.Generator().manual_seed(seed)
    everything = [*combinations(range(6), 2)]
    pairs = [pair for pair in everything if torch.rand((), generator=draw) < 0.4]
    rows = unit_rows(graph_of([]).features)
    # the worst case for a hop: rows of norm 1 in any directions
    worst = torch.cat([rows[:3], rows[:1].expand(3, 3)])
    largest = 0.0
    for pair in everything:
        other = [p for p in pairs if p != pair] if pair in pairs else [*pairs, pair]
        change = (
            distinct_links(graph_of(pairs)).to_dense() - distinct_links(graph_of(other)).to_dense()
        )
        for values in (rows, worst):
            moved = change @ values
            assert (moved.norm(dim=1) <= 1 + 1e-12).all()
            assert int((moved.norm(dim=1) > 0).sum()) <= 2
            largest = max(largest, float(moved.norm()))
    assert largest == pytest.approx(SENSITIVITY["link"], rel=1e-12)


def test_duplicates_and_self_loops_change_nothing() -> None:
    plain = summed_hops(graph_of([(0, 1), (2, 3)]), 2)
    again = summed_hops(graph_of([(0, 1), (1, 0), (0, 1), (2, 2), (2, 3)]), 2)
    assert torch.equal(plain, again)


def test_rows_that_are_zero_or_not_finite_count_as_zeros() -> None:
    values = torch.tensor([[3.0, 4.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
    assert unit_rows(values).tolist() == [[0.6, 0.8], [0, 0], [0, 0], [0, 0]]


def test_without_noise_hops_are_normalised_sums() -> None:
    graph = graph_of([(0, 1), (0, 2)])
    rows = unit_rows(graph.features)
    first = unit_rows(torch.stack([rows[1] + rows[2], rows[0], rows[0], *[0 * rows[0]] * 3]))
    found = summed_hops(graph, 1)
    torch.testing.assert_close(found, torch.cat([rows, first], dim=1).float())
    assert torch.equal(hops_of(graph, 1), found)
    silent = summed_hops(graph, 1, lambda shape: torch.zeros(*shape, dtype=torch.float64))
    assert torch.equal(silent, found)


def node_of(
    folder: Path, run: str = "a" * 32, ceiling: Ceiling | None = None, deployed: bool = True
) -> Client:
    """A deployed client with its own ledger, which is that of all runs in the folder."""
    given: Any = {"method": "fedavg", "data": Path(), "seed": 1, "dp": LINK, "engine": "local"}
    experiment = Experiment(checked_settings(**given, **CHOSEN, options=SIZE))
    node = client_of(experiment, experiment.clients[0], folder / run)
    assert node.protection.private is not None
    ledger = Ledger(folder / "privacy.json")
    private = replace(node.protection.private, ledger=ledger, ceiling=ceiling, deployed=deployed)
    return protected(node, private=private)


def without_links(node: Client) -> Request:
    assert node.protection.private is not None
    gate = Unlinked(node.protection.private)
    return gate.without_links(node.request(request(1, True, {})))


def weights(node: Client, number: int = 1) -> torch.Tensor:
    reply = node.answer(request(number, True, {}, last=number - 1))
    return torch.from_numpy(reply.arrays["layers.0.weight"])


def test_the_noise_is_that_of_the_accountant(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    weights(node)
    assert node.protection.private is not None
    (entry,) = node.protection.private.ledger.runs().values()
    assert (entry.steps, entry.sampling, entry.rounds) == (2, 1.0, (1,))
    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(entry.noise / math.sqrt(2)), 2)
    exact = accountant.get_epsilon(1e-5)
    assert 3.9 < exact <= 4.0
    assert node.protection.private.ledger.spent("link", 1e-5) == pytest.approx(exact, abs=1e-6)


def test_a_restarted_site_uses_the_same_noise_and_pays_once(tmp_path: Path) -> None:
    first = node_of(tmp_path)
    weights(first)
    assert first.protection.private is not None
    kept = (first.protection.private.folder / NOISE).read_bytes()
    again = node_of(tmp_path)
    weights(again, number=2)
    again.answer(request(3, False, {}, last=2))
    assert (first.protection.private.folder / NOISE).read_bytes() == kept
    assert first.protection.private.ledger.runs()["a" * 32].rounds == (1,)
    assert not torch.equal(weights(node_of(tmp_path, "b" * 32)), weights(first))


def test_noise_drawn_before_a_crash_is_used_and_lost_noise_is_not_drawn_again(
    tmp_path: Path,
) -> None:
    node = node_of(tmp_path)
    trained = weights(node)
    assert node.protection.private is not None
    assert node.protection.run_answers is not None
    (tmp_path / "privacy.json").unlink()  # as if killed between the two files
    rmtree(node.protection.run_answers.folder)
    assert torch.equal(weights(node_of(tmp_path)), trained)
    (node.protection.private.folder / NOISE).unlink()
    with pytest.raises(RametError, match="lost its noisy sums"):
        weights(node_of(tmp_path), number=2)


def test_a_site_that_only_evaluates_pays_too(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    node.answer(request(3, False, {}))
    assert node.protection.private is not None
    assert node.protection.private.ledger.spent("link", 1e-5) > 3.9


def test_two_runs_add_up_to_the_ceiling(tmp_path: Path) -> None:
    ceiling = Ceiling(unit="link", epsilon=4.0, delta=1e-5)
    weights(node_of(tmp_path, ceiling=ceiling))
    with pytest.raises(PolicyError, match=r"its policy allows 4\."):
        weights(node_of(tmp_path, "b" * 32, ceiling))
    higher = Ceiling(unit="link", epsilon=6.5, delta=1e-5)
    weights(node_of(tmp_path, "b" * 32, higher))
    assert 5 < Ledger(tmp_path / "privacy.json").spent("link", 1e-5) <= 6.5
    with pytest.raises(PolicyError, match="no ε per graph can be stated"):
        weights(node_of(tmp_path, "c" * 32, Ceiling(unit="graph", epsilon=99, delta=1e-5)))


def test_nothing_but_the_sums_reaches_training(tmp_path: Path) -> None:
    samples = without_links(node_of(tmp_path)).samples
    assert isinstance(samples, NodeSamples)
    assert samples.graph.links == 0
    assert samples.graph.whole.columns.numel() == 0


def test_evaluation_on_another_graph_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    assert isinstance(node.samples, NodeSamples)
    elsewhere = replace(
        node.samples, evaluated_on={"test": node.samples.graph.subgraph(torch.arange(5))}
    )
    with pytest.raises(RametError, match="Set evaluated_on=own"):
        without_links(replace(node, samples=elsewhere))
    assert node.protection.private is not None
    assert not (node.protection.private.folder / "hops.safetensors").exists()
    assert not node.protection.private.ledger.runs()


def test_noise_enters_and_follows_from_the_seed_in_simulations(tmp_path: Path) -> None:
    runs = {
        name: ramet.run("fedavg", out=tmp_path / name, seed=seed, dp=dp, **SMALL).summary
        for name, seed, dp in (("a", 1, LINK), ("b", 1, LINK), ("c", 2, LINK), ("d", 1, None))
    }
    assert runs["a"].sha256 == runs["b"].sha256
    assert len({summary.sha256 for summary in runs.values()}) == 3
    assert runs["a"].privacy is not None
    assert runs["a"].privacy.sentence == (
        "ε = 4, δ = 1e-05 for each link (simulated: no guarantee)"
    )


def test_a_stopped_run_continues_with_its_noise_and_more_rounds_cost_nothing(
    tmp_path: Path,
) -> None:
    whole = ramet.run("fedavg", out=tmp_path / "whole", dp=LINK, **{**SMALL, "rounds": 3})

    def stop(record: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ramet.run("fedavg", out=tmp_path / "r", dp=LINK, observe=stop, **SMALL)
    ramet.resume(tmp_path / "r")
    assert ramet.resume(tmp_path / "r", rounds=3).summary.sha256 == whole.summary.sha256
    states = RunFolder(tmp_path / "r").clients
    spent = [Ledger(path).spent("link", 1e-5) for path in states.glob("*/privacy.json")]
    assert len(spent) > 1
    assert max(spent) <= 4


@pytest.mark.parametrize(
    ("method", "changed", "reason"),
    [
        ("fedavg", {"network": "gcn"}, "uses links in every step"),
        ("fedavg", {"network": None}, "uses links in every step"),
        ("fedavg", {"hops": 0}, "without hops it uses no links"),
        ("fedavg", {"sample": 3}, "uses links besides"),
        ("fedsage+", {"network": None}, "uses links in every step"),
        ("fedgta", {"network": None}, "uses links in every step"),
        ("fedlit", {"network": None}, "its network has buffers"),
        ("fedpub", {"network": None}, "uses links in every step"),
        ("fgssl", {"network": None}, "uses links in every step"),
        ("fedavg", {"setting": "tiny", "network": None}, "uses links in every step"),
    ],
)
def test_what_uses_links_otherwise_is_refused(
    method: str, changed: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RametError, match=rf"{reason}.*[Uu]se --network hops"):
        ramet.run(method, dp=LINK, **{**CHOSEN, **changed})


def links_in(session: Session) -> int:
    samples: Any = session.samples
    return int(samples.graph.left.numel() + samples.training_graph.left.numel())


class Looking(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        SEEN["training"] = links_in(session)
        return super().fit(session, penalty)


def look_before(session: Session) -> Term:
    SEEN["penalty"] = links_in(session)
    return lambda batch, output: output.sum() * 0


def look_after(session: Session) -> None:
    SEEN["after"] = links_in(session)


def look_in_stage(session: Session) -> None:
    SEEN["stage"] = links_in(session)
    session.sending["seen"] = torch.zeros(1)


SEEN: dict[str, int] = {}


def test_nothing_that_a_method_computes_sees_links(tmp_path: Path) -> None:
    stage = Stage("look", Extras(Zero("seen"), Added()), look_in_stage)
    parts: Any = {"penalty": look_before, "after": look_after, "training": Looking()}
    method = replace(ramet.fedavg(), stages=(stage,), **parts)
    places = {"training", "penalty", "after", "stage"}
    for dp in (None, LINK):
        SEEN.clear()
        ramet.run(method, dp=dp, out=tmp_path / str(dp), **SMALL)
        assert SEEN.keys() == places
        assert all((links > 0) == (dp is None) for links in SEEN.values())


@pytest.mark.parametrize("method", ["fedprox", "ditto", "moon", "scaffold", "fedproto", "fedtgp"])
def test_what_a_method_does_with_noisy_sums_costs_nothing(method: str, tmp_path: Path) -> None:
    spent = []
    for name in ("fedavg", method):
        run = ramet.run(name, dp=LINK, out=tmp_path / name, **SMALL)
        (ledger,) = (run.folder / "clients").glob(f"*/part-01/{LEDGER}")
        (entry,) = Ledger(ledger).runs().values()
        spent.append(entry)
    assert spent[0] == spent[1]
    assert spent[0].rounds == (1,)


def test_a_site_refuses_another_network_whatever_the_coordinator_sends(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    other = replace(node.method, model=NodeGCN)
    with pytest.raises(RametError, match="needs --network hops"):
        replace(node, method=other).answer(request(1, True, {}))
    assert not (tmp_path / "privacy.json").exists()
