"""`ramet try`: every built-in method passes, and every broken one fails in the expected check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ramet
from ramet.errors import RametError
from ramet.methods import METHODS
from ramet.studies.trial.candidate import Candidate
from ramet.studies.trial.checks import Outcome, try_method
from ramet.tasks import TASKS

TESTS = Path(__file__).parents[1]
QUICK = ("reference", "cold", "resumed", "reversed", "missing", "declared")
STATE = r"The method keeps state outside of what is saved"
CHANCE = r"Two ordinary runs differ as well.*session\.randomness"
ORDER = r"depends on the order of replies\. Sort them by client, or add them up with `OrderlessSum`"


SLOW = (pytest.mark.e2e, pytest.mark.thorough)
IN_CI = ("fedavg", "fedstar")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else SLOW) for name in sorted(METHODS)]
)
def test_built_in_methods_keep_all_promises(name: str, tmp_path: Path) -> None:
    candidate = Candidate(name, tmp_path, options={"hidden": "8"}, rounds=2)
    report = try_method(candidate, ["local"], QUICK)
    assert report.checks("ok") == [*QUICK], report.outcomes


GENERAL = ("fedavg", "scaffold", "ditto", "gcfl+", "fedda", f"{TESTS}/own_methods.py:decaying")
OFTEN = (("scaffold", "node-regression"), ("fedavg", "edge-classification"))


@pytest.mark.parametrize(
    ("method", "task"),
    [
        pytest.param(method, task, marks=() if (method, task) in OFTEN else SLOW)
        for method in GENERAL
        for task in TASKS
    ],
)
def test_general_methods_keep_all_promises_on_every_task(
    method: str, task: str, tmp_path: Path
) -> None:
    candidate = Candidate(method, tmp_path, task=task, options={"hidden": "4"}, rounds=2)
    report = try_method(candidate, ["local"], QUICK)
    assert report.checks("ok") == [*QUICK], report.outcomes
    assert report.options.get("predicts", task) == task


def test_a_method_is_tried_on_each_task_that_suits(tmp_path: Path) -> None:
    every = Candidate("gcfl+", tmp_path).on_every_task()
    assert {one.task for one in every} == {*TASKS}
    prototypes = Candidate("fedproto", tmp_path)
    suited = {one.task for one in prototypes.on_every_task()}
    assert suited == {"node-classification", "edge-classification"}
    assert prototypes.unsuited.keys() == {*TASKS} - suited
    for task in ("node-regression", "graph-multilabel"):
        assert "computes with classes, and the task has none" in prototypes.unsuited[task]
    star = Candidate("fedstar", tmp_path)
    assert star.on_every_task() == [star]
    assert star.unsuited["edge-classification"] == "fedstar is for graph-classification."


def test_a_task_that_cannot_be_tried_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"fedstar is for graph-classification. Omit --task"):
        Candidate("fedstar", tmp_path, task="edge-classification").arguments()
    with pytest.raises(RametError, match="chooses a setting for each task"):
        Candidate("fedavg", tmp_path, setting="tiny").on_every_task()
    with pytest.raises(RametError, match="computes with classes"):
        try_method(Candidate("fedproto", tmp_path, task="node-regression"))


@pytest.mark.thorough
def test_a_decaying_learning_rate_keeps_all_promises(tmp_path: Path) -> None:
    report = try_method(Candidate(f"{TESTS}/own_methods.py:decaying", tmp_path), ["local"], QUICK)
    assert report.method == "own_methods.py:decaying"
    assert report.checks("ok") == [*QUICK], report.outcomes


@pytest.mark.thorough
def test_the_details_are_those_of_ordinary_runs(tmp_path: Path) -> None:
    half = "random-tensors,fraction=0.5"
    candidate = Candidate("fedstar", tmp_path, rounds=2, activation=half)
    report = try_method(candidate, ["local"], ("reference", "missing", "ray", "declared"))
    reference, missing, ray, declared = report.outcomes
    summary = ramet.run("fedstar", rounds=2, out=tmp_path / "run", activation=half).summary
    assert reference.detail == f"SHA-256 {summary.sha256[:12]}…"
    assert "without rings in round 1 and blocks in round 2" in missing.detail
    assert ray == Outcome("ray", "skipped", "the engine ray was not requested")
    assert summary.sent
    assert summary.sent.tensors.up == 24  # half of 8 arrays, from 3 clients, in 2 rounds
    assert declared.detail == (
        "shares structure.*; of 28 arrays 8 are shared and 20 private; clients did "
        f"not have to send 24 of 48; {summary.traffic.up_per_client_round:,.0f} bytes up and "
        f"{summary.traffic.down_per_client_round:,.0f} down per client and round"
    )


def test_a_fixed_number_of_clients_is_no_failure(tmp_path: Path) -> None:
    candidate = Candidate("fedavg", tmp_path, setting="single")
    (outcome,) = try_method(candidate, ["local"], ["many clients"]).outcomes
    assert outcome == Outcome("many clients", "skipped", "single has a fixed number of clients")


def test_a_single_client_cannot_be_left_out(tmp_path: Path) -> None:
    candidate = Candidate("fedavg", tmp_path, options={"clients": "1", "hidden": "4"}, rounds=2)
    (outcome,) = try_method(candidate, ["local"], ["missing"]).outcomes
    assert outcome.verdict == "skipped"
    assert outcome.detail == "no round asks two clients, so none can be left out"


@pytest.mark.parametrize(
    ("method", "network", "setting"),
    [
        ("fedavg", None, "tiny"),
        ("fedlit", None, "planted"),
        ("fed-gcn", None, "planted"),
        ("fedavg", "simple-hgn", "planted-hetero"),
    ],
)
def test_the_default_setting_is_for_the_task(
    method: str, network: str | None, setting: str, tmp_path: Path
) -> None:
    given = Candidate(method, tmp_path, network=network, options={"lr": "0.02"}).arguments()
    assert given["setting"] == setting
    assert given["options"]["lr"] == "0.02"


NODES_ONLY = """
from dataclasses import replace
from torch import nn
from ramet.methods import fedavg
from ramet.rules.sharing import SameSize
from ramet.models.plain_node import NodeGCN

