"""Four sites, one of which tells sums of a column that its data do not have."""

from __future__ import annotations

import random
import shlex
from pathlib import Path
from typing import Any

import pytest

import ramet
from own_sites import write_csv, write_toml
from ramet.data.own.moments import Moments, bounded, pooled
from ramet.data.own.preparation import SiteSums, agreed, distant_sums
from ramet.data.own.site import read_site
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, checked_settings
from ramet.experiment.client_side import client_of
from ramet.partition.own import OwnSetting

NAMES = ("east", "north", "south", "west")
LIAR = "west"
TOML = """\
site = "{site}"
task = "node-classification"
classes = ["healthy", "ill"]

[nodes.patient]
file = "patients.csv"
label = "state"

[nodes.patient.columns]
marker = {marker}
age = "number"

[edges.contact]
file = "contacts.csv"
"""
LIES: dict[str, dict[str, Any]] = {
    "wide": {"squares": 1e12},
    "far": {"total": 1e9},
    "heavy and narrow": {"count": 2**40, "total": 2.0**40 * 100, "squares": 0.0},
    "heavy and wide": {"count": 2**40, "total": 2.0**40 * 100, "squares": 2.0**40 * 1e8},
    "heavy and far": {"count": 2**40, "total": 2.0**40 * 1e4, "squares": 0.0},
}


def _site(folder: Path, seed: int, unit: float = 1.0, marker: str = '"number"') -> Path:
    """Patients whose state shows in one column."""
    draw = random.Random(seed)
    rows = [
        (
            f"p{n}",
            round(unit * draw.gauss(97 + 6 * (n % 2), 1), 3),
            round(draw.gauss(50, 20), 1),
            ("healthy", "ill")[n % 2],
        )
        for n in range(60)
    ]
    write_csv(folder / "patients.csv", "id,marker,age,state", rows)
    links = [(f"p{n}", f"p{(n + 2) % 60}") for n in range(60)]
    write_csv(folder / "contacts.csv", "source,target", links)
    return write_toml(folder, TOML.format(site=folder.name, marker=marker))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {name: _site(tmp_path / name, seed) for seed, name in enumerate(NAMES)}


def _sums(files: dict[str, Path]) -> dict[str, SiteSums]:
    return {name: read_site(path).sums for name, path in files.items()}


def _lying(sums: SiteSums, lie: dict[str, Any]) -> SiteSums:
    columns = sums.types["patient"]
    told = {**columns, "marker": columns["marker"].model_copy(update=lie)}
    return SiteSums.parse(sums.model_copy(update={"types": {"patient": told}}).text(), LIAR)


def _settings(files: dict[str, Path], folder: Path) -> Any:
    options = {"sites": shlex.join(map(str, files.values()))}
    return checked_settings(method="fedavg", setting="own", rounds=20, data=folder, options=options)


@pytest.mark.parametrize("lie", LIES)
def test_one_site_moves_the_preparation_by_a_bounded_amount(
    lie: str, files: dict[str, Path]
) -> None:
    honest = _sums(files)
    three = {name: sums for name, sums in honest.items() if name != LIAR}
    with_lie = {**three, LIAR: _lying(honest[LIAR], LIES[lie])}
    true, moved = (agreed(s).types["patient"] for s in (three, with_lie))
    assert abs(moved["marker"].mean - true["marker"].mean) <= 4 * true["marker"].scale
    assert 1 / 4 <= moved["marker"].scale / true["marker"].scale <= 6
    assert moved["age"] == agreed(honest).types["patient"]["age"]
    (sentence,) = [one for one in distant_sums(with_lie) if LIAR in one]
    assert sentence.startswith("patient.marker: the sums of west are far from those of the other")


