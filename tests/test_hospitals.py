"""The study of ABIDE's hospitals follows its design, and its page says what the kept runs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pytest

from ramet.studies.archive import kept
from ramet.studies.finished_run import FinishedRun
from result_modules import RESULTS, imported


@dataclass(frozen=True)
class Modules:
    design: Any
    study: Any
    tables: Any
    page: Any


@pytest.fixture(scope="module")
def modules() -> Iterator[Modules]:
    with imported("hospitals", "hospitals_study", "hospitals_tables", "hospitals_page") as found:
        yield Modules(*found)


@pytest.fixture(scope="module")
def files() -> Mapping[tuple[str, int], FinishedRun]:
    found = [kept(path) for path in (RESULTS / "hospitals").glob("*.json")]
    return {(run.label, run.split_seed): run for (run,) in found}


def test_validation_alone_chooses_a_configuration(
    modules: Modules, files: Mapping[tuple[str, int], FinishedRun]
) -> None:
    lines = modules.design.tuned()
    rows = {row.name: row for row in (*modules.design.ROWS, *modules.design.AGES)}
    for (name, split), line in lines.items():
        vals = [trial["val"] for trial in line["trials"]]
        best = min(vals) if name.endswith(", age") else max(vals)  # of an error
        assert line["best"] == vals.index(best)
        assert [trial["options"] for trial in line["trials"]] == [*rows[name].configurations]
        run = files[line["run"], split]
        assert fmean(one.val for one in run.rounds[-5:]) == pytest.approx(best)
    assert {(line["run"], split) for (_, split), line in lines.items()} == files.keys()


def test_methods_are_compared_on_the_same_data(modules: Modules) -> None:
    """That of the linear model at single hospitals; its hash covers people, parts and features."""
    rows = [row.name for row in modules.design.ROWS if row.network == "linear" and not row.options]
    found = modules.study.study().rows
    for split in modules.design.SPLITS:
        runs = [
            run
            for name in rows
            for draw, run in found.get(name, {}).items()
            if draw.split_seed == split
        ]
        assert len(runs) > 1
        assert len({run.versions["data"] for run in runs}) == 1
        assert {run.summary.rounds for run in runs} == {20}


def test_accuracy_is_over_people_and_not_over_hospitals(modules: Modules) -> None:
    run = next(iter(modules.study.study().rows["local, linear"].values()))
    sizes, scores = run.summary.baselines, run.summary.scores.clients
    right = sum(round(scores[site] * sizes[site].test) for site in sizes)
    people = sum(one.test for one in sizes.values())
    assert people == 217
    assert modules.study.score(run) == pytest.approx(right / people, abs=1e-4)
    assert modules.study.score(run) != pytest.approx(fmean(scores.values()), abs=1e-4)


def test_the_claims_are_decided_by_their_intervals(modules: Modules) -> None:
    found = modules.study.study()
    for claim in modules.design.CLAIMS:
        one = modules.study.judged(found, claim)
        if one.gain is None or one.gain.pairs < 5:
            continue
        bound = claim.at_least / 100
        expected = "undecided"
        if one.gain.low > bound:
            expected = "holds"
        elif one.gain.high < bound:
            expected = "fails"
        assert one.status == expected
        assert claim.says in modules.tables.claims_table(found)


def test_the_first_sentence_is_that_of_the_chosen_method(modules: Modules) -> None:
    found = modules.study.study()
    status = found.gain(found.chosen, "local, linear").at_least(0)
    said = modules.page.answer(found).partition(".")[0]
    words = {"holds": "joining helps", "fails": "hurts", "undecided": "undecided whether"}
    assert words[status] in said
    assert f"`{found.chosen.partition(',')[0]}`" in modules.page.answer(found)


def test_refusals_in_the_table_are_those_of_the_code(modules: Modules) -> None:
    rows = {row.name: row for row in modules.design.ROWS}
    private = {"dp": "unit=graph,epsilon=8,delta=1e-4"}
    assert modules.tables._allowed(rows["fedavg, linear"], private)
    assert not modules.tables._allowed(rows["scaffold, linear"], private)
    assert not modules.tables._allowed(rows["gcfl+, linear"], {"secure": True})
