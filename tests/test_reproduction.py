"""Papers' tables done again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.metrics import Printed, Verdict
from ramet.reproduction import Reproduction, table


def cell(**facts: object) -> Printed:
    return Printed.parse("fedstar", {"table": "p t", "setting": "single", **facts})


def test_a_figure_is_inside_up_to_its_tolerance() -> None:
    accuracy = cell(accuracy=75.0)
    assert Verdict(accuracy, [76.0, 78.0]).inside is True
    assert Verdict(accuracy, [77.01]).inside is False
    assert Verdict(accuracy, []).inside is None
    assert Verdict(cell(accuracy=75.0, tolerance=3.0), [77.01]).inside is True
    assert Verdict(cell(model_kb=57.0), [57.004]).inside is True
    assert Verdict(cell(model_kb=57.0), [57.006]).inside is False


def test_a_cell_has_exactly_one_figure() -> None:
    with pytest.raises(ValueError, match="unpack"):
        cell(accuracy=1.0, model_kb=2.0)
    with pytest.raises(ValueError, match="unpack"):
        cell()


def test_sizes_of_feddenses_table_3_are_exact(data_root: Path, tmp_path: Path) -> None:
    plan = Reproduction(table("feddense", "table3"), (1,), tmp_path, data=data_root)
    assert plan.sweeps() == []
    verdicts = plan.verdicts()
    assert all(verdict.inside for verdict in verdicts)
    scalars = {(v.printed.label, v.printed.kind): round(v.mean * 256) for v in verdicts if v.mean}
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


def test_a_part_of_a_table_can_be_chosen(tmp_path: Path) -> None:
    part = table("feddense", "table2", ["feddense", "local", "single"])
    assert [c.label for c in part] == ["local", "feddense,width=16", "feddense,width=32"]
    assert {c.setting for c in part} == {"single"}
    (sweep,) = Reproduction(part, (1, 2), tmp_path).sweeps()
    assert sweep.folder == tmp_path / "single"
    assert [contender.label for contender in sweep.contenders] == [c.label for c in part]
    with pytest.raises(RametError, match="Did you mean 'fedprox'"):
        table("feddense", "table2", ["fedpro"])
    with pytest.raises(RametError, match="fedstar table2"):
        table("fedstar", "table7")
