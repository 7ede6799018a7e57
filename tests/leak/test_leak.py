"""`ramet leak` on small runs of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from command_line import ramet as command
from federations import with_all_states
from own_sites import node_site, write_csv
from ramet.engine.site.audit import AuditEntry, SentTensor
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.run_models import model_of
from ramet.leak import NAME, Audit, Effort, audit, parse_bars
from ramet.leak.candidates import Candidates
from ramet.leak.capture import first_round, last_round
from ramet.leak.columns import moved
from ramet.leak.findings import View
from ramet.leak.links import pairs
from ramet.report.leak import verdict
from ramet.training.local import LocalTraining

LITTLE = Effort(references=2, rounds=2, canaries=8, small_sites=1, redrawn=10)
PLANTED: dict[str, Any] = {"partition": "balanced", "clients": 3, "nodes": 200, "links": 600}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedStar's graphs and FedAvg's nodes, each in the clear and in secure sums."""
    folder = tmp_path_factory.mktemp("leak")
    for secure in (False, True):
        name = "-secure" if secure else ""
        ramet.run("fedstar", "tiny", rounds=2, secure=secure, out=folder / f"graphs{name}")
        ramet.run(
            "fedavg", "planted", rounds=3, secure=secure, out=folder / f"nodes{name}", **PLANTED
        )
    return folder


@pytest.fixture(scope="module")
def audits(runs: Path) -> dict[str, Audit]:
    return {path.name: audit(RunFolder.open(path), LITTLE) for path in runs.iterdir()}


def value(found: Audit, attack: str, view: View) -> float | None:
    one = found.of(attack, view)
    assert one is not None
    return one.value


def test_the_degrees_that_occur_are_read_off_a_reply_in_the_clear(
    audits: dict[str, Audit],
) -> None:
    one = audits["graphs"].of("degrees", "replies")
    assert one is not None
    assert one.value == 1.0
    assert one.leaks


def test_masked_replies_tell_no_degrees(audits: dict[str, Audit]) -> None:
    one = audits["graphs-secure"].of("degrees", "replies")
    assert one is not None
    assert one.value == pytest.approx(one.chance)
    assert not one.leaks


@pytest.mark.parametrize("attack", ["membership", "reference", "links"])
def test_what_masked_replies_tell_includes_chance(audits: dict[str, Audit], attack: str) -> None:
    one = audits["nodes-secure"].of(attack, "replies")
    assert one is not None
    assert one.low is not None
    assert one.high is not None
    assert one.low <= 0.5 <= one.high


def test_the_final_model_of_a_secure_run_tells_what_that_of_a_plain_one_does(
    audits: dict[str, Audit],
) -> None:
    for attack in ("membership", "links"):
        plain, secure = (value(audits[name], attack, "model") for name in ("nodes", "nodes-secure"))
        assert plain == pytest.approx(secure, abs=0.05)


def test_attacks_that_do_not_apply_say_why(audits: dict[str, Audit]) -> None:
    one = audits["graphs"].of("membership", "replies")
    assert one is not None
    assert one.value is None
    assert "does not leave" in one.note


def test_every_value_has_an_interval_around_it(audits: dict[str, Audit]) -> None:
    for found in audits.values():
        for one in found.findings:
            if one.value is not None and one.low is not None:
                assert one.low <= one.value <= (np.inf if one.high is None else one.high), one


def test_an_audit_repeats(runs: Path, audits: dict[str, Audit]) -> None:
    assert audit(RunFolder.open(runs / "nodes"), LITTLE) == audits["nodes"]


def test_an_audit_survives_json(audits: dict[str, Audit]) -> None:
    for found in audits.values():
        assert Audit.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("name", ["graphs", "graphs-secure", "nodes", "nodes-secure"])
def test_what_is_attacked_is_what_left_the_sites(runs: Path, name: str, tmp_path: Path) -> None:
    """The hashes in the sites' audit logs are those of the replies of the first and last round."""
    run = with_all_states(runs / name, tmp_path / "run")
    experiment, summary = run.experiment(), run.summary()
    assert summary is not None
    last = last_round(run, experiment, tmp_path / "last")
    rounds = {summary.rounds: last}
    if not experiment.settings.secure:  # the masks of another run are others
        rounds[1] = first_round(experiment, tmp_path / "first")
    for client in experiment.clients:
        lines = (run.clients / client / "audit.jsonl").read_text().splitlines()
        entries = [AuditEntry.parse(line) for line in lines]
        for number, seen in rounds.items():
            sent = [e for e in entries if e.round == number and not e.stage and e.tensors]
            arrays = seen.replies[client].arrays
            assert {*sent[0].tensors} == {SentTensor.of(n, a) for n, a in arrays.items()}


def test_columns_without_gradient_change_by_decay_alone() -> None:
    training, draw = LocalTraining(lr=0.01), np.random.default_rng(0)
    sent = draw.normal(size=(4, 3)).astype(np.float32)
    received = sent.copy()
    received[:, 1] += 0.01
    assert moved(training, sent, received)[1]