class Halved(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.narrow = nn.Linear(shape.features, 8 // (shape.features // 2))

def for_nodes():
    return replace(fedavg(), name="for_nodes", model=lambda shape: NodeGCN(shape))

def for_two_features():
    return replace(fedavg(), name="for_two_features", model=Halved)
"""


def test_a_network_for_one_task_is_tried_on_that_task(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NODES_ONLY)
    report = try_method(
        Candidate(f"{tmp_path}/mine.py:for_nodes", tmp_path, rounds=2), ["local"], ["reference"]
    )
    assert (report.setting, report.checks("ok")) == ("planted", ["reference"])
    assert report.unsuited.keys() == {"graph-classification", "link-prediction"}
    assert re.search(
        r"cannot be built for LinkShape.*: AttributeError: .*\(.*\.py, line \d+\)",
        report.unsuited["link-prediction"],
    )


def test_a_network_that_cannot_be_built_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NODES_ONLY)
    detail = (
        r"suits no task.*network Halved cannot be built for NodeShape\(features=1, classes=2, .*"
        r"ZeroDivisionError: .* \(mine\.py, line 11\)"
    )
    with pytest.raises(RametError, match=detail):
        try_method(Candidate(f"{tmp_path}/mine.py:for_two_features", tmp_path))
    with pytest.raises(RametError, match=r"Halved cannot be built for GraphShape.*line 11"):
        ramet.run("fedavg", "tiny", network=f"{tmp_path}/mine.py:Halved", out=tmp_path / "run")


def broken(name: str, data: Path) -> Candidate:
    return Candidate(f"{TESTS}/broken_methods.py:{name}", data, rounds=2)


@pytest.mark.parametrize(
    ("name", "check", "detail"),
    [
        ("counted_calls", "cold", rf"^The first difference is .* of trees in round 1\. {STATE}"),
        ("counted_calls", "missing", rf"^The first difference is .* in round 1\. {STATE}"),
        ("marked_optimiser", "cold", rf"^All replies .* private 'optimiser/mark/.*' .*{STATE}"),
        ("changed_data", "cold", r"^The first difference is the tensor 'layers"),
        ("random_rate", "cold", rf"^The first difference is .* of rings in round 1\. {CHANCE}"),
        ("random_rate", "resumed", rf" in round 1\. {CHANCE}"),
        ("last_reply_wins", "reversed", rf" of rings in round 2\. .*{ORDER}"),
        ("running_mean", "reversed", rf" of rings in round 2\. .*{ORDER}"),
        (
            "counted_merges",
            "resumed",
            rf"^All replies .* server's 'merging/merges' differs .*{STATE}",
        ),
        ("own_arrays", "missing", r"send failed for client rings.*A client without a reply stops"),
        ("all_expected", "missing", r"^KeyError: 'rings' \(broken_methods.py, line \d+\)\. A clie"),
    ],
)
def test_a_broken_promise_fails_its_check_and_names_the_cause(
    name: str, check: str, detail: str, tmp_path: Path
) -> None:
    reference, checked = try_method(
        broken(name, tmp_path), ["local"], ["reference", check]
    ).outcomes
    assert reference.verdict == "ok"
    assert checked.verdict == "failed"
    assert re.search(detail, checked.detail), checked.detail


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("scheduled_rate", r"changed the attribute 'schedule' of the optimiser"),
        ("counting_network", r"changed the attribute 'calls' of the model"),
        ("extra_state", r"'_extra_state' is a dict.*register_buffer"),
        ("unmatched_pattern", r"pattern 'middel\.\*' matches no parameter"),
        ("pair_of_losses", r"_Pair\.fit returned a tuple instead of the mean loss"),
        ("first_reply_only", r"_FirstOnly\.merge returned before it had read all replies"),
    ],
)
def test_an_error_fails_the_reference_and_whatever_can_still_run(
    name: str, detail: str, tmp_path: Path
) -> None:
    report = try_method(broken(name, tmp_path), ["local"], ["reference", "cold", "missing"])
    reference, cold, missing = report.outcomes
    assert reference.verdict == missing.verdict == "failed"
    assert re.search(detail, reference.detail), reference.detail
    assert missing.detail == reference.detail
    assert cold == Outcome("cold", "skipped", "there is no reference run to compare with")


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"method": "fedavgg"}, r"unknown method 'fedavgg'"),
        ({"setting": "tinny"}, r"unknown setting 'tinny'"),
        ({"options": {"rate": "1"}}, r"unknown option 'rate'"),
        ({"activation": "nobody"}, r"unknown activation 'nobody'"),
        ({"merge": "sum"}, r"unknown merge 'sum'"),
        ({"network": "gim"}, r"unknown network 'gim'"),
        (
            {"method": f"{TESTS}/broken_methods.py:failing_factory"},
            r"^cannot build the run: NameError: .*'missing_name'.* \(broken_methods.py, line \d+\)",
        ),
    ],
)
def test_wrong_names_are_errors_before_any_run(
    given: dict[str, str], detail: str, tmp_path: Path
) -> None:
    candidate = Candidate(**{"method": "fedavg", "data": tmp_path, **given})  # type: ignore[arg-type]
    with pytest.raises(RametError, match=detail):
        try_method(candidate)


@pytest.mark.e2e
@pytest.mark.thorough
@pytest.mark.parametrize("name", [f"{TESTS}/own_methods.py:decaying", "fedstar"])
def test_real_engines_agree(name: str, tmp_path: Path) -> None:
    checks = ("reference", "ray", "superlink")
    report = try_method(Candidate(name, tmp_path), checks=checks)
    assert report.checks("ok") == [*checks], report.outcomes


@pytest.mark.e2e
@pytest.mark.thorough
def test_a_hash_of_a_text_differs_between_processes(tmp_path: Path) -> None:
    """Python draws a seed for it in every process: two of them agree once in 2^20 times."""
    checks = ("reference", "cold", "ray", "superlink")
    outcomes = try_method(broken("hashed_rate", tmp_path), checks=checks).outcomes
    assert [outcome.verdict for outcome in outcomes] == ["ok", "ok", "failed", "failed"]
    for outcome in outcomes[2:]:
        assert re.match(r"The first difference is the tensor '.*' of rings in r", outcome.detail)
        assert "The result depends on the process: the time, hash seeds" in outcome.detail
