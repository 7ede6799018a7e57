"""Whether a run's validation scores show that it has converged."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest

import ramet
from command_line import ramet as command
from ramet.experiment import RunFolder
from ramet.metrics import Round
from ramet.studies.convergence import (
    NOT_YET_RISEN,
    STILL_RISING,
    TOO_SHORT,
    not_converged,
    still_rising,
)
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.sites import site_standings
from slow_learners import three_slow_sites

LOSS = (lambda number: 0.7 - number / 1000, lambda number: exp(-number / 5))
"""Still falling after 40 rounds, and at its end by then."""


def learning(rounds: int, slowness: float) -> list[float]:
    """Scores that rise from 0.5 to 0.9."""
    return [0.9 - 0.4 * exp(-number / slowness) for number in range(rounds)]


def noisy(scores: list[float], seed: int) -> list[float]:
    """As of some 100 validation samples."""
    noise = np.random.default_rng(seed).normal(0, 0.02, len(scores))
    return [score + float(one) for score, one in zip(scores, noise, strict=True)]


def test_a_learner_is_rising_until_it_has_learned() -> None:
    assert still_rising(learning(20, slowness=30))
    assert still_rising(learning(50, slowness=30))
    assert not still_rising(learning(300, slowness=30))
    assert not still_rising([0.5, 0.6, 0.7, *([0.8] * 17)])
    assert not still_rising([*learning(50, slowness=10), *reversed(learning(50, slowness=10))])


def test_noise_hides_neither_learning_nor_its_end() -> None:
    rising = [still_rising(noisy(learning(20, slowness=30), seed)) for seed in range(200)]
    flat = [still_rising(noisy([0.8] * 50, seed)) for seed in range(200)]
    assert np.mean(rising) > 0.5
    assert np.mean(flat) < 0.05


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    done = ramet.run("local", rounds=1, out=tmp_path_factory.mktemp("run") / "r")
    found = FinishedRun.of(RunFolder(done.folder))
    assert found
    return found


def with_scores(run: FinishedRun, scores: list[float], patience: int | None = None) -> FinishedRun:
    rounds = [Round(number, val, 0.5) for number, val in enumerate(scores, 1)]
    summary = run.summary.model_copy(update={"stopped_early": patience is not None})
    command = f"{run.command} --patience {patience}" if patience else run.command
    return replace(run, rounds=rounds, summary=summary, command=command)


def test_why_runs_have_not_converged(run: FinishedRun) -> None:
    rising, risen = learning(20, slowness=30), learning(300, slowness=30)
    done = with_scores(run, risen)
    assert not_converged([done, with_scores(run, rising)]) == STILL_RISING
    assert not_converged([done, with_scores(run, rising[:9])]) == TOO_SHORT
    flat = with_scores(run, [0.6] * 40, patience=30)
    falling, fallen = (
        [replace(one, loss=loss(one.number)) for one in flat.rounds] for loss in LOSS
    )
    assert not_converged([done, replace(flat, rounds=falling)]) == NOT_YET_RISEN
    assert not_converged([done, replace(flat, rounds=fallen)]) is None  # nothing to learn here
    assert not_converged([done]) is None


def test_only_enough_patience_shows_that_a_run_has_converged(run: FinishedRun) -> None:
    rising = learning(20, slowness=30)
    assert not_converged([with_scores(run, rising, patience=10)]) is None
    assert not_converged([with_scores(run, rising, patience=2)]) == STILL_RISING


def compared(
    folder: Path, sites: list[Path], rounds: int, patience: int | None = None
) -> FinishedRuns:
    runs: dict[str, dict[Draw, FinishedRun]] = {"local": {}, "fedavg": {}}
    for method, found in runs.items():
        for seed in (1, 2, 3):
            done = ramet.run(
                method,
                "own",
                sites=" ".join(map(str, sites)),
                rounds=rounds,
                patience=patience,
                seed=seed,
                workers=1,
                out=folder / f"{method}-{seed}",
                lr=0.002,
            )
            one = FinishedRun.of(RunFolder(done.folder))
            assert one
            found[one.draw] = one
    return runs


@pytest.mark.thorough
def test_slow_learners_are_compared_when_they_have_converged(tmp_path: Path) -> None:
    sites = three_slow_sites(tmp_path)
    (early,) = site_standings(compared(tmp_path / "early", sites, rounds=20))
    assert early.not_final == STILL_RISING
    assert {site.verdict for site in early.sites} == {"not final"}
    (late,) = site_standings(compared(tmp_path / "late", sites, rounds=300, patience=30))
    assert late.not_final is None
    assert [site.verdict for site in late.sites] == ["helps", "undecided", "undecided"]
    assert all(site.gain.mean > 0.1 for site in late.sites)  # true, but three runs are few


@pytest.mark.thorough
def test_own_sites_are_compared_at_convergence_by_default(tmp_path: Path) -> None:
    options = [word for site in three_slow_sites(tmp_path) for word in ("--site", str(site))]
    words = ("compare", "fedavg", *options, "--seeds", "1", "--jobs", "2", "--set", "lr=0.05")
    done = command(*words, "--out", tmp_path / "s", "--json")
    assert done.code == 0, done.stderr
    local, fedavg = json.loads(done.stdout)
    for row in (local, fedavg):
        assert 31 <= row["rounds"] < 500
        assert row["epochs"] == row["rounds"]
        assert row["not_final"] is None
    settings = RunFolder(tmp_path / "s" / "fedavg-seed1").experiment().settings
    assert (settings.patience, settings.rounds) == (30, 500)
    given = command(*words, "--rounds", "2", "--out", tmp_path / "t")
    assert given.code == 0, given.stderr
    assert "not final for local, fedavg: fewer than 10 rounds" in given.stdout
    assert "fedavg not final for alpha:" in given.stdout
