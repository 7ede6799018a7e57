from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest
import torch

import ramet
from own_sites import graph_site, node_site
from ramet.data.own.preparation import agreed
from ramet.data.own.site import read_site
from ramet.data.splits import has_rare_class


@pytest.mark.parametrize(
    ("counts", "rare"),
    [
        ((80, 20), False),  # exactly 40 % of an even share
        ((81, 19), True),
        ((100, 0), True),
        ((17, 17, 17, 17, 16, 16), False),  # even, though each has less than 20 %
        ((90, 5, 5), True),
    ],
)
def test_a_class_is_rare_below_forty_percent_of_an_even_share(
    counts: tuple[int, ...], rare: bool
) -> None:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    assert has_rare_class(labels, len(counts)) is rare


def rare_site(folder: Path) -> Path:
    path = node_site(folder, patients=60)
    table = pd.read_csv(folder / "patients.csv")
    table["state"] = ["ill" if number % 10 == 0 else "healthy" for number in range(60)]
    table.to_csv(folder / "patients.csv", index=False)
    return path


def test_one_site_with_a_rare_class_changes_the_default_metric_of_all(tmp_path: Path) -> None:
    north, south = node_site(tmp_path / "north"), rare_site(tmp_path / "south")
    sums = {path.parent.name: read_site(path).sums for path in (north, south)}
    assert (sums["north"].rare_classes, sums["south"].rare_classes) == (False, True)
    assert sums["south"].text() == '{"rare_classes":true}'  # nothing else leaves
    assert agreed(sums).metric == "balanced-accuracy"
    assert agreed({"north": sums["north"]}).metric is None


def test_runs_use_the_agreed_metric_unless_one_is_chosen(tmp_path: Path) -> None:
    sites = shlex.join([str(node_site(tmp_path / "north")), str(rare_site(tmp_path / "south"))])
    default = ramet.run("fedavg", "own", rounds=1, out=tmp_path / "a", sites=sites)
    assert default.summary.metric == "balanced-accuracy"
    # always healthy: the recalls of the two classes are 1 and 0
    assert default.summary.baselines["south"].constant == 0.5
    assert ramet.resume(tmp_path / "a").summary == default.summary
    chosen = ramet.run(
        "fedavg", "own", rounds=1, out=tmp_path / "b", sites=sites, metric="accuracy"
    )
    assert chosen.summary.metric == "accuracy"
    assert chosen.summary.baselines["south"].constant == pytest.approx(11 / 12, abs=0.05)
    assert default.summary.sha256 == chosen.summary.sha256
    later = ramet.run(
        "fedavg", "own", rounds=1, out=tmp_path / "c", sites=sites, start_from=tmp_path / "a"
    )
    assert later.summary.metric == "balanced-accuracy"


def test_even_classes_keep_accuracy(tmp_path: Path) -> None:
    sites = shlex.join([str(graph_site(tmp_path / name)) for name in ("north", "south")])
    done = ramet.run("fedavg", "own", rounds=1, out=tmp_path / "run", sites=sites)
    assert done.summary.metric == "accuracy"
