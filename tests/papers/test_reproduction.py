"""Reproduction of papers' tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ramet
from ramet.errors import RametError
from ramet.papers.printed import Panel, Printed, figure, is_figure, table
from ramet.papers.reproduction import ReproducedCell, Reproduction, orders
from ramet.studies.finished_run import Draw


def cell(**facts: object) -> Printed:
    return Printed.parse("fedstar", {"table": "p t", "setting": "single", **facts})


def reproduced(printed: Printed, *scores: float) -> ReproducedCell:
    """With a seed for each score."""
    return ReproducedCell(printed, {Draw(123, seed): one for seed, one in enumerate(scores, 1)})


def test_a_score_is_decided_by_its_interval() -> None:
    accuracy = cell(accuracy=75.0)
    assert reproduced(accuracy).status == "not run"
    assert reproduced(accuracy, 75.0).status == "undecided"  # one seed decides nothing
    assert reproduced(accuracy, 75.0, 75.1, 74.9, 75.0).status == "undecided"  # nor do four
    # standard deviation 0.158: the interval is 0.196 to each side
    assert reproduced(accuracy, 76.6, 76.7, 76.8, 76.5, 76.4).status == "holds"
    assert reproduced(accuracy, 76.8, 76.9, 77.0, 76.7, 77.1).status == "undecided"
    assert reproduced(accuracy, 77.3, 77.4, 77.5, 77.2, 77.6).status == "fails"
    assert (
        reproduced(cell(accuracy=75, tolerance=3), 77.3, 77.4, 77.5, 77.2, 77.6).status == "holds"
    )
    assert reproduced(accuracy, 71.0, 71.1, 70.9, 71.2, 70.8).status == "fails"
    wide = (70.0, 80.0, 75.0, 72.0, 78.0)  # the mean is exact, but says little
    assert reproduced(accuracy, *wide).status == "undecided"


def over_splits(printed: Printed, *scores: float) -> ReproducedCell:
    return ReproducedCell(
        printed, {Draw(split, 1): one for split, one in enumerate(scores, 123)}, 0.125
    )


def test_what_the_tolerance_leaves_undecided_is_compatible_or_differs() -> None:
    printed = cell(accuracy=75.0, std=1.6)
    # deviation 1.58 in ours, 1.6 in print: Welch's error is 1.006, and the interval 2.32 wide
    ours = (75.0, 76.0, 77.0, 74.0, 73.0)
    assert over_splits(printed, *ours).status == "compatible"
    seeds = reproduced(printed, *(score + 0.2 for score in ours))
    assert seeds.status == "undecided"  # of one split
    assert over_splits(printed, *(score + 1.7 for score in ours)).status == "undecided"
    assert over_splits(printed, *(score + 2.4 for score in ours)).status == "differs"
    assert over_splits(printed, *(score - 2.4 for score in ours)).status == "differs"
    # wide: 3 times the deviation, so that the interval reaches more than 4 points
    assert over_splits(printed, *(75 + 3 * (score - 75) for score in ours)).status == "undecided"


def test_how_many_splits_would_decide_a_cell() -> None:
    printed, ours = cell(accuracy=75.0, std=1.6), (75.0, 76.0, 77.0, 74.0, 73.0)
    assert over_splits(printed, *(score + 1.7 for score in ours)).splits_to_decide == 6
    wide = over_splits(printed, *(75 + 3 * (score - 75) for score in ours))
    enough = wide.splits_to_decide
    assert enough is not None
    assert 5 < enough < 50
    assert over_splits(cell(accuracy=75.0, std=9.0), *ours).splits_to_decide is None
    assert reproduced(printed, 75.0).splits_to_decide == 5


def test_every_split_counts_once_however_many_seeds_it_has() -> None:
    scores = {Draw(123, 1): 70.0, Draw(123, 2): 72.0, Draw(123, 3): 71.0, Draw(124, 1): 75.0}
    over_splits = ReproducedCell(cell(accuracy=75.0), scores)
    assert over_splits.mean == 73.0
    assert over_splits.spread == pytest.approx(8**0.5)  # of 71 and 75


def test_numbers_that_do_not_vary_are_exact_or_within_their_tolerance() -> None:
    assert reproduced(cell(model_kb=57.0), 57.004).status == "exact"
    assert reproduced(cell(model_kb=57.0), 57.006).status == "fails"
    assert reproduced(cell(payload_kb=97.7, tolerance=0.25), 97.5).status == "holds"
    assert reproduced(cell(tensors=10), 10.0, 11.0).status == "fails"
    incomparable = cell(auc=75.0, not_comparable="other data")
    assert reproduced(incomparable, 50.0).status == "other data"


def test_a_cell_has_exactly_one_number() -> None:
    with pytest.raises(ValueError, match="unpack"):
        cell(accuracy=1.0, model_kb=2.0)
    with pytest.raises(ValueError, match="unpack"):
        cell()


def test_sizes_of_feddenses_table_3_are_exact(data_root: Path, tmp_path: Path) -> None:
    plan = Reproduction(table("feddense", "table3"), (1,), tmp_path, data=data_root)
    assert plan.sweeps() == []
    cells = plan.reproduced()
    assert [one.status for one in cells].count("exact") == 7
    (payload,) = (one for one in cells if one.status != "exact")
    assert (payload.printed.name, payload.status) == ("fedavg", "holds")  # 97.50 for 97.70 KB
    scalars = {(o.printed.label, o.printed.kind): round(o.mean * 256) for o in cells if o.mean}
    assert scalars == {
        ("fedavg", "model_kb"): 32_706,
        ("fedavg", "payload_kb"): 24_960,
        ("fedstar", "model_kb"): 67_842,
        ("fedstar", "payload_kb"): 14_592,
        ("feddense,width=16", "model_kb"): 34_386,
        ("feddense,width=16", "payload_kb"): 3_696,
        ("feddense,width=32", "model_kb"): 56_290,
        ("feddense,width=32", "payload_kb"): 6_304,
    }


def test_a_table_can_be_restricted_to_methods_and_settings(tmp_path: Path) -> None:
    part = table("feddense", "table2", ["feddense", "local", "single"])
    assert [c.label for c in part] == ["local", "feddense,width=16", "feddense,width=32"]
    assert {c.setting for c in part} == {"single"}
    (sweep,) = Reproduction(part, (1, 2), tmp_path).sweeps()
    assert sweep.folder == tmp_path / "single"
    assert [str(spec) for spec in sweep.methods] == [c.label for c in part]
    with pytest.raises(RametError, match="Did you mean 'fedprox'"):
        table("feddense", "table2", ["fedpro"])
    with pytest.raises(RametError, match="fedstar table2"):
        table("fedstar", "table7")


def test_fedavgs_tensors_for_dblps_shape_are_exact(tmp_path: Path) -> None:
    cells = [c for c in table("fedda", "table3", ["fed-hgn", "acm-hetero"]) if c.shape]
    plan = Reproduction(cells, (1,), tmp_path)
    assert plan.sweeps() == []
    cells_now = plan.reproduced()
    assert [one.mean for one in cells_now] == [10_400.0, 20_800.0, 41_600.0]
    assert {one.status for one in cells_now} == {"exact"}
    (sweep,) = Reproduction(table("fedda", "table3", ["acm-hetero-4"]), (1,), tmp_path).sweeps()
    assert [spec.method for spec in sweep.methods] == ["fed-hgn", "fedda", "fedda"]


def test_each_number_of_clients_has_its_own_folder(tmp_path: Path) -> None:
    cells = table("fedda", "table2", ["amazon-8", "amazon-central"])
    central, eight = Reproduction(cells, (1,), tmp_path).sweeps()
    assert (central.folder.name, central.options) == ("amazon-central", {"partition": "central"})
    assert (eight.folder.name, eight.options) == ("amazon-8", {"clients": "8"})
    assert [str(spec) for spec in eight.methods] == [
        *("local-hgn", "fed-hgn", "fedda", "fedda,activation=explore")
    ]


def test_a_group_has_one_setting_with_one_set_of_options() -> None:
    entries = [*table("fedda", "table2"), *table("fedda", "table3")]
    entries += [panel for name in ("2", "5", "6") for panel in figure("fedda", f"figure{name}")]  # type: ignore[misc]
    groups = {(e.group, e.setting, tuple(e.setting_options.items())) for e in entries}
    assert len(groups) == len({name for name, *_ in groups}) == 8


def test_only_clear_orders_are_compared() -> None:
    def ours(method: str, value: float, std: float, *scores: float) -> ReproducedCell:
        facts = {"table": "p t", "setting": "amazon", "auc": value, "std": std}
        return reproduced(Printed.parse(method, facts), *scores)

    low = ours("local-hgn", 50, 1, 60, 60.1, 60.2, 60.1, 60)
    middle = ours("fed-hgn", 52.5, 1, 61, 61.2, 61.1, 61, 61.3)
    high, whole = ours("fedda", 53, 1), ours("fedavg", 54, 0.5, 60.5)
    found = {(o.higher, o.lower): o.status for o in orders([low, middle, high], [whole])}
    assert found == {
        ("fed-hgn", "local-hgn"): "holds",
        ("fedda", "local-hgn"): "not run",
        ("fedavg", "local-hgn"): "undecided",  # one common seed
    }


TINY: dict[str, Any] = {"clients": "3", "nodes": "60", "links": "200", "hidden": "8"}


@pytest.fixture(scope="module")
def tiny_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps")
    for method in ("local-hgn", "fed-hgn", "fedda"):
        out = folder / "small" / f"{method}-seed1"
        ramet.run(method, "planted-hetero", rounds=3, seed=1, out=out, **TINY)
    return folder


def planted(method: str, **facts: object) -> Printed:
    entry = {"setting": "planted-hetero", "setting_options": TINY, "folder": "small"}
    return Printed.parse(method, {"table": "p t", **entry, **facts})


def test_numbers_and_claims_are_computed_from_finished_runs(
    tiny_runs: Path, tmp_path: Path
) -> None:
    cells = [
        planted("local-hgn", auc=0.0, std=0.1),
        planted("fed-hgn", auc=1.0, std=0.1),
        planted("fed-hgn", mrr=90.0),
        planted("fed-hgn", tensors=65 * 9, shape=(3, 5)),
        planted("fedda", tensors=1, not_comparable="other data"),
    ]
    plan = Reproduction(cells, (1,), tiny_runs, rounds=3, kept=tmp_path / "kept")
    cells_now = plan.reproduced()
    assert cells_now[3].status == "exact"
    local, fedavg, mrr, _, fedda = (one.mean for one in cells_now)
    assert local is not None
    assert fedavg is not None
    assert 20 < local < 100
    assert mrr is not None
    assert 50 < mrr <= 100
    (exact,) = plan.tensor_counts()
    # 2 node and 3 link types, not DBLP's shape; 3 clients send all tensors in 3 rounds
    whole = exact.printed.value
    assert (exact.status, exact.mean, whole % 9) == ("exact", whole, 0)
    assert whole < 65 * 9
    assert fedda is not None
    assert fedda < whole
    (order,) = plan.orders()
    assert (order.higher, order.lower, order.status) == ("fed-hgn", "local-hgn", "undecided")
    assert order.gain is not None
    assert order.gain.mean == pytest.approx(fedavg - local)
    (saving,) = plan.savings()
    assert (saving.group, saving.label, saving.seeds) == ("small", "fedda", 1)
    assert saving.tensors_up == fedda / whole
    assert saving.bytes_up < saving.bytes_both <= 1
    assert saving.worst == pytest.approx(saving.gain.mean)

    plan.keep()
    elsewhere = Reproduction(cells, (1,), tmp_path / "empty", rounds=3, kept=tmp_path / "kept")
    for sweep in elsewhere.sweeps():
        sweep.check()
        assert sweep.execute(1, lambda *_: None) == {}  # nothing is left to run
    assert [o.ours for o in elsewhere.reproduced()] == [o.ours for o in plan.reproduced()]
    assert not (tmp_path / "empty").exists()


def test_the_curves_of_a_figure_are_finished_runs(tiny_runs: Path) -> None:
    panel = Panel(
        figure="p f",
        panel="a",
        setting="planted-hetero",
        setting_options=TINY,
        folder="small",
        curves=("fed-hgn", "fedda"),
        lines="best and worst",
    )
    plan = Reproduction([], (1, 2), tiny_runs, rounds=3, panels=[panel])
    ((_, by_label),) = plan.curves()
    assert {label: list(runs) for label, runs in by_label.items()} == {
        "fed-hgn": [(123, 1)],
        "fedda": [(123, 1)],
    }
    first, second = plan.compared_with_first_curve()
    assert (first.gain.mean, first.tensors_up) == (0, 1)
    assert second.tensors_up < 1
    assert is_figure("fedda", "figure6")
    assert not is_figure("fedda", "table3")
    with pytest.raises(RametError, match="fedda figure2"):
        is_figure("fedda", "figure3")
    (part,) = figure("fedda", "figure6", ["fedda,activation=restart,beta=0.2"])
    assert part.curves == ("fedda,activation=restart,beta=0.2",)
