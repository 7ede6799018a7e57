"""One network per country, from PyG's files and from arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ramet
from ramet.data.graphs.node_graph import NodeGraph
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.partition import Reading
from ramet.partition.by_country import twitch

LINKS = np.array([[0, 1, 2, 3, 5], [1, 2, 0, 4, 4]])  # 5-4 has the larger node first


def write_embeddings(root: Path, name: str, nodes: int = 60) -> None:
    """As PyG downloads it: links in both directions, and self loops."""
    draw = np.random.default_rng(1)
    folder = root / "Twitch" / name / "raw"
    folder.mkdir(parents=True)
    np.savez(
        folder / f"{name}.npz",
        features=draw.normal(size=(nodes, 128)).astype(np.float32),
        target=np.arange(nodes) % 2,
        edges=np.concatenate([LINKS.T, LINKS[::-1].T, [[0, 0], [7, 7]]]),
    )


def write_words(root: Path, name: str, nodes: int = 60) -> None:
    (root / "nodes").mkdir(exist_ok=True)
    np.savez(
        root / "nodes" / f"{name}.npz",
        edge_index=LINKS.astype(np.int32),
        x_indptr=np.arange(nodes + 1),
        x_indices=np.arange(nodes) % 7,
        x_data=np.ones(nodes),
        x_shape=np.array([nodes, 7]),
        y=np.arange(nodes) % 2,
    )


def held(setting_features: str, root: Path, client: str = "de") -> NodeGraph:
    setting = twitch(features=setting_features)  # type: ignore[arg-type]
    data = setting.client_data(client, Reading(root, 123))
    assert [part.numel() for part in (data.split.train, data.split.val, data.split.test)] == [
        *(36, 12, 12)
    ]
    return data.content


def test_pygs_files_give_128_features_and_six_countries(tmp_path: Path) -> None:
    write_embeddings(tmp_path, "DE")
    graph = held("embeddings", tmp_path)
    assert (graph.nodes, graph.links, graph.classes) == (60, 5, 2)
    assert graph.features.shape == (60, 128)
    assert twitch().clients == ("de", "en", "es", "fr", "pt", "ru")


def test_words_are_projected_in_the_same_way_everywhere(tmp_path: Path) -> None:
    for name in ("twitch_de", "twitch_zhtw"):
        write_words(tmp_path, name)
    german, chinese = held("words", tmp_path), held("words", tmp_path, "zh")
    assert german.features.shape == (60, 128)
    assert german.features.equal(chinese.features)
    assert german.features[0].equal(german.features[7])  # the same word
    assert bool((german.left < german.right).all())
    assert len(twitch(features="words").clients) == 7


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"twitch_de\.npz does not exist. Point --data"):
        held("words", tmp_path)


def test_the_metric_of_the_setting_is_roc_auc_unless_another_is_chosen(tmp_path: Path) -> None:
    for name in ("de", "engb", "es", "fr", "ptbr", "ru", "zhtw"):
        write_words(tmp_path, f"twitch_{name}")
    facts = {"setting": "twitch", "rounds": 1, "data": tmp_path, "features": "words"}
    done = ramet.run("fedavg", out=tmp_path / "run", **facts)  # type: ignore[arg-type]
    assert done.summary.metric == "roc-auc"
    assert done.summary.baselines["zh"].constant == 0.5
    settings = checked_settings(
        method="fedavg",
        setting="twitch",
        data=tmp_path,
        metric="accuracy",
        options={"features": "words"},
    )
    assert settings.rounds == 100
    chosen = ramet.run("fedavg", out=tmp_path / "two", metric="accuracy", **facts)  # type: ignore[arg-type]
    assert chosen.summary.metric == "accuracy"