def test_honest_sums_count_in_full(files: dict[str, Path]) -> None:
    """Also those of a site that is eight times as large, or has other means and spreads."""
    honest = _sums(files)
    assert distant_sums(honest) == []
    small = {"a": Moments(50, 500.0, 200.0), "b": Moments(40, 360.0, 90.0)}
    told = {**small, "large": Moments(720, 720 * 12.0, 720 * 16.0), "flat": Moments(30, 300.0, 0.0)}
    assert bounded(told) == told
    alone = {"a": small["a"], "b": Moments(40, 1e9, 1e12)}
    assert bounded(alone) == alone, "of two sites, nobody knows which one is far"


@pytest.mark.parametrize("seed", range(50))
def test_no_sums_of_one_site_of_five_go_beyond_the_bound(seed: int) -> None:
    draw = random.Random(seed)
    honest = {
        str(n): Moments(count := draw.randint(20, 200), count * draw.gauss(10, 1), count * 4.0)
        for n in range(4)
    }
    count = draw.choice([1, 10, 100, 10**6, 2**53])
    mean, scale = draw.choice([1, -1]) * 10 ** draw.uniform(-3, 30), 10 ** draw.uniform(-9, 30)
    lie = Moments(count, count * mean, count * scale**2)
    true, moved = pooled(honest.values()), pooled(bounded({**honest, "liar": lie}).values())
    assert abs(moved.mean - true.mean) <= 4 * true.scale
    assert true.scale / 4 <= moved.scale <= 6 * true.scale


def test_training_is_not_spoiled(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = OwnSetting.sums

    def told(self: OwnSetting, client: str, data: Path) -> SiteSums:
        sums = honest(self, client, data)
        return _lying(sums, LIES["wide"]) if client == LIAR else sums

    monkeypatch.setattr(OwnSetting, "sums", told)
    sites = shlex.join(map(str, files.values()))
    run = ramet.run("fedavg", "own", rounds=15, out=tmp_path / "run", sites=sites)
    assert run.summary.scores.test > 0.95
    remarks = RunFolder.open(tmp_path / "run").remarks()
    assert any("patient.marker: the sums of west are far" in remark for remark in remarks)


@pytest.mark.parametrize("change", [{"scale": 1e4}, {"scale": 1e-2}, {"mean": 1e6}])
def test_a_site_refuses_an_agreed_scale_that_is_far_from_its_own(
    change: dict[str, float], files: dict[str, Path], tmp_path: Path
) -> None:
    """The coordinator may lie as well, and two sites cannot tell who does."""
    honest = agreed(_sums(files))
    columns = honest.types["patient"]
    marker = columns["marker"].model_copy(update=change)
    wrong = honest.model_copy(update={"types": {"patient": {**columns, "marker": marker}}})
    settings = _settings(files, tmp_path)
    client_of(Experiment(settings, agreement=honest), "north", tmp_path / "honest")
    with pytest.raises(RametError, match=r"agreed scale of the column patient\.marker") as refused:
        client_of(Experiment(settings, agreement=wrong), "north", tmp_path / "wrong")
    assert not any(digit in str(refused.value) for digit in "0123456789"), "no values leave"
    assert not (tmp_path / "wrong").exists()


def test_a_site_with_another_unit_is_named_until_it_says_that_it_is_unlike(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """Cents instead of euros: the others go on with their scale, and the site learns of it."""
    files[LIAR] = _site(tmp_path / LIAR, 3, unit=1000.0)
    preparation, settings = agreed(_sums(files)), _settings(files, tmp_path)
    for name in NAMES[:-1]:
        client_of(Experiment(settings, agreement=preparation), name, tmp_path / "states")
    with pytest.raises(RametError, match=r"patient\.marker, .* declare it here with unlike = true"):
        client_of(Experiment(settings, agreement=preparation), LIAR, tmp_path / "states")
    marker = '{ kind = "number", unlike = true }'
    files[LIAR] = _site(tmp_path / LIAR, 3, unit=1000.0, marker=marker)
    client_of(Experiment(settings, agreement=preparation), LIAR, tmp_path / "states")
