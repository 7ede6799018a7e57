"""Noise inside a sum: sites add parts of it, and the total is what the accountant was given."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray
from scipy.stats import chi2

import ramet
from federations import Federation, climbing
from ramet.engine.site.gates import passed
from ramet.engine.site.inner_gates import Permission, Summed
from ramet.engine.site.ledger import Ledger, RunEntry
from ramet.engine.site.members import Members
from ramet.engine.site.noisy_sums import NoisedSum, check_summed, part_deviation
from ramet.engine.site.private_site import Noise, PrivateSite
from ramet.errors import RametError
from ramet.payload import Arrays, Payload
from ramet.policy import Ceiling, Policy, PolicyError, first_policy
from ramet.privacy.accounting import LEAST_DEVIATION, Mechanism, needed_noise, spent_epsilon
from ramet.privacy.budget import Budget, NoiseShare
from ramet.privacy.draws import Draws, SeededDraws, SystemDraws
from ramet.rules.fixed_point import PARAMETERS, FixedPoint
from ramet.rules.merging import WeightedMean
from ramet.secure.identity import simulated_peers
from ramet.secure.shares import holds, threshold
from ramet.training.local import LocalTraining

BUDGET = Budget("site", 4.0, 1e-3, clip=0.5)
DRAWS = 10_000
ROUNDS = 10
SITE = "unit=site,epsilon=8,delta=1e-3,clip=0.5"


@dataclass(frozen=True)
class Silent:
    """No noise, to see what it is added to."""

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.zeros(tuple(shape), dtype=torch.float64)

    def integers(self, shape: Sequence[int], deviation: float) -> NDArray[np.int64]:
        return np.zeros(tuple(shape), np.int64)

    def chosen(self, count: int, probability: float) -> torch.Tensor:
        return torch.ones(count, dtype=torch.bool)


def gate(folder: Path, share: NoiseShare, sites: int) -> NoisedSum:
    ledger = Ledger(folder / "l.json")
    private = PrivateSite(BUDGET, ROUNDS, "a" * 32, "", folder, ledger, share=share)
    summed = Summed(climbing(), FixedPoint(), sites, Permission(()), hidden=True)
    return NoisedSum(summed, private, share)


def as_integers(values: Arrays) -> NDArray[np.int64]:
    return np.concatenate([value.view(np.int64).ravel() for value in values.values()])


def exact(values: NDArray[np.int64]) -> int:
    """The sum of squares, without overflow."""
    return sum(int(value) ** 2 for value in values)


@pytest.mark.parametrize("seed", range(20))
def test_integers_are_not_longer_than_the_clipping_norm(seed: int, tmp_path: Path) -> None:
    """So two updates of a site differ by at most twice the norm, whatever rounding does."""
    draws = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"a": (300,), "b": (4, 5)}
    sent = {n: draws.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    size = 10.0 ** int(draws.integers(-3, 4))
    trained = {
        n: (sent[n] + size * draws.normal(size=shape)).astype(np.float32)
        for n, shape in shapes.items()
    }
    silent = Noise(Mechanism(1.0), Silent())
    integers = as_integers(gate(tmp_path, NoiseShare(5, 1), 5).change(trained, sent, 1.0, silent))
    assert exact(integers) <= (int(2**24 * BUDGET.clip)) ** 2


def test_a_change_by_hand(tmp_path: Path) -> None:
    """A change of 3 and -4 has norm 5 and is clipped to 0.5, so 0.3 and -0.4 times 2^24 remain.

    5,033,164.8 and -6,710,886.4 are rounded towards zero, less a margin of 2^-30 of each.
    """
    sent = {"a": np.array([2.0, 1.0], np.float32)}
    trained = {"a": np.array([5.0, -3.0], np.float32)}
    silent = Noise(Mechanism(1.0), Silent())
    change = gate(tmp_path, NoiseShare(3, 1), 3).change(trained, sent, 1.0, silent)
    assert as_integers(change).tolist() == [5_033_164, -6_710_886]


def test_a_term_is_what_was_sent_with_the_change_and_noise(tmp_path: Path) -> None:
    """Only the parameter is noisy: the weight is 1, and the count of weights too."""
    noisy, federation = gate(tmp_path, NoiseShare(3, 1), 3), Federation(climbing(), tmp_path)
    message = Payload({"slope": np.full(1, 2.0, np.float32)}, {"round": 1, "train": 1, "last": 0})
    request = replace(federation.client("a").request(message), sent=message.arrays)
    reply = Payload({"slope": np.full(1, 9.0, np.float32)}, {"weight": 7, "val": 0.5})
    leaving = passed((noisy,), request, lambda _: reply)
    terms = {name: array.view(np.int64) / 2**24 for name, array in leaving.arrays.items()}
    assert terms[PARAMETERS + "weight/slope"] == 1
    np.testing.assert_array_equal(terms["numbers"], [1, 0, 0.5, 0])
    drawn = SeededDraws(request.randomness.generator("simulated privacy"))
    entry = noisy.private.ledger.runs()["a" * 32]
    deviation = entry.noise * 0.5 * 2**24 / math.sqrt(2)
    integers = drawn.integers((1,), deviation)[0] + int(0.5 * (1 - 2.0**-30) * 2**24)
    assert terms[PARAMETERS + "slope"].tolist() == [2 + integers / 2**24]
    assert entry.rounds == (1,)
    assert entry.discrete
    assert entry.terms.endswith("sensitivity=2 survivors=3 colluders=1 discrete")


def test_an_update_that_is_not_finite_leaves_as_noise(tmp_path: Path) -> None:
    sent = {"a": np.zeros(2, np.float32)}
    bad = {"a": np.array([np.nan, 1.0], np.float32)}
    silent = Noise(Mechanism(1.0), Silent())
    change = gate(tmp_path, NoiseShare(3, 1), 3).change(bad, sent, 1.0, silent)
    assert as_integers(change).tolist() == [0, 0]


def tolerated(sites: int) -> Iterator[tuple[int, int, int]]:
    """Survivors that a run guarantees, colluders among them, and survivors that there are.

    All that secure sums tolerate for up to six sites, some of them above.
    """
    every = [
        (least, colluders, left)
        for least in range(threshold(sites), sites + 1)
        for colluders in range(least)
        if holds(sites, least, colluders)
        for left in range(least, sites + 1)
    ]
    draw = np.random.default_rng(sites)
    yield from (
        every if sites <= 6 else (every[n] for n in draw.choice(len(every), 12, replace=False))
    )


CASES = [(sites, *case) for sites in (3, 5, 10, 20) for case in tolerated(sites)]


@pytest.mark.thorough
@pytest.mark.parametrize(("sites", "least", "colluders", "left"), CASES)
def test_the_total_has_the_noise_that_the_accountant_was_given(
    sites: int, least: int, colluders: int, left: int, tmp_path: Path
) -> None:
    """The sum over the honest survivors: its variance is the ledger's times (left - c)/(least - c).

    The ledger's is 2 · clip · 2^24 times the multiplier that it was charged for, squared.
    """
    honest = left - colluders
    noisy = [gate(tmp_path / str(n), NoiseShare(least, colluders), sites) for n in range(honest)]
    zeros, total = {"a": np.zeros(DRAWS)}, np.zeros(DRAWS, np.uint64)
    for number, site in enumerate(noisy):
        charged = site.private.spend(1, LocalTraining(), None)
        draws = SeededDraws(torch.Generator().manual_seed(1000 * number + left))
        noise = Noise(charged, draws)
        total += site.change(zeros, zeros, site._deviation(noise), noise)["a"]
    mechanism = noisy[0].private.ledger.runs()["a" * 32].mechanism
    charged_variance = (2 * BUDGET.clip * 2**24 * mechanism.noise) ** 2
    expected = charged_variance * honest / (least - colluders)
    assert expected >= charged_variance
    statistic = float(np.square(total.view(np.int64).astype(np.float64)).sum() / expected)
    assert 1e-6 < chi2.cdf(statistic, DRAWS) < 1 - 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("parts", [2, 4, 9, 19])
def test_exact_draws_of_sites_sum_up_to_the_noise(parts: int) -> None:
    pytest.importorskip("opendp", reason="the extra `privacy` is not installed")
    deviation = 2.0**24 * 3 / math.sqrt(parts)
    total = np.sum([SystemDraws().integers((DRAWS,), deviation) for _ in range(parts)], axis=0)
    statistic = float(np.square(total / (2.0**24 * 3)).sum())
    assert 1e-6 < chi2.cdf(statistic, DRAWS) < 1 - 1e-6


def test_epsilon_equals_dp_accounting() -> None:
    """Noise in integers as zCDP with ρ = 1/(2 · noise²), together with other private runs."""
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 60)
    whole = SelfComposedDpEvent(ZCDpEvent(1 / (2 * 8.0**2)), 5)
    theirs = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(sampled).compose(whole)
    ours = spent_epsilon([(Mechanism(2.0, 0.1, 6), 10), (Mechanism(8.0, discrete=True), 5)], 1e-5)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)


def test_noise_in_integers_keeps_to_the_budget() -> None:
    noise = needed_noise(4.0, 1e-3, 1.0, ROUNDS, discrete=True)
    assert 3.98 < spent_epsilon([(Mechanism(noise, 1.0, 1, True), ROUNDS)], 1e-3) <= 4.0


@pytest.mark.parametrize("parts", [1, 2, 19, 99])
def test_parts_count_as_one_gaussian(parts: int) -> None:
    """Proposition 14 of Kairouz, Liu and Steinke, about Rényi divergences.

    That of order α is at most αΔ²/2nσ² + τd for d parameters, with τ = 10 Σ exp(-2π²σ² k/(k + 1))
    over k from 1 to n - 1. With the least deviation of a part, and a thousand million parameters,
    τd changes no float64.
    """
    sigma, size, norm = LEAST_DEVIATION, 10**9, 30.0
    tau = 10 * math.fsum(
        math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in range(1, parts)
    )
    rho = norm**2 / (2 * parts * sigma**2)
    assert rho + tau * size == rho


def test_the_ledger_adds_up_both_kinds_of_noise(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.json")
    old = RunEntry(unit="site", terms="a", data="d", noise=40.0, sampling=1.0, steps=1)
    ledger.spend("one", old, 1, None)
    ledger.spend("two", old.model_copy(update={"discrete": True}), 1, None)
    both = spent_epsilon([(Mechanism(20.0), 1), (Mechanism(20.0, discrete=True), 1)], 1e-5)
    assert ledger.spent("site", 1e-5) == pytest.approx(both, abs=1e-6)
    assert both > spent_epsilon([(Mechanism(20.0), 2)], 1e-5)


@pytest.mark.parametrize("draws", [SystemDraws(), SeededDraws(torch.Generator().manual_seed(1))])
def test_integers_have_the_distribution_of_a_discrete_gaussian(draws: Draws) -> None:
    """With standard deviation 2, probabilities are proportional to exp(-k²/8).

    Rounded normal numbers of the simulation are no discrete Gaussian, but close to one.
    """
    if isinstance(draws, SystemDraws):
        pytest.importorskip("opendp", reason="the extra `privacy` is not installed")
    drawn = draws.integers((100, 200), 2.0)
    assert drawn.shape == (100, 200)
    assert drawn.dtype == np.int64
    total = sum(math.exp(-(k**2) / 8) for k in range(-40, 41))
    tolerance = 6 * math.sqrt(0.25 / drawn.size) if isinstance(draws, SystemDraws) else 0.02
    for value in range(-5, 6):
        expected = math.exp(-(value**2) / 8) / total
        assert abs(float((drawn == value).mean()) - expected) < tolerance


def test_the_system_never_draws_the_same_integers_twice() -> None:
    """Nor do processes that are forked after the first draw."""
    pytest.importorskip("opendp", reason="the extra `privacy` is not installed")
    draws, seen = SystemDraws(), set[bytes]()
    draws.integers((1,), 1e7)
    for _ in range(3):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, draws.integers((4,), 1e7).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        seen |= {os.read(reading, 32), draws.integers((4,), 1e7).tobytes()}
    assert len(seen) == 6
    assert draws.integers((0, 4), 3.0).shape == (0, 4)
    assert draws.integers((), 3.0).shape == ()


def test_opendp_states_the_same_privacy() -> None:
    """Its measurement with deviation s is ρ-zCDP with ρ = d²/2s², as the ledger is charged."""
    pytest.importorskip("opendp", reason="the extra `privacy` is not installed")
    from ramet.privacy.draws import discrete_gaussian

    assert discrete_gaussian(50.0).map(10.0) == pytest.approx(10.0**2 / (2 * 50.0**2))


def test_masked_and_plain_sums_with_the_same_noise_are_equal(tmp_path: Path) -> None:
    """With two of three sites colluding, each adds all of the noise, as it does without masks."""
    masked = ramet.run(
        "fedavg", rounds=2, dp=SITE + ",colluders=2", secure=True, out=tmp_path / "m"
    )
    plain = ramet.run("fedavg", rounds=2, dp=SITE, merge="fixed-point", out=tmp_path / "p")
    shared = ramet.run("fedavg", rounds=2, dp=SITE, secure=True, out=tmp_path / "s")
    assert masked.summary.sha256 == plain.summary.sha256 != shared.summary.sha256


def test_workers_compute_the_same(tmp_path: Path) -> None:
    here = ramet.run("fedavg", rounds=2, dp=SITE, secure=True, out=tmp_path / "here")
    there = ramet.run("fedavg", rounds=2, dp=SITE, secure=True, workers=2, out=tmp_path / "there")
    assert here.summary.sha256 == there.summary.sha256
    assert here.summary.privacy is not None
    assert here.summary.privacy.sentence == (
        "ε = 8, δ = 0.001 for each site's update in sums of 3 or more sites, 1 colluding "
        "(simulated: no guarantee)"
    )


@pytest.mark.parametrize(
    ("options", "given", "reason"),
    [
        ("survivors=4", {"secure": True}, "more than the 3 clients"),
        ("survivors=2", {"secure": True}, "could unmask single updates"),
        ("colluders=3", {"secure": True}, "could unmask single updates"),
        ("colluders=1", {}, "need unit=site and --secure"),
        ("clip=1e-6", {"merge": "fixed-point,ring=32"}, "too coarse"),
        ("clip=1e6", {"merge": "fixed-point,ring=32"}, "has no room"),
    ],
)
def test_terms_that_do_not_fit_are_refused(
    options: str, given: dict[str, object], reason: str, tmp_path: Path
) -> None:
    dp = f"unit=site,epsilon=8,delta=1e-3,{options}"
    with pytest.raises(RametError, match=reason):
        ramet.run("fedavg", rounds=1, dp=dp, out=tmp_path / "r", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "r").exists()


class Doubled(WeightedMean):
    def term(self, reply: Payload) -> Arrays:
        return {name: 2 * array for name, array in super().term(reply).items()}


def test_a_rule_with_terms_of_its_own_is_refused() -> None:
    with pytest.raises(RametError, match="the terms of Doubled are its own"):
        check_summed(climbing(merging=Doubled()))
    check_summed(climbing())


@pytest.mark.parametrize(("sites", "needed"), [(3, 3), (5, 5), (10, 9)])
def test_a_site_takes_part_in_no_sum_with_less_noise(sites: int, needed: int) -> None:
    """Whatever its own list or policy would allow: 6 of 10 sites are enough for secure sums."""
    names = [f"site{number}" for number in range(sites)]
    members = Members(names[0], simulated_peers(0, tuple(names)), survivors=needed)
    members.check(names[:needed], "survivors")
    with pytest.raises(RametError, match=f"it needs {needed}"):
        members.check(names[: needed - 1], "survivors")
    assert members.needed == (needed if needed < sites else threshold(sites))
    members.check_colluders(1)
    with pytest.raises(RametError, match="could unmask single updates"):
        members.check_colluders(needed + threshold(sites) - sites)


def test_with_fewer_survivors_each_part_is_larger() -> None:
    """Of 5 sites with 1 colluding, 4 parts are all of the noise; of 4 sites, 3."""
    five = part_deviation(4.0, 0.5, FixedPoint(), BUDGET.share(5), 5)
    four = part_deviation(4.0, 0.5, FixedPoint(), replace(BUDGET, survivors=4).share(5), 5)
    assert five == 2.0**24
    assert four == pytest.approx(2.0**25 / math.sqrt(3))


def test_a_policy_sets_how_many_colluders_are_assumed() -> None:
    one, none = Budget("site", 4.0, 1e-5), Budget("site", 4.0, 1e-5, colluders=0)
    policy = Policy(privacy=Ceiling.of(one))
    policy.check("fedavg", None, 3, True, one)
    policy.check("fedavg", None, 3, False, none)
    with pytest.raises(PolicyError, match="assumes 0 colluding sites, but the policy asks for 1"):
        policy.check("fedavg", None, 3, True, none)
    assert "colluders = 2" in first_policy(str(replace(one, colluders=2)), secure=True)
    assert "colluders" not in first_policy(str(one), secure=True)


def test_survivors_and_colluders_are_read_and_written() -> None:
    budget = Budget.parse("unit=site,epsilon=4,delta=1e-5,survivors=4,colluders=2")
    assert budget.share(5) == NoiseShare(4, 2)
    assert budget.share(5).parts == 2
    assert Budget.parse(str(budget)) == budget
    assert Budget.parse("unit=site,epsilon=4,delta=1e-5").share(5) == NoiseShare(5, 1)


def test_all_pairs_of_survivors_of_small_sums_are_covered() -> None:
    """The cases above have every number of survivors that three and five sites tolerate."""
    assert {case[1:] for case in CASES if case[0] == 3} == {(3, 0, 3), (3, 1, 3), (3, 2, 3)}
    left = {(least, c, n) for s, least, c, n in CASES if s == 5}
    pairs = {(one, other) for one, other in combinations(range(3, 6), 2)}
    assert {(least, n) for least, _, n in left} == pairs | {(3, 3), (4, 4), (5, 5)}
    assert max(c for least, c, _ in left if least == 4) == 1
