"""A coordinator that asks freshly joined sites more than a run needs learns nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from joined_consortium import JoinedConsortium, LyingCoordinator, joined_consortium
from ramet.deploy.site import POLICY
from ramet.engine.messages import request
from ramet.engine.secure_messages import Participants, SecureError
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.run_answers import AnsweredError
from ramet.flower.permission import NotAllowedError
from ramet.payload import Array, Arrays, Payload, digest
from ramet.policy import WITHHELD, PolicyError

FIVE = ("north", "south", "east", "west", "centre")
RUN, OTHER = "a" * 32, "b" * 32
DP = "unit=site,epsilon=1,delta=1e-5"


@pytest.fixture
def five(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JoinedConsortium:
    return joined_consortium(tmp_path, monkeypatch, FIVE, secure=True, options={"hidden": "2"})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., JoinedConsortium]:
    def joined(**settings: Any) -> JoinedConsortium:
        return joined_consortium(tmp_path, monkeypatch, ("north", "south"), **settings)

    return joined


def moved(arrays: Arrays, step: float) -> dict[str, Array]:
    return {name: (array + step).astype(array.dtype) for name, array in arrays.items()}


def allow_drop_outs(consortium: JoinedConsortium, members: int) -> None:
    """Change the policies of all sites, as their owners do in an editor."""
    for site in consortium.sites.values():
        policy = site.folder / POLICY
        policy.write_text(f"members = {members}\n{policy.read_text()}")


def test_by_default_no_sum_without_a_site(five: JoinedConsortium) -> None:
    """Otherwise two sums about nearly the same model differ by the update of the missing site."""
    assert {site.policy.secure for site in five.sites.values()} == {"required"}
    assert five.experiment.settings.quorum == len(FIVE)  # an honest server waits for all
    LyingCoordinator(five, RUN).sum(1, five.start)
    nearly = {name: np.where(array == 0, -0.0, array) for name, array in five.start.items()}
    start = {name: array.astype(five.start[name].dtype) for name, array in nearly.items()}
    with pytest.raises(SecureError, match=r"all sites in its list.*west is missing.*`members`"):
        LyingCoordinator(five, OTHER).sum(1, start, without=["west"])


def test_no_sum_of_fewer_survivors_than_the_policies_say(five: JoinedConsortium) -> None:
    allow_drop_outs(five, 4)
    coordinator = LyingCoordinator(five, RUN)
    coordinator.sum(1, {}, without=["west"])
    with pytest.raises(SecureError, match=r"refuses a sum of 3 survivors; it needs 4"):
        coordinator.sum(2, five.start, without=["east", "west"])


def test_no_sum_over_sites_that_the_coordinator_picks(five: JoinedConsortium) -> None:
    for members in (FIVE[:3], FIVE[:4]):
        with pytest.raises(SecureError, match=r"takes part in sums of all sites.*missing.*members"):
            LyingCoordinator(five, RUN).sum(1, {}, members=members)


def test_no_difference_of_two_sums_about_one_model(five: JoinedConsortium) -> None:
    """Whether sums are of one run or of two, and whether the start is sent or drawn."""
    allow_drop_outs(five, 3)
    first, again = LyingCoordinator(five, RUN), LyingCoordinator(five, OTHER)
    sums = first.sum(1, {})
    with pytest.raises(SecureError, match=r"already answered about this model .* another seed"):
        LyingCoordinator(five, "c" * 32).sum(1, five.start, without=["west"])
    repeated = again.sum(1, five.start)
    assert digest(repeated) == digest(sums)  # the same run once more tells nothing new
    model = moved(five.start, 0.5)
    first.sum(2, model, without=["west"])
    with pytest.raises(SecureError, match=r"already answered about this model"):
        first.sum(3, model)
    with pytest.raises(SecureError, match=r"already answered about this model"):
        again.sum(2, model, train=False)


def test_no_round_is_skipped_to_avoid_what_was_signed(five: JoinedConsortium) -> None:
    coordinator = LyingCoordinator(five, RUN)
    coordinator.sum(1, {})
    with pytest.raises(SecureError, match=r"do not confirm the same survivors of round 2"):
        coordinator.sum(3, five.start, train=False)
    renewed = LyingCoordinator(five, RUN, replace(coordinator.state, batch=None))
    with pytest.raises(SecureError, match=r"do not confirm the same survivors of round 2"):
        renewed.sum(3, five.start, train=False)


def test_no_round_is_skipped_by_naming_keys_that_nobody_has(five: JoinedConsortium) -> None:
    """Sites that would let one of them miss keys do not all have missed the same ones."""
    allow_drop_outs(five, 4)
    coordinator = LyingCoordinator(five, RUN)
    coordinator.sum(1, {}, without=["west"])
    unknown = Participants("f" * 32, sorted(FIVE), sorted(FIVE)).note()
    forged = replace(coordinator.state, batch=None, summed=unknown, confirmed={})
    with pytest.raises(SecureError, match=r"do not confirm the same survivors of round 2"):
        LyingCoordinator(five, RUN, forged).sum(3, five.start)


def test_drop_outs_and_a_site_that_returns(five: JoinedConsortium) -> None:
    allow_drop_outs(five, 3)
    coordinator = LyingCoordinator(five, RUN)
    coordinator.sum(1, {}, without=["west"])
    coordinator.sum(2, moved(five.start, 0.5), without=["east", "north"])
    closing = coordinator.sum(3, moved(five.start, 0.7), train=False)
    assert closing["counts"][-1] == len(FIVE)
    with pytest.raises(AnsweredError, match=r"has not trained since it evaluated"):
        coordinator.sum(4, moved(five.start, 0.9), train=False)


def scores_of(reply: Payload) -> set[str]:
    return {"val", "test"} & reply.numbers.keys()


@pytest.mark.parametrize("settings", [{}, {"dp": DP}])
def test_evaluation_is_no_oracle(
    settings: dict[str, str], site: Callable[..., JoinedConsortium]
) -> None:
    """One model per round, each evaluated once; no second one before the site has trained."""
    asked = site(**settings, options={"hidden": "2"})

    def evaluate(number: int, arrays: Arrays, train: bool = False) -> Payload:
        return asked.ask("north", request(number, train, arrays), RUN)

    first = evaluate(2, asked.start)
    assert evaluate(2, asked.start).numbers == first.numbers
    with pytest.raises(AnsweredError, match=r"already answered round 2, to another message"):
        evaluate(2, moved(asked.start, 0.5))
    with pytest.raises(AnsweredError, match=r"was sent another 'layers.*' in round 2 before"):
        evaluate(2, moved(asked.start, 0.5), train=True)
    evaluate(2, asked.start, train=True)
    with pytest.raises(AnsweredError, match=r"does not go back to round 1"):
        evaluate(1, asked.start)
    second, third = (evaluate(number, moved(asked.start, 0.5)) for number in (3, 4))
    assert scores_of(first) == scores_of(second) == (set() if settings else {"val", "test"})
    assert not scores_of(third)
    assert "scores" in third.notes[WITHHELD]


@pytest.mark.parametrize(("unit", "permitted"), [("site", set()), ("link", {"val", "test"})])
def test_no_scores_leave_a_private_run_that_the_budget_does_not_cover(
    unit: str, permitted: set[str], site: Callable[..., JoinedConsortium]
) -> None:
    """Links are covered in scores too; held-out data is not, whatever the policy says."""
    network = {"network": "hops"} if unit == "link" else {"options": {"hidden": "2"}}
    asked = site(dp=f"unit={unit},epsilon=1,delta=1e-5", **network)
    closing, folder = request(2, False, asked.start), asked.sites["north"].folder
    reply = asked.ask("north", closing, RUN)
    assert not scores_of(reply)
    assert "scores" in reply.notes[WITHHELD]
    for run, rule in (("b" * 32, "true"), ("c" * 32, "0.25")):
        (folder / POLICY).write_text(f"[numbers]\nscores = {rule}\n")
        assert scores_of(asked.ask("north", closing, run)) == permitted
    assert (folder / "state" / LEDGER).exists() == (unit == "link")


def test_a_stage_that_does_not_train_is_an_evaluation(
    site: Callable[..., JoinedConsortium],
) -> None:
    """Its note would otherwise make it another question, and one that no limit counts."""
    asked = site(options={"hidden": "2"})
    closing = request(2, False, asked.start)
    disguised = replace(closing, notes={"stage": "statistics"})
    (asked.sites["north"].folder / POLICY).write_text("evaluations = 2\n")
    assert scores_of(asked.ask("north", closing, RUN)) == {"val", "test"}
    with pytest.raises(AnsweredError, match=r"already answered round 2"):
        asked.ask("north", disguised, RUN)
    with pytest.raises(PolicyError, match=r"^`evaluations`: .* 3 evaluations .* allows 2"):
        asked.ask("north", replace(disguised, numbers={**closing.numbers, "round": 3}), RUN)


def test_one_model_per_round_also_if_messages_have_parts_of_it(
    site: Callable[..., JoinedConsortium],
) -> None:
    asked = site(options={"hidden": "2"})
    name, *others = sorted(asked.start)
    part, other = {name: asked.start[name]}, moved(asked.start, 0.5)
    assert scores_of(asked.ask("north", request(2, True, part), RUN)) == {"val", "test"}
    with pytest.raises(AnsweredError, match="was sent other arrays in round 2 before"):
        asked.ask("north", request(2, False, part | {n: other[n] for n in others}), RUN)
    assert scores_of(asked.ask("north", request(3, False, part), RUN)) == {"val", "test"}
    with pytest.raises(AnsweredError, match="was sent other arrays in round 3 before"):
        asked.ask("north", request(3, True, {}), RUN)


def test_no_limit_is_escaped_by_a_note_about_secure_sums(
    site: Callable[..., JoinedConsortium],
) -> None:
    """Each step of theirs is a kind of its own, and none is an evaluation."""
    asked = site(options={"hidden": "2"})
    (asked.sites["north"].folder / POLICY).write_text("rounds = 1\nevaluations = 1\n")
    for number in (2, 3):
        plain = request(number, False, asked.start)
        with pytest.raises(NotAllowedError, match="no secure sums, so no steps"):
            asked.ask("north", replace(plain, notes={"secure": f"step {number}"}), RUN)


def test_an_evaluation_fails_at_no_sample(site: Callable[..., JoinedConsortium]) -> None:
    """A model can have NaN for some samples only: an error would say whether a site has them."""
    asked = site(metric="average-precision", options={"hidden": "2"})
    nothing = {name: np.full_like(array, np.nan) for name, array in asked.start.items()}
    reply = asked.ask("north", request(2, False, nothing), RUN)
    assert np.isnan(reply.numbers["val"])


def test_a_simulation_shows_scores_with_privacy(tmp_path: Path) -> None:
    run = ramet.run("fedavg", "tiny", rounds=1, dp="unit=graph,epsilon=8,delta=1e-2", out=tmp_path)
    assert run.summary.scores.test > 0


@pytest.mark.parametrize("settings", [{}, {"dp": "unit=link,epsilon=1,delta=1e-5"}])
def test_no_digest_of_private_state_leaves_a_site(
    settings: dict[str, str], site: Callable[..., JoinedConsortium]
) -> None:
    """It would confirm a guess: equal data, equal digest."""
    network = {"network": "hops"} if settings else {}
    asked = site(**settings, **network)
    assert "private" not in asked.ask("north", request(2, False, asked.start), RUN).notes


def test_no_digest_of_private_state_leaves_in_a_secure_sum(five: JoinedConsortium) -> None:
    coordinator, notes = LyingCoordinator(five, RUN), set[str]()
    coordinator.sum(1, {})
    asked = five.ask

    def recorded(client: str, message: Payload, run: str) -> Payload:
        reply = asked(client, message, run)
        notes.update(reply.notes)
        return reply

    object.__setattr__(five, "ask", recorded)
    coordinator.sum(2, five.start, train=False)
    assert "private" not in notes
