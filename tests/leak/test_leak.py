"""`ramet leak` on small runs of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ramet
from command_line import ramet as command
from federations import with_all_states
from own_sites import node_site, write_csv
from ramet.engine.site.audit import AuditEntry, SentTensor
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.run_models import model_of
from ramet.leak import NAME, Audit, Effort, audit, parse_bars
from ramet.leak.attacked import FinishedRun, sites_of
from ramet.leak.attacks import ATTACKS, Attack
from ramet.leak.candidates import Candidates
from ramet.leak.capture import Repeated, Round, Sums, repeated
from ramet.leak.columns import Layer, moved
from ramet.leak.control import Leaking
from ramet.leak.findings import View
from ramet.leak.links import pairs
from ramet.methods import fedavg
from ramet.payload import Payload
from ramet.report.leak import verdict
from ramet.rules.method import Method
from ramet.training.local import LocalTraining
from silent_runs import Silent

LITTLE = Effort(references=2, canaries=8, small_sites=1)
REPLIES_ONLY = Effort(references=0, canaries=0, small_sites=1)
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
    return {
        path.name: audit(
            RunFolder.open(path), LITTLE if path.name.startswith("nodes") else REPLIES_ONLY
        )
        for path in runs.iterdir()
    }


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


def test_a_sum_tells_which_degrees_occur_at_any_site(runs: Path, audits: dict[str, Audit]) -> None:
    experiment = RunFolder.open(runs / "graphs-secure").experiment()
    sites = [Candidates(experiment.samples(client)) for client in experiment.clients]
    layer, degrees = Layer("structure.", True, 0), experiment.method.inputs.degrees
    occurs = [layer.rows(site).sum(axis=0)[:degrees] > 0 for site in sites]
    anywhere = np.any(occurs, axis=0)
    hits, found = sum(own.sum() for own in occurs), len(sites) * anywhere.sum()
    one = audits["graphs-secure"].of("degrees", "sums")
    assert one is not None
    assert one.value == pytest.approx(2 * hits / (hits + found), abs=1e-6)


def test_the_difference_of_two_sums_is_the_reply_of_the_site_that_is_missing() -> None:
    def one(number: int, **terms: int) -> Round:
        replies = {
            client: Payload({"w": np.array([value], np.uint64)}) for client, value in terms.items()
        }
        return Round(number, {}, replies)

    sums = Sums()
    for entered in (one(1, a=5, b=7, c=2), one(2, a=4, c=2), one(3, a=6, b=1, c=3)):
        sums.enter(entered)
    arrays, sites = sums.of("b")  # 6 + 1 + 3 of round 3, less 4 + 2 of round 2
    assert (arrays["w"].tolist(), sites) == ([4], 1)
    arrays, sites = sums.of("a")
    assert (arrays["w"].tolist(), sites) == ([10], 3)


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
def test_what_is_attacked_is_the_run(runs: Path, name: str, tmp_path: Path) -> None:
    """The repeated run has the same result; what leaves its sites in the clear is what left them.

    The hashes in the sites' audit logs are those of the replies of the first and last round.
    """
    run = with_all_states(runs / name, tmp_path / "run")
    experiment, summary = run.experiment(), run.summary()
    assert summary is not None
    again = repeated(experiment, tmp_path / "again")
    assert again.sha256 == summary.sha256
    if not experiment.settings.secure:
        check_logged(run, again)


def check_logged(run: RunFolder, again: Repeated) -> None:
    assert again.recorder.first is not None
    assert again.recorder.last is not None
    for client in again.experiment.clients:
        lines = (run.clients / client / "audit.jsonl").read_text().splitlines()
        entries = [AuditEntry.parse(line) for line in lines]
        for one in (again.recorder.first, again.recorder.last):
            sent = [e for e in entries if e.round == one.number and not e.stage and e.tensors]
            arrays = one.replies[client].arrays
            assert {*sent[0].tensors} == {SentTensor.of(n, a) for n, a in arrays.items()}


@pytest.mark.parametrize(
    "protection", [{"verified": True}, {"dp": "unit=site,epsilon=8,delta=1e-5"}]
)
def test_protected_runs_are_repeated_to_the_bit(protection: dict[str, Any], tmp_path: Path) -> None:
    options = {**PLANTED, **protection, "secure": True}
    run = RunFolder.open(
        ramet.run("fedavg", "planted", rounds=2, out=tmp_path / "r", **options).folder
    )
    attacked, summary = FinishedRun(run, tmp_path, LITTLE), run.summary()
    assert summary is not None
    assert attacked.repeat.sha256 == summary.sha256


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


FEATURES_ONLY = Effort(references=0, canaries=0, small_sites=6)


def test_steps_of_sgd_give_a_single_sample_away(tmp_path: Path) -> None:
    one = audit(unlinked_run(tmp_path, algorithm="sgd"), FEATURES_ONLY).of("features", "replies")
    assert one is not None
    assert one.value == pytest.approx(1.0, abs=1e-3)
    assert one.leaks
    assert "weights divided by bias" in one.note


@pytest.mark.parametrize("secure", [False, True])
def test_a_prepared_message_reads_rows_through_sums_too(secure: bool, tmp_path: Path) -> None:
    run = unlinked_run(tmp_path, algorithm="sgd", secure=secure, hidden=256)
    one = audit(run, FEATURES_ONLY).of("rows", "prepared")
    assert one is not None
    assert one.leaks
    assert one.value is not None
    assert one.value > 0.8


def test_sites_that_verify_refuse_a_prepared_message(tmp_path: Path) -> None:
    one = audit(unlinked_run(tmp_path, algorithm="sgd", verified=True), FEATURES_ONLY).of(
        "rows", "prepared"
    )
    assert one is not None
    assert one.value is None
    assert "refused" in one.note


def test_a_sum_does_not_give_single_samples_away_exactly(tmp_path: Path) -> None:
    """Each site has one sample here, and the attacker sees their mean."""
    run = unlinked_run(tmp_path, algorithm="sgd", secure=True)
    one = audit(run, FEATURES_ONLY).of("features", "sums")
    assert one is not None
    assert one.value is not None
    assert one.value < 0.95


def test_an_attack_that_cannot_succeed_has_no_power(runs: Path) -> None:
    """Every column of dense features moves, and the bias of this layer is for all heads."""
    folder = runs.parent / "attention"
    ramet.run("fedavg", "planted", rounds=1, network="gat", out=folder, **PLANTED)
    one = audit(RunFolder.open(folder), FEATURES_ONLY).of("features", "replies")
    assert one is not None
    assert one.value == one.chance
    assert verdict(one) == "no power here"


@pytest.fixture(scope="module")
def silent(runs: Path) -> dict[str, Silent]:
    opened = {name: RunFolder.open(runs / name) for name in ("graphs", "nodes")}
    opened["unlinked"] = unlinked_run(runs.parent / "unlinked")
    found = {}
    for name, run in opened.items():
        experiment = run.experiment()
        effort = Effort(references=4, canaries=40, small_sites=4)
        found[name] = Silent(experiment, sites_of(experiment), effort)
    return found


WHERE = {"degrees": "graphs", "features": "unlinked", "rows": "unlinked"}
"""The run on which an attack is tried; nodes, if it is not listed."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_every_attack_finds_what_is_planted_and_nothing_in_silence(
    silent: dict[str, Silent], attack: Attack
) -> None:
    run = silent[WHERE.get(attack.name, "nodes")]
    leaking = Leaking(run, attack.control)
    for view in attack.views:
        planted, nothing = attack.find(leaking, view)[0], attack.find(run, view)[0]
        assert planted.leaks, planted
        assert nothing.value is not None
        assert not nothing.leaks, nothing


def test_with_too_few_samples_an_attack_has_no_power(tmp_path: Path) -> None:
    few = {**PLANTED, "nodes": 30, "links": 60}
    run = RunFolder.open(ramet.run("fedavg", "planted", rounds=1, out=tmp_path / "r", **few).folder)
    found = audit(run, Effort(references=2, canaries=2, small_sites=1))
    for attack in ("membership-tpr", "epsilon"):
        one = found.of(attack, "model")
        assert one is not None
        assert one.control is not None
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


def test_a_site_keeps_its_classes_if_one_of_them_is_relabelled_away(
    tiny_samples: Callable[[str, Method], Any],
) -> None:
    site = Candidates(tiny_samples("rings", fedavg()))
    everybody = torch.arange(site.labels.numel())
    changed = site.relabelled(everybody, torch.zeros_like(site.labels))
    assert changed.classes == site.classes > 1
    assert changed.shares().tolist() == [1.0, *[0.0] * (site.classes - 1)]


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
    chances = site.outputs(model, chosen).softmax(dim=1)[range(5), site.labels[chosen]].numpy()
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
