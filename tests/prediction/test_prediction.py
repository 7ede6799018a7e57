"""Predictions for new data, against the models themselves and against tables written by hand."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, messy_site, node_site, write_csv
from ramet.data.graphs.hetero_graph import HeteroGraph, Links
from ramet.data.graphs.node_graph import NodeGraph
from ramet.errors import RametError
from ramet.models.link_scorer import LinkScorer
from ramet.prediction import Trained, read_input, scores
from ramet.runs import Result


def _run(folder: Path, method: str, files: Sequence[Path]) -> Result:
    sites = shlex.join(map(str, files))
    return ramet.run(method, "own", sites=sites, rounds=2, out=folder / f"run-{method}")


def _sites(folder: Path, write: Callable[..., Path]) -> list[Path]:
    return [write(folder / name) for name in ("north", "south")]


KINDS: dict[str, Callable[..., Path]] = {
    "fedstar": graph_site,
    "feddense": graph_site,
    "fed-gcn": node_site,
    "fedlit": node_site,
    "fed-hgn": link_site,
}


@pytest.mark.parametrize("method", KINDS)
def test_result_and_command_give_the_same_table(method: str, tmp_path: Path) -> None:
    files = _sites(tmp_path, KINDS[method])
    result = _run(tmp_path, method, files)
    relation = "takes" if method == "fed-hgn" else None
    ours = result.predict(site=files[1], relation=relation)
    options = ["--relation", "takes"] if relation else []
    for out in (tmp_path / "p.csv", tmp_path / "p.parquet"):
        done = command("predict", result.folder, "--site", files[1], "--out", out, *options)
        assert done.code == 0, done.stderr
        theirs = pd.read_csv(out) if out.suffix == ".csv" else pd.read_parquet(out)
        assert [*theirs.columns] == [*ours.columns]
        for column in ours.columns:
            if ours[column].dtype.kind == "f":
                np.testing.assert_allclose(theirs[column], ours[column], rtol=0, atol=1e-9)
            else:
                assert theirs[column].tolist() == ours[column].tolist()
    printed = command("predict", result.folder, "--site", files[1], *options)
    assert printed.stdout == (tmp_path / "p.csv").read_text()


@pytest.mark.parametrize("method", ["fedstar", "fed-gcn", "fedlit"])
def test_probabilities_equal_those_of_the_evaluation(method: str, tmp_path: Path) -> None:
    files = _sites(tmp_path, KINDS[method])
    result = _run(tmp_path, method, files)
    frame = result.predict("south", files[1])
    samples, model = result.samples("south"), result.model("south")
    trained = Trained.open(result.folder)
    task: Any = trained.experiment.method.task
    evaluated = task.predictions(model, samples, torch.device("cpu"))["test"]
    rows = frame.iloc[samples.split.test.numpy()]
    classes = trained.schema("south").classes
    chances = rows[[f"p_{name}" for name in classes]].to_numpy()
    np.testing.assert_allclose(chances, evaluated.predicted, rtol=0, atol=1e-6)
    assert rows["class"].tolist() == [classes[index] for index in chances.argmax(axis=1)]


NEW_NODES = """\
site = "north"

[nodes.patient]
file = "june.csv"
features = ["age", "dose"]

