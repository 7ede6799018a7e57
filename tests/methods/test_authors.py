"""Authors' protocols: each deviation on numbers derived by hand, and all of them together."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ramet
from ramet.data.graphs.hetero_graph import HeteroGraph, Links, NodeType, Relation
from ramet.data.link_split import with_negatives
from ramet.data.sources.hetero_graphs import read_amazon
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings
from ramet.experiment.named import NamedParts
from ramet.experiment.run_models import start_model_of
from ramet.methods import AUTHORS, METHODS, PAPER_NAMES, fedper
from ramet.methods.fedda import Explore, Restart
from ramet.methods.gcfl import ClusteredMean, Clustering, by_cosine
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.settings import DenseNetwork
from ramet.models.shape import GraphShape
from ramet.papers.deviations import deviations, methods_of_papers
from ramet.partition import Reading
from ramet.partition.by_dataset import tiny
from ramet.partition.by_link_kind import planted_links
from ramet.partition.by_relation import any_specialities, fedda_specialities
from ramet.payload import Payload
from ramet.randomness import Randomness
from ramet.rules.method import assembled
from ramet.rules.server import Server
from ramet.run_options import SPLIT_SEED
from ramet.tasks import GraphClassification, StructureEncoding
from ramet.training.local import LocalTraining, Session
from servers import replied, server


def choice(clients: str, names: str = "abcd") -> Server:
    return Server([*clients], Randomness(0, "server", 1), switchable=[*names])


def scores(**given: str) -> dict[str, dict[str, float]]:
    """`x="12.."`: client x has score 1 for array a and 2 for b, and was not asked for c and d."""
    return {
        client: {name: float(x) for name, x in zip("abcd", digits, strict=True) if x != "."}
        for client, digits in given.items()
    }


def test_a_tensor_exactly_at_the_mean_goes_off_with_ties_off() -> None:
    # means 2, 2, 2, 0: y is at the mean of a and b, and d moves nowhere, so its mean is 0
    given, now = scores(x="3130", y="2220", z="1310"), choice("xyz")
    ours, theirs = Restart(alpha=0.0, beta=0.0), Restart(alpha=0.0, beta=0.0, ties_off=True)
    assert ours.ask(ours.settle(Payload(), now, given), now) == {
        "x": ["b"],
        "y": [],
        "z": ["a", "c"],
    }
    after = theirs.settle(Payload(), now, given)
    assert theirs.ask(after, now) == {"x": ["b", "d"], "y": [*"abcd"], "z": ["a", "c", "d"]}


def test_equal_scores_are_ties_although_their_mean_is_rounded() -> None:
    same = {client: {"a": 0.1} for client in "xyz"}  # (0.1 + 0.1 + 0.1) / 3 > 0.1
    rule = Restart(alpha=0.0, beta=0.0, ties_off=True)
    after = rule.settle(Payload(), choice("xyz", "a"), same)
    assert [mask.tolist() for mask in after.arrays.values()] == [[0], [0], [0]]


def test_a_client_with_exactly_alpha_of_the_tensors_leaves_with_ties_leave() -> None:
    # means of a to d: 5, 5, 5, 5: x keeps a and b, y keeps c and d, which is 2 of 4 = alpha
    given, now = scores(x="9911", y="1199"), choice("xy")
    stays = Restart(alpha=0.5, beta=0.0)
    assert list(stays.ask(stays.settle(Payload(), now, given), now)) == ["x", "y"]
    state = Payload({"x": np.array([1, 1, 0, 0], np.uint8)})
    leaves = Restart(alpha=0.5, beta=0.0, ties_leave=True)
    assert list(leaves.ask(state, now)) == ["y"]


def test_restart_by_tensors_counts_those_that_someone_sent() -> None:
    now = choice("wxyz")
    few = scores(w="9999", x="9999", y="1111", z="1111")  # w and x stay: 2 of 4 clients
    at_half = Restart(beta=0.5)
    assert list(at_half.ask(at_half.settle(Payload(), now, few), now)) == ["w", "x"]
    assert Restart(beta=0.5, by_tensors=True).settle(Payload(), now, few) == Payload()
    # 3 of 4 clients stay, but only a was sent, which is 1 of 4 tensors
    one = scores(w="9...", x="9...", y="9...", z="9...")
    masks = {client: np.array([1, 0, 0, 0], np.uint8) for client in "wxyz"}
    lenient, strict = (
        Restart(alpha=0.2, beta=0.4, by_tensors=tensors) for tensors in (False, True)
    )
    assert lenient.settle(Payload(dict(masks)), now, one).arrays.keys() == {*"wxyz"}
    assert strict.settle(Payload(dict(masks)), now, one) == Payload()


@pytest.mark.parametrize(("clients", "ours", "theirs"), [(8, 5, 6), (16, 11, 11)])
def test_explore_fills_by_one_client_more_in_the_authors_program(
    clients: int, ours: int, theirs: int
) -> None:
    # 0.667 * 8 = 5.3 and 0.667 * 9 = 6.003; 0.667 * 16 = 10.7 and 0.667 * 17 = 11.3
    names = [f"c{number:02d}" for number in range(clients)]
    now = Server(names, Randomness(0, "server", 1), switchable=["a", "b"])
    away = Payload({name: np.zeros(2, np.uint8) for name in names[1:]})
    for one_more, active in ((False, ours), (True, theirs)):
        rule = Explore(one_more=one_more)
        after = rule.settle(away, now, {names[0]: {"a": 1.0, "b": 1.0}})
        assert len(rule.ask(after, now)) == active


def test_explore_counts_without_this_rounds_departures_and_restarts_if_too_few_are_left() -> None:
    now = choice("wxyz")
    # x, y and z leave in this round and cannot return at once: 1 of 4 clients is active
    given = scores(w="9999", x="1111", y="1111", z="1111")
    assert list(Explore(beta=0.5).ask(Explore(beta=0.5).settle(Payload(), now, given), now)) == [
        "w"
    ]
    assert Explore(beta=0.5, restart=0.4).settle(Payload(), now, given) == Payload()
    # z has left earlier and returns, so that 2 of 4 are active, and 2 of 4 is not at most 0.4
    before = Payload({"z": np.zeros(4, np.uint8)})
    rule = Explore(beta=0.5, restart=0.4)
    after = rule.settle(before, now, scores(w="9999", x="1111", y="1111"))
    assert list(rule.ask(after, now)) == ["w", "z"]


def links(columns: tuple[list[int], list[int], list[int]]) -> Links:
    heads, tails, relations = map(torch.tensor, columns)
    return Links(heads, tails, relations)


def path_graph() -> tuple[HeteroGraph, Links]:
    """0-1-2-3-4 in relation 0, of which 0-1 and 1-2 are for training; and 2-0 in relation 1."""
    known = links(([0, 1, 2, 3, 2], [1, 2, 3, 4, 0], [0, 0, 0, 0, 1]))
    relations = (Relation("a", 0, 0), Relation("b", 0, 0))
    train = known[torch.tensor([0, 1])]
    graph = HeteroGraph((NodeType("node", 5),), relations, train, torch.ones(2, dtype=torch.bool))
    return graph, known


def negatives(kind: Any, test: Links) -> list[tuple[int, int]]:
    graph, known = path_graph()
    draw = torch.Generator().manual_seed(1)
    held_out = with_negatives(graph, known, test, test, kind, draw).split.test
    drawn = held_out.pairs[(held_out.labels == 0).nonzero().flatten()]
    return list(zip(drawn.heads.tolist(), drawn.tails.tolist(), strict=True))


def test_2hop_negatives_may_be_links_of_another_relation_and_unlinked_ones_may_not() -> None:
    # From 0, two training links lead to 2 alone, which is linked to 0 in relation 1, backwards.
    # Over all links, 0 has the neighbours 1 and 2, and from there two links lead to 3.
    link = links(([0], [1], [0]))
    assert negatives("2hop", link) == [(0, 2)]
    assert negatives("2hop-unlinked", link) == [(0, 3)]


def test_a_head_without_unlinked_nodes_two_links_away_has_no_negatives() -> None:
    # 1 is linked to 0 and 2; from there to 1, 2, 0 and 3: only 3 is left. 3 leads to 1 and 0.
    heads = links(([1, 3], [2, 4], [0, 0]))
    assert [head for head, _ in negatives("2hop-unlinked", heads)] == [1, 3]
    graph, _ = path_graph()
    pair = links(([0], [1], [0]))
    held_out = with_negatives(
        graph, pair, pair, pair, "2hop-unlinked", torch.Generator()
    ).split.test
    assert held_out.labels.tolist() == [1.0]


@pytest.mark.data
def test_feddas_split_of_amazon_has_its_sizes(data_root: Path) -> None:
    split = read_amazon(data_root, 123, "random", "fedda")
    positive = split.split.test.pairs[split.split.test.labels.nonzero().flatten()]
    held = int(split.split.val.labels.sum())
    assert split.content.nodes == 10_099
    assert len(split.content.links) + held == 111_495
    assert torch.bincount(positive.kinds).tolist() == [19_231, 17_933]
    # every head has its first link in training
    links, val = split.content.links, split.split.val.pairs
    heads = {*zip(links.heads.tolist(), links.kinds.tolist(), strict=True)}
    assert {*zip(val.heads.tolist(), val.kinds.tolist(), strict=True)} <= heads
    assert 0.05 < held / 111_495 < 0.1


def test_a_missing_split_of_amazon_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"FedDA's split of Amazon is not in .* use split=gatne"):
        read_amazon(tmp_path, 1, "random", "fedda")


def test_specialities_may_be_all_relations() -> None:
    drawn = [
        tuple(any_specialities(2, torch.Generator().manual_seed(n)).tolist()) for n in range(60)
    ]
    counts = [drawn.count(one) for one in ((True, False), (False, True), (True, True))]
    assert sum(counts) == 60
    assert min(counts) > 10  # 20 each are expected
    named = [tuple(fedda_specialities(number).tolist()) for number in range(1, 33)]
    assert [named.count(one) for one in ((True, False), (False, True), (True, True))] == [13, 9, 10]
    assert named[:4] == [(True, False), (False, True), (True, False), (True, True)]
    with pytest.raises(RametError, match="FedDA's files have 32 clients"):
        fedda_specialities(33)


def session(tmp_path: Path, training: LocalTraining) -> Session:
    settings = checked_settings(
        method="fedavg", setting="planted-hetero", rounds=1, data=tmp_path, options={"links": "60"}
    )
    experiment = Experiment(settings)
    model = start_model_of(experiment, "part-0000")
    return Session(
        model=model,
        optimiser=training.optimiser(model),
        training=training,
        task=experiment.method.task,
        samples=experiment.samples("part-0000"),
        shared=(),
        randomness=Randomness(0, "part-0000", 1),
        device=torch.device("cpu"),
    )


def test_fresh_moments_start_from_zero_in_every_round(tmp_path: Path) -> None:
    for fresh, steps in ((False, 2), (True, 1)):
        training = LocalTraining(fresh_moments=fresh, batch_size=10_000)
        own = session(tmp_path, training)
        training.fit(own)
        training.fit(own)
        assert {int(state["step"]) for state in own.optimiser.state.values()} == {steps}


def test_training_stops_without_a_lower_validation_loss_and_keeps_the_best(tmp_path: Path) -> None:
    far = LocalTraining(lr=100.0, epochs=50, batch_size=10_000, stop_after=3)
    own = session(tmp_path, far)
    far.fit(own)
    assert own.steps < 50
    again = session(tmp_path, LocalTraining(lr=100.0, epochs=own.steps - 3, batch_size=10_000))
    again.training.fit(again)
    best = own.model.state_dict()  # three steps before the end
    assert all(value.equal(best[name]) for name, value in again.model.state_dict().items())


UPDATES = {"a": [0.3, 0.05], "b": [0.3, -0.05], "c": [-0.2, 0.05], "d": [-0.2, -0.05]}


@pytest.mark.parametrize(
    ("setting", "clusters"), [("", 1), ("single", 2), ("bio-sm", 1), ("bio-sm-sn", 1)]
)
def test_gcfls_thresholds_decide_whether_a_cluster_is_split(setting: str, clusters: int) -> None:
    # The mean update is [0.05, 0], of norm 0.05: not below our 0.05, but below 0.07 and 0.08. The
    # largest has norm sqrt(0.3² + 0.05²) = 0.304: above 0.28, but not above 0.35 and 0.4.
    options = AUTHORS["gcfl"].options(setting) if setting else {}
    thresholds: dict[str, Any] = {
        key: float(value) for key, value in options.items() if key != "window"
    }
    using = ClusteredMean(Clustering(quiet_rounds=0, **thresholds), by_cosine)
    state = using.start({"w": np.zeros(2, np.float32)})
    replies = [
        (client, Payload({"w": np.array(update, np.float32)}, {"weight": 1.0}))
        for client, update in UPDATES.items()
    ]
    after = using.merge(state, replied(replies), server())
    assert len({*json.loads(after.notes["clusters"]).values()}) == clusters


def test_gcfls_authors_have_no_thresholds_for_other_settings() -> None:
    with pytest.raises(RametError, match=r"did not run multi.* Use single, bio-sm, bio-sm-sn"):
        parts("gcfl", "multi", protocol="authors").assembled()


def test_feddenses_structure_maps_may_have_relu_and_dropout() -> None:
    shape, batch = shape_and_batch()
    maps: dict[str, torch.Tensor] = {}
    for kind in ("tanh", "relu"):
        torch.manual_seed(0)
        model = DenseDualChannel(shape, DenseNetwork(width=4, structure_maps=kind, dropout=0.5))
        read: list[torch.Tensor] = []
        model.mix.register_forward_hook(lambda _, given, __, read=read: read.append(given[0]))
        model.eval()
        model(batch)
        maps[kind] = read[0][:, 64 + 3 * 4 + 64 :]  # s¹, s² and s³ follow x⁰ … x³ and s⁰
        first = model.structure.layers[0](model.structure.embed(batch.structure), batch.whole)
        expected = first.tanh() if kind == "tanh" else first.relu()
        assert torch.allclose(maps[kind][:, :4], expected)
        model.train()
        read.clear()
        model(batch)
        dropped = (read[0][:, 64 + 3 * 4 + 64 :] == 0).sum() - (maps[kind] == 0).sum()
        assert (int(dropped) > 0) == (kind == "relu")
    assert bool((maps["relu"] >= 0).all())
    assert bool((maps["tanh"] < 0).any())


def shape_and_batch() -> tuple[GraphShape, Any]:
    setting, task = tiny(), GraphClassification()
    reading = Reading(Path(), SPLIT_SEED, StructureEncoding(16, 16))
    samples = task.samples(setting.client_data(setting.clients[0], reading))
    batch = next(iter(task.batches(samples, 8, torch.Generator().manual_seed(0))))
    return task.shape(samples), batch


def test_fedper_over_two_channels_shares_the_convolutions_of_both() -> None:
    method = assembled(fedper(personal=0, channels="two"))
    names = method.model(method.task.plain_shape(method.inputs)).state_dict()
    private = {name.partition(".")[0] for name in names if name not in method.shared}
    assert private == {"embed", "structure", "mix", "hidden", "classify"}
    kept = {name for name in names if name.startswith("structure") and name not in method.shared}
    assert kept == {"structure.embed.weight", "structure.embed.bias"}
    assert "layers.2.first.weight" not in assembled(fedper(personal=1, channels="two")).shared
    with pytest.raises(RametError, match="personal=3 leaves none of 3"):
        fedper(personal=3, channels="two")


def test_fedstar_with_fedper_is_a_sharing_pattern() -> None:
    share = ("structure.*", "layers.*")
    method = parts("fedstar", "single").assembled(share=share)
    names = method.model(method.task.plain_shape(method.inputs)).state_dict()
    private = {name.partition(".")[0] for name in names if name not in method.shared}
    assert private == {"embed", "mix", "hidden", "classify"}


def test_the_splits_of_a_comparison_are_the_folds_of_one_split() -> None:
    setting = planted_links(nodes=100, links=200, fold="split")
    splits = [setting.overview(Reading(Path(), SPLIT_SEED + number)).split for number in range(11)]
    assert all(split.test.equal(splits[0].test) for split in splits[:10])
    held_out = torch.cat([split.val for split in splits[:10]])
    assert sorted(held_out.tolist()) == sorted([*splits[0].train.tolist(), *splits[0].val.tolist()])
    fixed = planted_links(nodes=100, links=200, fold=3).overview(Reading(Path(), SPLIT_SEED)).split
    assert splits[3].val.equal(fixed.val)
    assert not splits[10].test.equal(splits[0].test)
    owned = [
        setting.client_data("part-00", Reading(Path(), SPLIT_SEED + number)).content.features
        for number in (0, 7)
    ]
    assert owned[0].equal(owned[1])


def parts(method: str, setting: str, **options: str) -> NamedParts:
    return NamedParts(method, setting, None, options, Path())


@pytest.mark.parametrize("method", AUTHORS)
def test_the_protocol_sets_every_deviation_and_given_options_come_first(method: str) -> None:
    setting = AUTHORS[method].setting
    assert method in {*METHODS, *PAPER_NAMES}
    theirs = parts(method, setting, protocol="authors")
    rows = deviations(method)
    assert rows
    assert all(row.ours != row.authors for row in rows if row.option != "window")
    ours, changed = parts(method, setting).assembled(), theirs.assembled()
    assert (ours, parts(method, setting).setting) != (changed, theirs.setting)
    for row in rows:
        if row.option in theirs.defaults() and not isinstance(row.authors, dict):
            given = {"protocol": "authors", row.option: row.ours}
            if row.ours != "None":
                assert parts(method, setting, **given)._chosen[row.option] == row.ours


def test_every_deviation_is_an_option_of_some_method_of_its_paper() -> None:
    for methods in methods_of_papers():
        listed = {row.option for row in deviations(*methods)}
        assert listed == {one.option for one in AUTHORS[methods[0]].deviations}


def test_feddas_protocol_reaches_all_parts_and_the_rule_that_replaces_its_own() -> None:
    theirs = parts("fedda", "amazon", protocol="authors", clients="16")
    assert theirs.assembled().activation == Restart(ties_off=True, ties_leave=True, by_tensors=True)
    explore = theirs.assembled(activation="explore,beta=0.5").activation
    assert explore == Explore(beta=0.5, ties_off=True, ties_leave=True, one_more=True, restart=0.4)
    assert theirs.assembled().training == LocalTraining(
        5e-4, 1e-4, epochs=50, batch_size=1028, fresh_moments=True, stop_after=40
    )
    setting: Any = theirs.setting
    assert (setting.source, setting.specialities, setting.sampling.clients) == (
        "fedda:amazon",
        "fedda",
        16,
    )
    one = parts("fedda", "amazon", protocol="authors", epochs="1").assembled().training
    assert one == LocalTraining(
        5e-4, 1e-4, epochs=1, batch_size=1028, fresh_moments=True, stop_after=40
    )
    other: Any = parts("fedda", "acm-hetero", protocol="authors").setting
    assert other.specialities == "any"


def test_wrong_protocols_are_refused() -> None:
    with pytest.raises(RametError, match=r"unknown protocol 'author'\. Did you mean 'authors'"):
        parts("fedda", "amazon", protocol="author").assembled()
    with pytest.raises(RametError, match=r"fedprox has no protocol of its authors.*fedda"):
        parts("fedprox", "tiny", protocol="authors").assembled()
    with pytest.raises(RametError, match="fedprox has no protocol of its authors"):
        deviations("fedprox")


def test_a_run_under_the_authors_protocol_is_another_run(tmp_path: Path) -> None:
    run = partial(ramet.run, "feddense", setting="tiny", rounds=1)
    plain = run(out=tmp_path / "plain")
    named = run(out=tmp_path / "named", protocol="ramet")
    theirs = run(out=tmp_path / "theirs", protocol="authors")
    assert named.summary.sha256 == plain.summary.sha256 != theirs.summary.sha256
