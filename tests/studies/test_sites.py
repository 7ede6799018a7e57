from __future__ import annotations

from dataclasses import replace

import pytest

import ramet
from ramet.experiment import RunFolder
from ramet.metrics.summary import Baseline, Round
from ramet.report.site_tables import about, sentence, site_cells, sites_table
from ramet.studies.convergence import STILL_RISING
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.sites import Basis, site_standings
from table_cells import rows

SITES = ("rings", "trees", "blocks")


@pytest.fixture(scope="module")
def one_pair(tmp_path_factory: pytest.TempPathFactory) -> FinishedRuns:
    folder = tmp_path_factory.mktemp("pair")
    runs = {}
    for method in ("local", "fedavg"):
        done = ramet.run(method, rounds=2, out=folder / method)
        run = FinishedRun.of(RunFolder(done.folder))
        assert run
        runs[method] = {run.draw: run}
    return runs


def scored(run: FinishedRun, *scores: float | None) -> FinishedRun:
    """The run with other test scores, and 20 training and 5 test samples per site."""
    summary = run.summary
    changed = {
        "stopped_early": True,
        "scores": summary.scores.model_copy(
            update={"clients": dict(zip(SITES, scores, strict=True))}
        ),
        "baselines": dict.fromkeys(SITES, Baseline(train=20, test=5, majority=0.6)),
    }
    rounds = [Round(number, 0.5 + number / 100, 0.5) for number in range(1, 11)]
    converged = summary.model_copy(update=changed)
    return replace(run, summary=converged, rounds=rounds, command=f"{run.command} --patience 10")


def with_gains(one_pair: FinishedRuns, draws: list[Draw]) -> FinishedRuns:
    """Alone all sites have 0.5; rings gains about 0.3, trees loses 0.3, blocks gains and loses."""
    (local,), (fedavg,) = (one_pair[label].values() for label in ("local", "fedavg"))
    return {
        "local": {draw: scored(local, 0.5, 0.5, 0.5) for draw in draws},
        "fedavg": {
            draw: scored(fedavg, 0.8 + number / 100, 0.2 + number / 100, 0.5 + (-1) ** number / 10)
            for number, draw in enumerate(draws)
        },
    }


def without_folders(runs: FinishedRuns) -> FinishedRuns:
    """As kept runs, which have no predictions."""
    return {
        label: {draw: replace(run, folder=None) for draw, run in by_draw.items()}
        for label, by_draw in runs.items()
    }


def test_a_run_knows_its_baselines(one_pair: FinishedRuns) -> None:
    (run,) = one_pair["local"].values()
    rings = run.summary.baselines["rings"]
    assert (rings.train, rings.test) == (120, 15)
    assert rings.constant == 8 / 15


def test_runs_that_have_not_converged_have_no_verdict(one_pair: FinishedRuns) -> None:
    draws = [Draw(split, 1) for split in range(4)]
    runs = with_gains(one_pair, draws)
    rising = [Round(number, number / 20, 0.5) for number in range(1, 21)]
    for slow in ("local", "fedavg"):
        last = runs[slow][draws[-1]]
        whole = last.summary.model_copy(update={"stopped_early": False})
        unfinished = replace(last, summary=whole, rounds=rising)
        mixed = {**runs, slow: {**runs[slow], draws[-1]: unfinished}}
        (found,) = site_standings(mixed)
        assert {site.verdict for site in found.sites} == {"not final"}
        assert found.sites[0].to_json()["not_final"] == STILL_RISING
        assert {row[-1] for row in rows(sites_table([found]))} == {"not final"}
        assert sentence(found).startswith("fedavg not final for rings: +31.5 [28.6, 34.4], trees")
        assert "Validation was still rising at the last round; train longer" in sentence(found)


def test_each_site_is_compared_over_splits(one_pair: FinishedRuns) -> None:
    (found,) = site_standings(with_gains(one_pair, [Draw(split, 1) for split in range(4)]))
    assert (found.label, found.basis, found.runs) == ("fedavg", Basis.SPLITS, 4)
    rings, trees, blocks = found.sites
    assert (rings.site, rings.constant, rings.alone) == ("rings", 0.6, 0.5)
    assert rings.together == pytest.approx(0.815)
    # Variance of 0, 1, 2, 3 hundredths: 0.000167; sqrt(0.000167 · (1/4 + 5/20)) = 0.009129;
    # t(0.975, 3) = 3.182446; half the width is 0.029052.
    assert rings.gain.low == pytest.approx(0.315 - 0.029052, abs=1e-6)
    assert [site.verdict for site in found.sites] == ["helps", "hurts", "undecided"]
    assert blocks.gain.mean == pytest.approx(0)
    assert site_cells(trees, found.scale) == (
        "60.00",
        "50.00",
        "21.50",
        "-28.5",
        "[-31.4, -25.6]",
        "hurts",
    )
    assert sentence(found) == (
        "fedavg helps rings: +31.5 [28.6, 34.4]; hurts trees: -28.5 [-31.4, -25.6]; undecided for "
        "blocks: +0.0 [-26.0, 26.0]."
    )
    assert rows(sites_table([found]))[0] == (
        *("fedavg", "rings", "60.00", "50.00", "81.50", "+31.5", "[28.6, 34.4]", "helps"),
    )
    assert "over splits (4 pairs of runs; corrected resampled t-test)" in about(found)


