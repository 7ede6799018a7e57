"""Explanations of numbers and of several labels, on planted data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ramet
from command_line import ramet as command
from planted_targets import molecule_site, person_site
from ramet.errors import RametError
from ramet.prediction.explanation import Explanation

SITES = "ab"


def people(result: ramet.Result) -> pd.DataFrame:
    """The people of site a; those first whose neighbours' mean is furthest from 0."""
    table = pd.read_csv(result.folder.parent / "a" / "people.csv").set_index("id")
    order = (table["age"] - 40).abs().sort_values(ascending=False).index
    return table.loc[order]


def strengths(table: pd.DataFrame, id_: str) -> pd.Series[float]:
    """The sizes of `a` at a person's four neighbours, the largest first."""
    near = [f"p{(int(id_[1:]) + step) % len(table)}" for step in (-2, -1, 1, 2)]
    return table.loc[near, "a"].abs().sort_values(ascending=False)


def total(found: Explanation) -> float:
    features = found.features.select_dtypes("number").to_numpy().sum()
    return float(features + found.links["contribution"].sum())


def check(found: Explanation, predicted: Any, share: float) -> None:
    """The explanation is of what is predicted, and complete but for a share."""
    assert found.value == pytest.approx(predicted, rel=1e-5)
    change = found.value - found.baseline
    assert total(found) == pytest.approx(change, abs=share * abs(change) + share)


@pytest.fixture(scope="module")
def ages(tmp_path_factory: pytest.TempPathFactory) -> ramet.Result:
    """A model of ages, which follow from the neighbours' mean of `a` alone."""
    folder = tmp_path_factory.mktemp("ages")
    sites = [person_site(folder / name, seed) for seed, name in enumerate(SITES)]
    return ramet.run(
        "fedavg", "own", sites=sites, network="sage", rounds=80, dropout=0, out=folder / "run"
    )


def test_the_column_that_decides_an_age_comes_first(ages: ramet.Result) -> None:
    predicted = ages.predict("a").set_index("id")
    for id_ in people(ages).index[:3]:
        found = ages.explain(id_, "a")
        assert (found.output, found.scale.unit) == ("age", "years")
        check(found, predicted.loc[id_, "age"], 0.03)
        first = found.features.iloc[0]
        assert first["feature"] == "a"
        assert abs(first["neighbours"]) > 5 * abs(first["contribution"])


def test_the_link_that_decides_an_age_comes_first(ages: ramet.Result) -> None:
    table = people(ages)
    clear = [id_ for id_ in table.index if strengths(table, id_).diff().iloc[1] < -0.5]
    for id_ in clear[:3]:
        strongest = strengths(table, id_).index[0]
        link = ages.explain(id_, "a").links.iloc[0]
        assert {link["source"], link["target"]} == {id_, strongest}
        assert (link["contribution"] > 0) == (table.loc[strongest, "a"] > 0)


def test_contributions_are_shown_in_the_unit(ages: ramet.Result, tmp_path: Path) -> None:
    found = ages.explain("p7", "a")
    words = ("explain", ages.folder, "--client", "a", "--id", "p7")
    shown = command(*words, "--out", tmp_path / "p7.svg")
    assert shown.code == 0, shown.stderr
    assert f"p7: age {found.value:.2f} years, {found.baseline:.2f} years without" in shown.stdout
    assert f"{found.features['neighbours'][0]:+.2f}" in shown.stdout
    assert "%" not in shown.stdout
    facts = json.loads(command(*words, "--json").stdout)
    assert (facts["output"], facts["unit"]) == ("age", "years")
    assert facts["value"] == pytest.approx(found.value)


def test_each_of_several_labels_is_explained(tmp_path: Path) -> None:
    sites = [
        person_site(tmp_path / name, seed, "node-multilabel", '["near", "own"]', "")
        for seed, name in enumerate(SITES)
    ]
    result = ramet.run(
        "fedavg", "own", sites=sites, network="sage", rounds=40, dropout=0, out=tmp_path / "run"
    )
    predicted = result.predict("a").set_index("id")
    for id_ in people(result).index[:2]:
        for label, column, where in (("near", "a", "neighbours"), ("own", "b", "contribution")):
            found = result.explain(id_, "a", of=label)
            check(found, predicted.loc[id_, f"p_{label}"], 0.03)
            first = found.features.iloc[0]
            assert first["feature"] == column
            numbers = first[["contribution", "neighbours"]].abs()
            assert numbers.astype(float).idxmax() == where
        likeliest = predicted.loc[id_, ["p_near", "p_own"]].astype(float).idxmax()
        assert f"p_{result.explain(id_, 'a').output}" == likeliest
    shown = command("explain", result.folder, "--client", "a", "--id", id_, "--of", "own")
    assert f"{id_}: own with {predicted.loc[id_, 'p_own']:.1%}" in shown.stdout
    with pytest.raises(RametError, match="unknown class, label or number 'other'"):
        result.explain("p7", "a", of="other")


def test_numbers_of_graphs_are_explained(tmp_path: Path) -> None:
    sites = [
        molecule_site(tmp_path / name, seed, label='["weight", "light"]')
        for seed, name in enumerate(SITES)
    ]
    result = ramet.run(
        *("fedavg", "own"),
        sites=sites,
        network="gin",
        same_schema=True,
        rounds=40,
        dropout=0,
        out=tmp_path / "run",
    )
    predicted = result.predict("a").set_index("id")
    for id_ in ("m3", "m8"):
        found = result.explain(id_, "a", of="weight")
        check(found, predicted.loc[id_, "weight"], 0.05)
        assert found.features["feature"][0] == "a"
    with pytest.raises(RametError, match=r"which number\? Add --of: weight, light"):
        result.explain("m3", "a")