def unlinked_run(folder: Path, **options: Any) -> RunFolder:
    """A run of sites whose patients, but for two, have no contacts: each is its own input."""
    sites = [
        node_site(folder / name, number) for number, name in enumerate(("north", "south", "west"))
    ]
    for site in sites:
        write_csv(site.parent / "contacts.csv", "source,target", [("p0", "p1")])
    parts = {"network": "gcn", "dropout": 0.0, "sites": " ".join(map(str, sites)), **options}
    return RunFolder.open(ramet.run("fedavg", "own", rounds=1, out=folder / "run", **parts).folder)


FEATURES_ONLY = Effort(references=0, canaries=0, small_sites=6, redrawn=2)


def test_steps_of_sgd_give_a_single_sample_away(tmp_path: Path) -> None:
    one = audit(unlinked_run(tmp_path, algorithm="sgd"), FEATURES_ONLY).of("features", "replies")
    assert one is not None
    assert one.value == pytest.approx(1.0, abs=1e-3)
    assert one.leaks
    assert "weights divided by bias" in one.note


def test_masks_hide_what_steps_of_sgd_give_away(tmp_path: Path) -> None:
    run = unlinked_run(tmp_path, algorithm="sgd", secure=True)
    one = audit(run, FEATURES_ONLY).of("features", "replies")
    assert one is not None
    assert verdict(one) == "not shown"


def test_an_attack_that_cannot_succeed_has_no_power(runs: Path) -> None:
    """Every column of dense features moves, and the bias of this layer is for all heads."""
    folder = runs.parent / "attention"
    ramet.run("fedavg", "planted", rounds=1, network="gat", out=folder, **PLANTED)
    one = audit(RunFolder.open(folder), FEATURES_ONLY).of("features", "replies")
    assert one is not None
    assert one.value == one.chance
    assert verdict(one) == "no power here"


def test_chance_for_labels_is_the_mean_of_the_other_sites(
    runs: Path, audits: dict[str, Audit]
) -> None:
    experiment = RunFolder.open(runs / "nodes").experiment()
    shares = [Candidates(experiment.samples(client)).shares() for client in experiment.clients]
    errors = [
        np.abs(own - np.mean([one for one in shares if one is not own], axis=0)).sum() / 2
        for own in shares
    ]
    one = audits["nodes"].of("labels", "replies")
    assert one is not None
    assert one.chance == pytest.approx(np.mean(errors), abs=1e-6)


def test_pairs_share_a_node_and_are_not_linked(runs: Path) -> None:
    experiment = RunFolder.open(runs / "nodes").experiment()
    samples = experiment.samples(experiment.clients[0])
    found, graph = pairs(samples, "a", 0), samples.graph
    links = {
        frozenset(ends) for ends in zip(graph.left.tolist(), graph.right.tolist(), strict=True)
    }
    assert found.linked.shape == found.apart.shape
    assert found.linked.size(1) > 10
    assert all(frozenset(ends) in links for ends in found.linked.T.tolist())
    assert not any(frozenset(ends) in links for ends in found.apart.T.tolist())
    assert found.linked[0].equal(found.apart[0])


def test_margins_fall_as_the_loss_grows(runs: Path) -> None:
    run = RunFolder.open(runs / "graphs")
    experiment = run.experiment()
    site = Candidates(experiment.samples("rings"))
    model, chosen = model_of(run, "rings"), site.members[:5]
    chances = site.logits(model, chosen).softmax(dim=1)[range(5), site.labels[chosen]].numpy()
    assert site.margins(model, chosen) == pytest.approx(np.log(chances / (1 - chances)))


def test_the_command_writes_the_audit_and_obeys_the_bar(runs: Path, tmp_path: Path) -> None:
    picture = tmp_path / "leak.png"
    quick = ("--references", "0", "--canaries", "0")
    done = command("leak", runs / "graphs", *quick, "--bar", "degrees=0.9", "--plot", picture)
    assert done.code == 1
    assert "degrees from replies: 1.000 is above the bar of 0.9" in done.stderr
    assert picture.stat().st_size > 0
    stored = Audit.from_json(json.loads((runs / "graphs" / NAME).read_text()))
    assert value(stored, "degrees", "replies") == 1.0
    model = ramet.resume(runs / "graphs").export("rings", tmp_path / "model", programs=False)
    card = (model.folder / "README.md").read_text()
    assert "| which degrees occur at a site (F1) | replies | 1.000 |" in card


def test_a_bar_is_not_held_by_an_attack_without_result(runs: Path) -> None:
    quick = ("--references", "0", "--canaries", "0")
    done = command("leak", runs / "graphs", *quick, "--bar", "links=0.9", "--bar", "epsilon=9")
    assert done.code == 1
    assert "links: this attack has no result, so its bar of 0.9 is not held" in done.stderr
    assert "epsilon: this attack has no result" in done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [("member=0.6", "Did you mean"), ("membership", "expects ATTACK=NUMBER")],
)
def test_bars_that_cannot_be_read_are_refused(given: str, message: str) -> None:
    with pytest.raises(RametError, match=message):
        parse_bars([given])


def test_runs_that_cannot_be_audited_are_refused(runs: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    RunFolder.create(unfinished, RunFolder.open(runs / "graphs").experiment())
    with pytest.raises(RametError, match="is not finished"):
        audit(RunFolder.open(unfinished))
