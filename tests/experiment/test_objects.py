"""Methods that are given as objects instead of by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ramet
from own_sites import node_site
from ramet.errors import RametError
from ramet.experiment.objects import method_name, object_factory
from ramet.methods import METHODS, fedavg, fedprox


def test_what_built_in_factories_return_has_their_name() -> None:
    assert {name: method_name(factory()) for name, factory in METHODS.items()} == {
        name: name for name in METHODS
    }


def test_an_object_runs_as_its_name_does(tmp_path: Path) -> None:
    given = ramet.run(fedavg(), "tiny", rounds=1, out=tmp_path / "default")
    assert (given.folder / "settings.json").read_text().count('"fedavg"') == 1
    changed = ramet.run(fedprox(mu=0.5), "tiny", rounds=2, epochs=2, out=tmp_path / "object")
    named = ramet.run("fedprox", "tiny", rounds=2, epochs=2, mu=0.5, out=tmp_path / "named")
    assert changed.summary.sha256 == named.summary.sha256
    longer = ramet.resume(changed.folder, rounds=3)
    assert longer.summary.rounds == 3


@pytest.mark.parametrize("given", [{"engine": "ray"}, {"engine": "superlink"}, {"workers": 2}])
def test_other_processes_do_not_have_the_object(given: dict[str, Any], tmp_path: Path) -> None:
    mine = replace(fedavg(), name="mine")
    with pytest.raises(RametError, match=r"mine\S* is an object that only this .*file\.py"):
        ramet.run(mine, "tiny", out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()
    with pytest.raises(RametError, match="'object:elsewhere' was given as an object"):
        object_factory("object:elsewhere")


def test_what_is_no_method_is_refused() -> None:
    with pytest.raises(RametError, match=r"of type function.*such as ramet\.fedavg\(\)"):
        ramet.run(fedavg, "tiny")  # type: ignore[arg-type]


def test_sites_are_a_path_or_a_list_of_paths(tmp_path: Path) -> None:
    files = [node_site(tmp_path / "in the" / "north"), node_site(tmp_path / "south", seed=2)]
    named = [f"'{files[0]}'", str(files[1])]
    runs = [
        ramet.run("fedavg", "own", sites=sites, rounds=1, out=tmp_path / f"run {index}")
        for index, sites in enumerate((" ".join(named), files, tuple(map(str, files))))
    ]
    assert len({run.summary.sha256 for run in runs}) == 1
    alone = ramet.run("local", "own", sites=files[0], rounds=1, out=tmp_path / "alone")
    assert len(alone.summary.scores.clients) == 1