def test_over_seeds_the_interval_also_covers_the_test_samples(one_pair: FinishedRuns) -> None:
    runs = with_gains(one_pair, [Draw(123, seed) for seed in range(3)])
    (found,), (kept,) = site_standings(runs), site_standings(without_folders(runs))
    assert (found.basis, kept.basis) == (Basis.SEEDS, Basis.SEEDS_ALONE)
    assert "training and the choice of test samples; --splits 5" in about(found)
    wide, narrow = (
        [(site.gain.high or 0) - (site.gain.low or 0) for site in one.sites]
        for one in (found, kept)
    )
    assert all(one >= other > 0 for one, other in zip(wide, narrow, strict=True))
    assert sum(wide) > sum(narrow)  # the models predict differently somewhere


def test_training_alone_is_too_little_for_a_verdict(one_pair: FinishedRuns) -> None:
    runs = with_gains(one_pair, [Draw(123, seed) for seed in range(3)])
    (kept,) = site_standings(without_folders(runs))
    assert [site.gain.verdict for site in kept.sites] == ["helps", "hurts", "undecided"]
    assert {site.verdict for site in kept.sites} == {"undecided"}
    assert "too little for a verdict" in about(kept)


def test_one_pair_of_runs_has_an_interval_over_test_samples(one_pair: FinishedRuns) -> None:
    (found,) = site_standings(one_pair)
    assert found.basis is Basis.TEST_SAMPLES
    (fedavg,) = one_pair["fedavg"].values()
    for site in found.sites:
        assert site.together == fedavg.summary.scores.clients[site.site]
        assert site.gain.low is not None
        assert site.gain.high is not None
        assert site.gain.low <= site.gain.mean <= site.gain.high
    assert "bootstrap of its predictions" in about(found)
    assert not any(site.decides for site in found.sites)


def test_a_kept_pair_has_no_interval(one_pair: FinishedRuns) -> None:
    (found,) = site_standings(without_folders(one_pair))
    assert found.basis is Basis.NONE
    assert {site.gain.verdict for site in found.sites} == {"undecided"}
    assert {site_cells(site, found.scale)[-2] for site in found.sites} == {"–"}
    assert "[" not in sentence(found)


def test_a_site_that_missed_a_last_round_is_left_out(one_pair: FinishedRuns) -> None:
    runs = with_gains(one_pair, [Draw(1, 1), Draw(2, 1)])
    first = runs["fedavg"][Draw(1, 1)]
    silent = {**runs["fedavg"], Draw(1, 1): scored(first, None, 0.5, 0.5)}
    (found,) = site_standings({**runs, "fedavg": silent})
    assert [site.site for site in found.sites] == ["trees", "blocks"]


def test_without_training_alone_there_is_nothing_to_compare(one_pair: FinishedRuns) -> None:
    assert site_standings({"fedavg": one_pair["fedavg"]}) == []


def test_many_sites_are_counted(one_pair: FinishedRuns) -> None:
    (found,) = site_standings(with_gains(one_pair, [Draw(split, 1) for split in range(4)]))
    many = replace(found, sites=[*found.sites * 5, found.sites[0]])
    assert sentence(many) == (
        "fedavg helps 6 of 16 sites; hurts 5 of 16 sites; undecided for 5 of 16 sites."
    )


def test_an_unfinished_sweep_says_nothing() -> None:
    assert site_standings({"local": {}, "fedavg": {}}) == []


def test_the_baseline_has_the_options_of_the_method(one_pair: FinishedRuns) -> None:
    (local,), (fedavg,) = (one_pair[label].values() for label in ("local", "fedavg"))
    draw = Draw(123, 0)
    runs = {
        "local,lr=0.1": {draw: scored(local, 0.1, 0.1, 0.1)},
        "local,lr=0.2": {draw: scored(local, 0.2, 0.2, 0.2)},
        "fedavg,lr=0.2": {draw: scored(replace(fedavg, folder=None), 0.5, 0.5, 0.5)},
        "fedavg,lr=0.3": {draw: scored(fedavg, 0.5, 0.5, 0.5)},
    }
    (found,) = site_standings(runs)
    assert (found.label, found.sites[0].alone) == ("fedavg,lr=0.2", 0.2)
    del runs["local,lr=0.1"]
    assert [one.label for one in site_standings({**runs, "fedavg,lr=0.3": {}})] == ["fedavg,lr=0.2"]
    assert site_standings({"local-gcn": runs["local,lr=0.2"], "x.py:mine": runs["fedavg,lr=0.2"]})