[edges.contact]
file = "june-contacts.csv"
"""


def _june(folder: Path, rows: Sequence[tuple[object, ...]], toml: str = NEW_NODES) -> Path:
    write_csv(folder / "june.csv", "id,age,dose", rows)
    write_csv(folder / "june-contacts.csv", "source,target", [("a", "b")])
    (folder / "june.toml").write_text(toml)
    return folder / "june.toml"


def test_new_data_needs_neither_classes_nor_splits(tmp_path: Path) -> None:
    result = _run(tmp_path, "fed-gcn", _sites(tmp_path, node_site))
    june = _june(tmp_path / "june", [("a", -1.0, 0.2), ("b", -1.1, 0.3), ("c", 1.0, 99.0)])
    frame = result.predict(site=june)
    assert frame["id"].tolist() == ["a", "b", "c"]
    assert frame[["p_healthy", "p_ill"]].sum(axis=1).tolist() == pytest.approx([1, 1, 1])
    assert frame.attrs["warnings"] == [
        "patient: dose is outside the range of training, 0.021 to 0.983, in 1 of 3 rows",
        "patient: no links in 1 of 3 rows. Check that the ids of the edges match",
    ]
    done = command("predict", result.folder, "--site", june)
    assert done.stderr.splitlines() == [f"ramet: warning: {w}." for w in frame.attrs["warnings"]]


def test_ranges_stay_with_the_clients_state(tmp_path: Path) -> None:
    files = _sites(tmp_path, node_site)
    result = _run(tmp_path, "fed-gcn", files)
    ages = pd.read_csv(files[0].parent / "patients.csv")["age"].astype(np.float32)
    ranges = Trained.open(result.folder).ranges("north")
    assert ranges["patient"]["age"] == (ages.min(), ages.max())
    everything = [path for path in result.folder.rglob("*") if path.is_file()]
    holding = [path.name for path in everything if b'"ranges"' in path.read_bytes()]
    assert holding == ["site.json"] * 2
    assert not any((result.folder / "server").rglob("site.json"))


def _messy_run(folder: Path) -> tuple[Result, Path]:
    files = [messy_site(folder / name, seed, 60) for seed, name in enumerate(("north", "south"))]
    return _run(folder, "fed-gcn", files), files[0]


MESSY_JUNE = """\
site = "north"
[nodes.patient]
file = "june.csv"
[nodes.patient.columns]
age = "number"
bmi = "number"
ward = { kind = "category", categories = ["surgery"] }
admitted = "date"
smoker = "flag"
"""


def test_columns_are_prepared_as_in_training(tmp_path: Path) -> None:
    result, north = _messy_run(tmp_path)
    rows = [("a", 900, 24, "intensive", "2024-02-01"), ("b", 50, "", "moon", "2091-01-01")]
    write_csv(tmp_path / "june" / "june.csv", "id,age,bmi,ward,admitted", rows)
    june = tmp_path / "june" / "june.toml"
    june.write_text(MESSY_JUNE)
    trained = Trained.open(result.folder)
    given = read_input(trained, "north", june)
    assert isinstance(given.graph, NodeGraph)
    prepared = trained.preparation.types["patient"]
    table = pd.DataFrame(given.graph.features.numpy(), columns=[*given.features["patient"]])
    assert table["age"][1] == pytest.approx((50 - prepared["age"].mean) / prepared["age"].scale)
    assert table["bmi missing"].tolist() == [0, 1]
    assert table["ward=intensive"].tolist() == [1, 0]
    assert table["ward other"].tolist() == [0, 1]
    assert table["smoker missing"].tolist() == [1, 1]
    ages = pd.read_csv(north.parent / "patients.csv")["age"]
    dates = sorted(pd.read_csv(north.parent / "patients.csv")["admitted"])
    assert [*given.warnings] == [
        f"patient: admitted is outside the range of training, {dates[0]} to {dates[-1]}, "
        "in 1 of 2 rows",
        f"patient: age is outside the range of training, {ages.min():g} to {ages.max():g}, "
        "in 1 of 2 rows",
        "patient: smoker is not in the data, so it counts as missing in 2 rows",
        "patient: ward has categories that the model does not know in 1 of 2 rows: 'moon'",
        "patient: no links in 2 of 2 rows. Check that the ids of the edges match",
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"age", "dose"', '"age"', "this is not what the model was trained on: its features"),
        ("[edges.contact]", "[edges.visit]", "also include visit"),
        ('site = "north"\n', 'site = "north"\nclasses = ["x", "y"]\n', "its classes lack healthy"),
        ("june.csv", "may.csv", "there is no 'may.csv'"),
        ('site = "north"\n', 'site = "west"\nsites = 3\n', "there is no such key"),
    ],
)
def test_new_data_that_does_not_fit(before: str, after: str, message: str, tmp_path: Path) -> None:
    result = _run(tmp_path, "fed-gcn", _sites(tmp_path, node_site))
    june = _june(tmp_path / "june", [("a", 1, 2), ("b", 1, 2)], NEW_NODES.replace(before, after))
    done = command("predict", result.folder, "--site", june)
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_a_new_site_uses_a_model_that_all_clients_share(tmp_path: Path) -> None:
    files = _sites(tmp_path, node_site)
    west = node_site(tmp_path / "west", 7)
    shared = _run(tmp_path, "fedavg", files)
    pd.testing.assert_frame_equal(shared.predict(site=west), shared.predict("south", west))
    private = _run(tmp_path, "local-gcn", files)
    done = command("predict", private.folder, "--site", west)
    assert done.code == 2
    assert "west did not take part in this run" in done.stderr
    assert "--client: north, south" in done.stderr
    assert len(private.predict("north", west)) == 40
    with pytest.raises(RametError, match=r"unknown client 'nroth'. Did you mean 'north'"):
        private.predict("nroth", west)
    with pytest.raises(RametError, match="whose model"):
        private.predict()


def test_without_a_file_the_data_of_training_is_predicted(tmp_path: Path) -> None:
    files = _sites(tmp_path, node_site)
    result = _run(tmp_path, "fed-gcn", files)
    pd.testing.assert_frame_equal(result.predict("south"), result.predict(site=files[1]))


@pytest.mark.parametrize(
    ("method", "setting"), [("fedstar", "tiny"), ("fedlit", "planted"), ("fedda", "planted-hetero")]
)
def test_built_in_data_is_predicted_by_client(method: str, setting: str, tmp_path: Path) -> None:
    result = ramet.run(method, setting, rounds=1, out=tmp_path / "run")
    trained = Trained.open(result.folder)
    client = trained.clients[0]
    relation = None
    if setting == "planted-hetero":
        relation = result.samples(client).graph.relations[0].name
    frame = result.predict(client, relation=relation)
    assert len(frame) > 0
    toml = node_site(tmp_path / "north")
    with pytest.raises(RametError, match="Leave out --site"):
        result.predict(client, toml)


def test_candidates_are_the_likeliest_unknown_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _sites(tmp_path, link_site)
    result = _run(tmp_path, "fed-hgn", files)
    frame = result.predict(site=files[0], relation="takes", top=3)
    known = pd.read_csv(files[0].parent / "takes.csv")
    assert not {*zip(frame["source"], frame["target"], strict=True)} & {
        *known.itertuples(index=False, name=None)
    }
    assert frame.groupby("source")["rank"].agg(list).map(lambda ranks: ranks == [1, 2, 3]).all()

    given = read_input(Trained.open(result.folder), "north", files[0])
    graph, model = given.graph, result.model("north")
    assert isinstance(graph, HeteroGraph)
    assert isinstance(model, LinkScorer)
    head, tails = graph.type_starts[2] + 4, torch.arange(10)  # drugs, genes, patients
    kind = [relation.name for relation in graph.relations].index("takes")
    pairs = Links(torch.full((10,), head), tails, torch.full((10,), kind))
    with torch.no_grad():
        chances = model.scores(model.encode(graph), pairs).double().sigmoid().numpy()
    of_p4 = set(known[known["source"] == "p4"]["target"])
    ranked = [f"d{drug}" for drug in np.argsort(-chances) if f"d{drug}" not in of_p4][:3]
    rows = frame[frame["source"] == "p4"]
    assert rows["target"].tolist() == ranked
    expected = [chances[int(drug[1:])] for drug in ranked]
    np.testing.assert_allclose(rows["probability"], expected, rtol=0, atol=1e-6)

    monkeypatch.setattr(scores, "_PAIRS_AT_ONCE", 25)
    pd.testing.assert_frame_equal(result.predict(site=files[0], relation="takes", top=3), frame)
    monkeypatch.setattr(scores, "_all_scores", scores.scores_one_by_one)
    one_by_one = result.predict(site=files[0], relation="takes", top=3)
    pd.testing.assert_frame_equal(one_by_one, frame, rtol=0, atol=1e-6)

    everything = result.predict(site=files[0], relation="takes", top=99, known=True)
    assert len(everything) == 30 * 10
    friends = result.predict(site=files[0], relation="meets", top=99)
    meets = pd.read_csv(files[0].parent / "meets.csv")
    assert len(friends) == 30 * 29 - 2 * len(meets)
    assert (friends["source"] != friends["target"]).all()
    with pytest.raises(RametError, match="which links\\? Add --relation: acts-on, meets, takes"):
        result.predict(site=files[0])
    with pytest.raises(RametError, match=r"unknown relation 'take'. Did you mean 'takes'"):
        result.predict(site=files[0], relation="take")


def test_new_links_may_lack_a_node_type(tmp_path: Path) -> None:
    result = _run(tmp_path, "fed-hgn", _sites(tmp_path, link_site))
    folder = tmp_path / "june"
    write_csv(folder / "patients.csv", "id,age", [("new", 3)])
    write_csv(folder / "drugs.csv", "id", [("d0",), ("d1",)])
    (folder / "june.toml").write_text(
        'site = "north"\n[nodes.patient]\nfile = "patients.csv"\nfeatures = ["age"]\n'
        '[nodes.drug]\nfile = "drugs.csv"\n'
    )
    frame = result.predict(site=folder / "june.toml", relation="takes")
    assert sorted(frame["target"]) == ["d0", "d1"]
    assert frame["source"].tolist() == ["new", "new"]


def test_graphs_are_predicted_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _sites(tmp_path, graph_site)
    result = _run(tmp_path, "fedstar", files)
    frame = result.predict(site=files[0])
    assert frame["id"].tolist() == [f"g{number}" for number in range(20)]
    (files[0].parent / "graphs.csv").write_text("id\n" + "".join(f"g{n}\n" for n in range(20)))
    monkeypatch.setattr(scores, "_NODES_AT_ONCE", 6)
    pd.testing.assert_frame_equal(result.predict(site=files[0]), frame, rtol=0, atol=1e-6)


def test_integer_ids_of_parquet_stay_integers(tmp_path: Path) -> None:
    result = _run(tmp_path, "fed-gcn", _sites(tmp_path, node_site))
    folder = tmp_path / "june"
    folder.mkdir()
    pd.DataFrame({"id": [7, 3], "age": [0.1, 0.2], "dose": [0.5, 0.5]}).to_parquet(
        folder / "june.parquet"
    )
    (folder / "june.toml").write_text(
        NEW_NODES.split("[edges")[0].replace("june.csv", "june.parquet")
    )
    assert result.predict(site=folder / "june.toml")["id"].tolist() == [7, 3]


def test_a_site_predicts_from_its_own_folder(tmp_path: Path) -> None:
    result, north = _messy_run(tmp_path)
    (state,) = (result.folder / "clients").glob("*/north")
    site = tmp_path / "elsewhere" / "hospitals-north"
    shutil.copytree(state, site / "state" / "clients" / state.parent.name / "north")
    for folder in (site, site / "state", site / "state" / "clients" / state.parent.name):
        done = command("predict", folder, "--site", north, "--out", tmp_path / "p.csv")
        assert done.code == 0, done.stderr
        theirs = pd.read_csv(tmp_path / "p.csv")
        ours = result.predict(site=north)
        np.testing.assert_allclose(theirs["p_ill"], ours["p_ill"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("out", ["predictions.xlsx", "nowhere/predictions.csv"])
def test_an_output_that_cannot_be_written(out: str, tmp_path: Path) -> None:
    done = command("predict", tmp_path, "--out", tmp_path / out)
    assert (done.code, done.stderr.count("\n")) == (2, 1)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    done = command("predict", tmp_path)
    assert done.code == 2
    assert "has neither a run nor a site's final model" in done.stderr
