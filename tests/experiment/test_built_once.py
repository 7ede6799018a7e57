"""What is read and built before and in the first round: each thing once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ramet
from own_sites import messy_site
from ramet.data.own import tables
from ramet.experiment import Experiment
from ramet.partition.by_dataset import GraphSetting
from ramet.partition.own import OwnSetting
from ramet.rules import networks


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each thing has been done when the last batch is trained."""
    done: Counter[str] = Counter()
    first: Counter[str] = Counter()

    def counted(owner: Any, name: str, what: Callable[..., str]) -> None:
        original = getattr(owner, name)

        def count(*given: Any, **options: Any) -> Any:
            done[what(*given)] += 1
            return original(*given, **options)

        monkeypatch.setattr(owner, name, count)

    counted(Experiment, "__init__", lambda *_: "experiments")
    for setting in (OwnSetting, GraphSetting):
        counted(setting, "client_data", lambda _, client, *__: f"data of {client}")
    read_csv = tables._READERS[".csv"]

    def read(path: Path, *given: Any) -> Any:
        done[f"{path.parent.name}/{path.name}"] += 1
        return read_csv(path, *given)

    monkeypatch.setitem(tables._READERS, ".csv", read)
    built = networks.built
    for module in [one for name, one in sys.modules.items() if name.startswith("ramet.")]:
        if getattr(module, "built", None) is built:
            counted(module, "built", lambda *_: "models")
    backward: Any = torch.Tensor.backward

    def trained(*given: Any, **options: Any) -> None:
        first.clear()
        first.update(done)
        backward(*given, **options)

    monkeypatch.setattr(torch.Tensor, "backward", trained)
    return first


def test_built_in_data(counts: Counter[str], tmp_path: Path) -> None:
    ramet.run("fedavg", "tiny", rounds=1, out=tmp_path / "run")
    assert counts.pop("experiments") == 1
    assert counts.pop("models") <= 4
    assert counts == {f"data of {client}": 1 for client in ("rings", "trees", "blocks")}


def test_own_data(counts: Counter[str], tmp_path: Path) -> None:
    sites = [
        messy_site(tmp_path / name, seed, rows=40) for seed, name in enumerate(("a", "b", "c"))
    ]
    ramet.run("fedavg", "own", rounds=1, out=tmp_path / "run", sites=sites)
    assert counts.pop("experiments") == 1
    assert counts.pop("models") <= 4
    files = {f"{site}/{file}.csv": 1 for site in "abc" for file in ("patients", "contacts")}
    assert counts == {**{f"data of {client}": 1 for client in "abc"}, **files}
