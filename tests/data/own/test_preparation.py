"""Columns prepared in the same way at all sites, against pandas and scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from own_sites import messy_site
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.own.preparation import ColumnSums, Preparation, SiteSums, agreed
from ramet.data.own.problems import SiteDataError
from ramet.data.own.site import Site, check_site, read_site
from ramet.errors import RametError

SITES = {"north": 50, "south": 33, "east": 41}


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, Path]:
    return {
        name: messy_site(tmp_path / name, seed, rows)
        for seed, (name, rows) in enumerate(SITES.items())
    }


def _agreement(sites: dict[str, Path]) -> Preparation:
    told = {name: SiteSums.parse(read_site(p).sums.text(), name) for name, p in sites.items()}
    return Preparation.parse(agreed(told).text())


def _joined(sites: dict[str, Path]) -> pd.DataFrame:
    return pd.concat([pd.read_csv(path.parent / "patients.csv") for path in sites.values()])


def _features(site: Site) -> np.ndarray:
    assert isinstance(site.graph, NodeGraph)
    return site.graph.features.numpy()


def test_scaling_equals_scikit_learn_on_the_joined_table(sites: dict[str, Path]) -> None:
    columns, joined = _agreement(sites).types["patient"], _joined(sites)
    days = (pd.to_datetime(joined["admitted"]) - pd.Timestamp("1970-01-01")).dt.days
    for name, values in (("age", joined["age"]), ("bmi", joined["bmi"]), ("admitted", days)):
        scaler = StandardScaler().fit(values.to_frame())
        assert columns[name].mean == pytest.approx(scaler.mean_[0], rel=1e-9)
        assert columns[name].scale == pytest.approx(scaler.scale_[0], rel=1e-9)


def test_categories_are_those_with_ten_rows_at_some_site(sites: dict[str, Path]) -> None:
    tables = [pd.read_csv(path.parent / "patients.csv") for path in sites.values()]
    counts = [table["ward"].value_counts() for table in tables]
    frequent = sorted({name for count in counts for name in count.index[count >= 10]})
    assert any("rare" in name for count in counts for name in count.index)
    assert _agreement(sites).types["patient"]["ward"].categories == tuple(frequent)
    assert frequent == ["intensive", "surgery"]


def test_features_equal_scikit_learn_on_the_joined_table(sites: dict[str, Path]) -> None:
    agreement, joined = _agreement(sites), _joined(sites)
    ours = np.concatenate([_features(read_site(path, agreement)) for path in sites.values()])
    names = agreement.expanded(read_site(sites["north"]).schema).nodes["patient"]
    table = pd.DataFrame(ours, columns=list(names))
    for name in ("age", "bmi"):
        scaled = StandardScaler().fit_transform(joined[[name]])[:, 0]
        np.testing.assert_allclose(table[name], np.nan_to_num(scaled), atol=1e-6)
        assert (table[f"{name} missing"] == joined[name].isna().to_numpy()).all()
    known = ["intensive", "surgery"]
    encoder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
    one_hot = encoder.fit_transform(joined[["ward"]])
    np.testing.assert_array_equal(table[[f"ward={name}" for name in known]], one_hot)
    rare = joined["ward"].notna() & ~joined["ward"].isin(known)
    assert (table["ward other"] == rare.to_numpy()).all()
    smoker = joined["smoker"].map({"yes": 1, "TRUE": 1, "no": 0, "0": 0})
    assert (table["smoker"] == smoker.fillna(0).to_numpy()).all()
    assert not any("note" in name for name in names)


def test_only_counts_sums_and_frequent_categories_leave(sites: dict[str, Path]) -> None:
    told = read_site(sites["north"]).sums.types["patient"]
    assert {*told} == {"age", "bmi", "ward", "admitted", "smoker"}
    assert told["age"].count == 50
    assert told["ward"] == ColumnSums(
        kind="category", marked=True, categories=("intensive", "surgery")
    )
    assert told["smoker"] == ColumnSums(kind="flag", marked=True)


def test_a_column_below_the_smallest_count_tells_nothing(tmp_path: Path) -> None:
    site = read_site(messy_site(tmp_path / "north", 0, 50, top="smallest_count = 51"))
    told = site.sums.types["patient"]
    assert (told["age"].count, told["age"].total, told["age"].squares) == (0, 0.0, 0.0)
    assert told["ward"].categories == ()


def test_a_column_that_a_site_lacks_is_missing_there(tmp_path: Path) -> None:
    have = messy_site(tmp_path / "north", 0, 50)
    lack = messy_site(tmp_path / "south", 1, 40, bmi='{ kind = "number", absent = true }')
    text = (lack.parent / "patients.csv").read_text().replace(",bmi,", ",weight,")
    (lack.parent / "patients.csv").write_text(text)
    agreement = _agreement({"north": have, "south": lack})
    assert read_site(have).schema.fits(read_site(lack).schema)
    names = agreement.expanded(read_site(lack).schema).nodes["patient"]
    features = _features(read_site(lack, agreement))
    assert (features[:, names.index("bmi missing")] == 1).all()
    assert (features[:, names.index("bmi")] == 0).all()
    alone = pd.read_csv(have.parent / "patients.csv")["bmi"]
    assert agreement.types["patient"]["bmi"].mean == pytest.approx(alone.mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("column", "cell", "text"),
    [
        ("age", "3,5", "is not a finite number. Write 3.5"),
        ("age", "12 kg", "is not a finite number"),
        ("age", "inf", "is not a finite number"),
        ("admitted", "31/03/2026", "is not a date. Write 2026-03-31"),
        ("smoker", "perhaps", "is not a flag. Write true or false"),
    ],
)
def test_a_cell_that_does_not_fit_its_kind(
    tmp_path: Path, column: str, cell: str, text: str
) -> None:
    path = messy_site(tmp_path / "north", 0, 50)
    table = pd.read_csv(path.parent / "patients.csv", dtype=str)
    table.loc[3, column] = cell
    table.to_csv(path.parent / "patients.csv", index=False)
    (problem,) = check_site(path).problems
    assert (problem.row, problem.column) == (5, column)
    assert text in problem.text


def test_missing_values_can_be_refused(tmp_path: Path) -> None:
    path = messy_site(tmp_path / "north", 0, 50, bmi='{ kind = "number", missing = "refuse" }')
    problems = check_site(path).problems
    table = pd.read_csv(path.parent / "patients.csv")
    assert len(problems) == table["bmi"].isna().sum() > 0
    assert "refuses missing values" in problems[0].text


def test_sites_must_declare_a_column_in_the_same_way(tmp_path: Path) -> None:
    north = messy_site(tmp_path / "north", 0, 50)
    south = messy_site(tmp_path / "south", 1, 50, bmi='"category"')
    with pytest.raises(RametError, match=r"patient\.bmi differently: north as number, south as"):
        _agreement({"north": north, "south": south})


def test_new_data_must_have_the_columns_of_the_training(sites: dict[str, Path]) -> None:
    agreement = _agreement(sites)
    toml = sites["north"].read_text().replace('note = "ignored"', 'note = "category"')
    sites["north"].write_text(toml)
    with pytest.raises(SiteDataError, match="not declared in training"):
        read_site(sites["north"], agreement)
    sites["north"].write_text(
        toml.replace('note = "category"\n', "").replace('"date"', '"category"')
    )
    with pytest.raises(SiteDataError, match="is a category here, but it was a date in training"):
        read_site(sites["north"], agreement)


def test_a_constant_column_becomes_zero() -> None:
    sums = SiteSums(
        types={
            "patient": {"age": ColumnSums(kind="number", marked=False, count=30, total=30 * 0.1)}
        }
    )
    column = agreed({"north": sums}).types["patient"]["age"]
    assert column.scale == 1.0
    np.testing.assert_allclose(column.features(np.array([0.1]))[0], [0.0], atol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        '{"types":{"patient":{"age":{"kind":"number","marked":true,"count":-1}}}}',
        '{"types":{"patient":{"age":{"kind":"number","marked":true,"total":NaN}}}}',
        '{"types":{"patient":{"age":{"kind":"number","marked":true,"squares":-4}}}}',
        '{"types":{"patient":{"age":{"kind":"secret","marked":true}}}}',
        "[]",
        "",
    ],
)
def test_sums_that_a_site_cannot_have_sent_are_refused(text: str) -> None:
    with pytest.raises(RametError, match="the summary of the columns of east is not valid"):
        SiteSums.parse(text, "east")


HOSTILE = {
    "NaN scale": ('{"kind":"number","marked":true,"scale":NaN}', "scale"),
    "zero scale": ('{"kind":"number","marked":true,"scale":0}', "greater than 0"),
    "infinite mean": ('{"kind":"number","marked":true,"mean":Infinity}', "mean"),
    "wrong kind": ('{"kind":"matrix","marked":true}', "kind"),
    "categories of a number": (
        '{"kind":"number","marked":true,"categories":["a"]}',
        "a number has no categories",
    ),
    "a category twice": (
        '{"kind":"category","marked":true,"categories":["a","a"]}',
        "listed twice",
    ),
    "many categories": (
        json.dumps({"kind": "category", "marked": True, "categories": [*map(str, range(10_001))]}),
        "at most 10000 items",
    ),
    "unknown field": ('{"kind":"number","marked":true,"code":"x"}', "Extra inputs"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_preparation_is_refused_in_one_line(case: str) -> None:
    column, reason = HOSTILE[case]
    with pytest.raises(RametError, match=reason) as refused:
        Preparation.parse(f'{{"types":{{"patient":{{"age":{column}}}}}}}')
    assert str(refused.value).startswith("the coordinator's preparation of columns is not valid")
    assert "\n" not in str(refused.value)


def test_a_preparation_that_is_too_long_or_has_another_metric_is_refused() -> None:
    with pytest.raises(RametError, match="at most 4,194,304 are allowed"):
        Preparation.parse(" " * (2**22 + 1))
    with pytest.raises(RametError, match="metric"):
        Preparation.parse('{"metric":"accuracy-of-patient-17"}')


def changed(agreement: Preparation, column: str, **fields: object) -> Preparation:
    columns = agreement.types["patient"]
    other = columns[column].model_copy(update=fields)
    return agreement.model_copy(update={"types": {"patient": {**columns, column: other}}})


def test_a_preparation_for_other_columns_is_refused(sites: dict[str, Path]) -> None:
    agreement, north = _agreement(sites), sites["north"]
    for other, reason in (
        (changed(agreement, "age", kind="date"), "'age' of .* is a number here, but it was a date"),
        (changed(agreement, "age", marked=False), "'age' of .* marks missing values here"),
        (Preparation(), "has a column that was not declared in training"),
    ):
        with pytest.raises(SiteDataError, match=reason):
            read_site(north, other)


def test_no_scale_tells_whether_a_value_is_larger_than_another(sites: dict[str, Path]) -> None:
    """An error about an infinite feature would be a comparison, and a few tell the largest."""
    tiny = changed(_agreement(sites), "age", scale=1e-300)
    features = _features(read_site(sites["north"], tiny))
    assert np.abs(features).max() == np.finfo(np.float32).max


def test_columns_that_a_site_does_not_have_change_nothing_there(sites: dict[str, Path]) -> None:
    agreement = _agreement(sites)
    columns = agreement.types["patient"]
    more = {"patient": {**columns, "secret": columns["age"]}, "unknown": columns}
    other = read_site(sites["north"], agreement.model_copy(update={"types": more}))
    expected = read_site(sites["north"], agreement)
    np.testing.assert_array_equal(_features(other), _features(expected))


def test_listed_categories_cannot_be_replaced(tmp_path: Path) -> None:
    ward = '{ kind = "category", categories = ["surgery", "intensive", "rare-0"] }'
    path = messy_site(tmp_path / "north", 0, 50)
    path.write_text(path.read_text().replace('ward = "category"', f"ward = {ward}"))
    agreement = agreed({"north": read_site(path).sums})
    assert read_site(path, agreement)
    with pytest.raises(SiteDataError, match=r"'ward' of .* has other categories here"):
        read_site(path, changed(agreement, "ward", categories=("a", "b")))
