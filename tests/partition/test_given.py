"""PyG objects that `ramet.run` is given as clients."""

from __future__ import annotations

import stat
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import ramet
from own_settings import molecules, people
from own_sites import node_site
from ramet.errors import RametError, RametWarning
from ramet.experiment import RunFolder
from ramet.experiment.named import setting_named
from ramet.partition.given import GIVEN, with_given

PEOPLE = {name: people(seed) for seed, name in enumerate(("north", "east", "south"))}
MOLECULES = {name: molecules(seed) for seed, name in enumerate(("north", "east", "south"))}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of this test."""
    monkeypatch.setenv("RAMET_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def kept_files(data: Path) -> list[Path]:
    return sorted((data / GIVEN).rglob("*.safetensors"))


@pytest.mark.parametrize("clients", [PEOPLE, MOLECULES], ids=["nodes", "graphs"])
def test_every_way_of_running_gives_the_same_numbers(clients: Any, tmp_path: Path) -> None:
    """In one process, in workers, stopped and resumed, and by the command that it names."""
    first = ramet.run("fedavg", clients=clients, split=0.2, rounds=3, out=tmp_path / "first")
    workers = ramet.run(
        "fedavg", clients=clients, split=0.2, rounds=3, workers=2, out=tmp_path / "workers"
    )
    short = ramet.run("fedavg", clients=clients, split=0.2, rounds=1, out=tmp_path / "short")
    resumed = ramet.resume(short.folder, rounds=3, workers=2)
    options: dict[str, Any] = RunFolder(first.folder).experiment().settings.options
    again = ramet.run("fedavg", "given", rounds=3, out=tmp_path / "again", **options)
    assert len({run.summary.sha256 for run in (first, workers, resumed, again)}) == 1
    other = ramet.run("fedavg", clients=clients, split=0.3, rounds=3, out=tmp_path / "other")
    assert other.summary.sha256 != first.summary.sha256


def test_models_are_used_as_those_of_any_run(tmp_path: Path) -> None:
    run = ramet.run("fedavg", clients=PEOPLE, rounds=2, out=tmp_path / "run")
    assert len(run.predict("east")) == 40
    assert run.evaluation("east")["test"].metrics["accuracy"] >= 0
    assert run.export("east", tmp_path / "exported", programs=False).folder.is_dir()
    with pytest.raises(RametError, match=r"graphs without a site's file.* Leave out --site"):
        run.predict("east", site=node_site(tmp_path / "site"))
    longer = ramet.run("fedavg", clients=PEOPLE, rounds=1, start_from=run.folder)
    assert longer.summary.rounds == 1


def test_equal_graphs_are_kept_once_for_their_owner(data: Path, tmp_path: Path) -> None:
    for number in range(2):
        ramet.run("local", clients=PEOPLE, rounds=1, out=tmp_path / f"{number}")
    assert [file.stem for file in kept_files(data)] == ["east", "north", "south"]
    (folder,) = {file.parent for file in kept_files(data)}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with_given("tiny", {"clients": {**PEOPLE, "east": people(9)}}, data)
    assert len(kept_files(data)) == 6


def test_without_the_copy_a_run_says_how_to_get_it_back(data: Path, tmp_path: Path) -> None:
    run = ramet.run("fedavg", clients=PEOPLE, rounds=1, out=tmp_path / "run")
    for file in kept_files(data):
        file.unlink()
    with pytest.raises(RametError, match=r"Give the same `clients` to ramet\.run once more"):
        ramet.resume(run.folder, rounds=2)
    with_given("tiny", {"clients": PEOPLE}, data)
    assert ramet.resume(run.folder, rounds=2).summary.rounds == 2


def test_a_changed_copy_is_noticed(data: Path, tmp_path: Path) -> None:
    run = ramet.run("fedavg", clients=PEOPLE, rounds=1, out=tmp_path / "run")
    files = kept_files(data)
    files[0].write_bytes(files[1].read_bytes())
    with pytest.raises(RametError, match="the data of east has changed since the run started"):
        ramet.resume(run.folder, rounds=2)


def test_masks_count_unless_a_share_is_given(tmp_path: Path) -> None:
    clients = {name: people(seed, masks=True) for seed, name in enumerate(("a", "b"))}
    sizes = {}
    for split in (None, 0.1):
        run = ramet.run("local", clients=clients, split=split, rounds=1, out=tmp_path / f"{split}")
        sizes[split] = run.samples("a").split.test.tolist()
    assert sizes[None] == [*range(30, 40)]
    assert len(sizes[0.1]) == 4


def test_classes_are_those_of_all_clients(tmp_path: Path) -> None:
    without = people(1)
    without.y = torch.zeros_like(without.y)
    with pytest.warns(RametWarning, match="only b has the class 1, so the others have nothing"):
        run = ramet.run("fedavg", clients={"a": without, "b": people(2)}, rounds=1)
    assert run.samples("a").graph.classes == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_given("tiny", {"clients": PEOPLE}, tmp_path)


def test_other_columns_on_purpose_share_what_fits(tmp_path: Path) -> None:
    wide = people(5)
    wide.x = torch.cat([wide.x, wide.x], dim=1)
    clients = {"narrow": people(1), "wide": wide}
    run = ramet.run(
        "fedavg", clients=clients, same_schema=False, layers=3, rounds=1, out=tmp_path / "run"
    )
    assert 0 < run.summary.model.shared_scalars < run.summary.model.scalars["wide"]


def test_a_number_of_clients_is_the_option_of_a_setting(tmp_path: Path) -> None:
    run = ramet.run("local", "tiny", clients=2, rounds=1, out=tmp_path / "run")
    assert len(run.summary.scores.clients) == 2


def widened(data: Data) -> Data:
    wide = data.clone()
    wide.x = torch.ones(40, 5)
    return wide


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "nobody": ({"clients": {}}, "`clients` is empty. Give a dict with a PyG object"),
    "a name": ({"clients": {"a/b": people(1)}}, "'a/b' cannot be a client's name"),
    "a number": ({"clients": {1: people(1)}}, "1 cannot be a client's name"),
    "types": ({"clients": {"a": HeteroData()}}, "a is HeteroData, but a torch_geometric"),
    "both": (
        {"clients": {"a": people(1), "b": molecules(1)}},
        "a is one graph and b is not. Give a Data for each client, to classify nodes",
    ),
    "no y": ({"clients": {"a": Data(x=torch.ones(5, 1))}}, "a has no y. Give each node its class"),
    "widths": (
        {"clients": {"a": people(1), "b": widened(people(1))}},
        "a has 3 features per node and b 5. .* or write same_schema=False",
    ),
    "masks of one": (
        {"clients": {"a": people(1), "b": people(2, masks=True)}},
        "a has no masks, but others have. Add them, or write split=0.2",
    ),
    "few": ({"clients": {"a": people(1), "b": people(2, nodes=3)}}, "b has 3 nodes with a class"),
    "a large share": ({"clients": PEOPLE, "split": 0.5}, "split=0.5 must be above 0 and below 0.5"),
    "a word": ({"clients": PEOPLE, "split": "masks"}, "split=masks must be above 0 and below 0.5"),
    "a setting": ({"clients": PEOPLE, "setting": "cora"}, "there is no setting cora. Leave out"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_said_before_anything_is_written(mistake: str, data: Path) -> None:
    given, message = MISTAKES[mistake]
    with pytest.raises(RametError, match=message):
        ramet.run("fedavg", rounds=1, **given)
    assert not data.exists()


def test_the_setting_without_options_has_no_clients() -> None:
    assert setting_named(GIVEN, {}).clients == ()
    with pytest.raises(RametError, match="no sites are given"):
        ramet.run("fedavg", GIVEN, rounds=1, task="node-classification")
