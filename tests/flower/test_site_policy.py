"""The policy of a site that has joined a consortium, above its settings and the run config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from flwr.app import MessageType

from command_line import ramet
from joined_sites import RUN, Joined, joined_site
from ramet.engine.messages import request
from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.ledger import Ledger
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.policy import PolicyError


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    return joined_site(tmp_path, monkeypatch)


def set_policy(joined: Joined, **rules: Any) -> None:
    (joined.site.folder / "policy.toml").write_text(tomli_w.dumps(rules))


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ({"methods": ["fedprox"]}, "methods"),
        ({"secure": "required"}, "secure"),
        ({"members": 3}, "members"),
        ({"numbers": {"weight": False}}, "numbers.weight"),
        ({"samples": 10_000}, "samples"),
        ({"bytes": 100}, "bytes"),
        ({"share": ["layers.0.*"]}, "share"),
    ],
)
def test_a_run_that_the_policy_forbids_sends_nothing(
    joined: Joined, rules: dict[str, Any], key: str
) -> None:
    set_policy(joined, **rules)
    with pytest.raises(RametError, match=f"^`{key}`: "):
        joined.send(joined.config())
    refused, failed = read_lines(joined.site.events)
    assert (refused["event"], failed["event"]) == ("run refused", "message failed")
    assert not [*(joined.site.folder / "state").rglob("audit.jsonl")]
    set_policy(joined)
    assert joined.send(joined.config()).arrays


def test_a_run_may_share_what_the_policy_leaves(joined: Joined) -> None:
    set_policy(joined, share=["layers.0.*"])
    reply = joined.send(joined.config(share="layers.0.bias"))
    assert [*reply.arrays] == ["layers.0.bias"]
    joined.allow(share=["*"])
    with pytest.raises(RametError, match=r"`share`: .* layers.0.\* .* in its policy.toml"):
        joined.send(joined.config())


def test_numbers_leave_as_the_policy_says(joined: Joined) -> None:
    set_policy(joined, numbers={"weight": 25, "loss": False, "work": False})
    reply = joined.send(joined.config())
    assert reply.numbers.keys() == {"weight", "up"}
    assert reply.numbers["weight"] % 25 == 0
    assert reply.notes["withheld"] == "loss work"
    (entry,) = audit_entries(joined.site.folder / "state")[0]
    assert {*entry.numbers} == {"weight", "up"}


def test_removing_the_policy_closes_the_site(joined: Joined) -> None:
    (joined.site.folder / "policy.toml").unlink()
    for kind in (MessageType.QUERY, MessageType.TRAIN):
        with pytest.raises(PolicyError, match=r"policy cannot be read, so it takes part in no run"):
            joined.send(joined.config(), kind)


def test_other_names_of_runs_do_not_give_more_bytes(joined: Joined) -> None:
    set_policy(joined, bytes=3000)
    sent, refused = 0, 0
    for name in range(6):
        try:
            sent += joined.send(joined.config(), notes={"run": f"{name:032x}"}).nbytes
        except PolicyError as error:
            assert str(error).startswith("`bytes`: ")  # noqa: PT017
            refused += 1
    assert 0 < sent <= 3000
    assert refused > 0


def test_a_site_that_has_just_joined_does_not_answer_any_number_of_runs(joined: Joined) -> None:
    joined.send(joined.config(), notes={"run": RUN})
    record, limit = joined.site.folder / "state" / "answered.json", joined.site.policy.runs
    assert limit == 20
    for name in range(1, limit):
        Answered(record, f"{name:032x}").begin(request(1, True, {}), joined.site.policy)
    with pytest.raises(PolicyError, match=r"^`runs`: .* 21 runs .* allows 20.* policy.toml"):
        joined.send(joined.config(), notes={"run": "f" * 32})
    joined.send(joined.config(), notes={"run": RUN}, round=2, last=1)  # a run goes on


def test_other_names_of_runs_do_not_spend_more_than_the_budget_of_the_invitation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, dp="unit=site,epsilon=1,delta=1e-5")
    ledger = Ledger(joined.site.folder / "state" / "privacy.json")
    for number in (1, 2, 3):
        joined.send(joined.config(), notes={"run": RUN}, round=number, last=number - 1)
    assert 0.9 < ledger.spent("site", 1e-5) <= 1
    for name in range(1, 4):
        with pytest.raises(PolicyError, match=r"^`privacy`: .* over all its runs, .* allows 1\. "):
            joined.send(joined.config(), notes={"run": f"{name:032x}"})
    assert ledger.spent("site", 1e-5) <= 1


def test_joining_again_keeps_the_policy(joined: Joined, tmp_path: Path) -> None:
    from ramet.deploy.site import join

    set_policy(joined, members=2)
    said: list[str] = []
    invitation = joined.coordinator.folder / "invitations" / "north.toml"
    join(invitation, joined.site.settings.data, tmp_path / "site", 9094, said.append)
    assert joined.site.policy.members == 2
    assert "sites in a run: at least 2" in said


def test_policy_check_says_what_would_be_refused(joined: Joined) -> None:
    folder, consortium = joined.site.folder, joined.coordinator.folder / "consortium.toml"
    invitation = joined.coordinator.folder / "invitations" / "north.toml"
    for run in (consortium, invitation):
        done = ramet("policy", "check", str(run), str(folder))
        assert done.code == 0, done.stderr
        assert "REFUSED" not in done.stdout
    set_policy(
        joined, methods=["fedstar"], members=3, samples=10_000, bytes=1000, share=["layers.0.*"]
    )
    done = ramet("policy", "check", str(consortium), str(folder))
    assert done.code == 1
    refused = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("REFUSED")]
    assert refused == ["methods:", "members:", "share:", "samples:", "bytes:"]
    set_policy(joined, runs=1, rounds=5)
    assert ramet("policy", "check", str(consortium), str(folder)).code == 0
    joined.send(joined.config())
    done = ramet("policy", "check", str(consortium), str(folder))
    refused = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("REFUSED")]
    assert refused == ["runs:"]
    assert "rounds: 1 so far, 3 more in a new run; the policy allows 5" in done.stdout
    set_policy(joined, members=3)
    shown = ramet("policy", "show", str(folder))
    assert "sites in a run: at least 3" in shown.stdout
