"""One client per hospital, from nilearn's folder and from arrays of correlations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import ramet
from ramet.data.sources.connectomes import REGIONS, read_people
from ramet.errors import RametError
from ramet.models.aligned import AlignedGCN, Linear
from ramet.models.shape import GraphShape
from ramet.partition import Reading
from ramet.partition.by_hospital import abide
from ramet.runs import given_experiment
from ramet.tasks import GraphClassification
from ramet.training.graph_gradients import in_one_pass, one_by_one

HEADER = "SUB_ID,FILE_ID,SITE_ID,DX_GROUP,AGE_AT_SCAN,SEX"
PAIRS = REGIONS * (REGIONS - 1) // 2


def write_series(root: Path, people: dict[str, tuple[str, int]]) -> None:
    """As nilearn lays them out: a row per time step, a column per region, a line of names."""
    folder = root / "abide" / "ABIDE_pcp" / "cpac" / "nofilt_noglobal"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    rows = [HEADER]
    for number, (name, (site, group)) in enumerate(people.items()):
        rows.append(f"{number},{name},{site},{group},{20 + number},1")
        series = draw.normal(size=(12, REGIONS))
        series[:, 1] = series[:, 0] if group == 1 else -series[:, 0]
        series[:, 2] = 0.0
        names = "\t".join(f"#{region}" for region in range(REGIONS))
        np.savetxt(folder / f"{name}_rois_cc200.1D", series, header=names, comments="")
    rows.append(f"99,no_filename,{site},1,30,1")
    (folder.parent.parent / "Phenotypic_V1_0b_preprocessed1.csv").write_text("\n".join(rows))


def write_arrays(root: Path, sites: dict[str, int]) -> None:
    """Correlations that tell autism by those of region 0 alone."""
    draw = np.random.default_rng(0)
    names = np.array([site for site, count in sites.items() for _ in range(count)])
    autism = (np.arange(names.size) % 2).astype(np.int8)
    correlations = draw.normal(0, 0.05, size=(names.size, PAIRS))
    correlations[:, : REGIONS - 1] = np.where(autism == 1, 0.5, -0.5)[:, np.newaxis]
    (root / "abide").mkdir(parents=True)
    np.savez(
        root / "abide" / "abide_cc200.npz",
        correlations=correlations.astype(np.float16),
        autism=autism,
        age=np.arange(names.size, dtype=np.float32),
        site=names,
    )


def test_series_become_correlations_by_site(tmp_path: Path) -> None:
    write_series(tmp_path, {"b_2": ("UM_1", 1), "a_1": ("UM_1", 2), "c_3": ("NYU", 1)})
    people = read_people(tmp_path)
    assert people.site == ("um-1", "um-1", "nyu")  # a_1, b_2, c_3
    assert people.autism.tolist() == [0, 1, 1]
    assert people.age.tolist() == [21.0, 20.0, 22.0]
    assert people.correlations[:, 0].tolist() == [-1.0, 1.0, 1.0]
    assert people.correlations[:, 1].eq(0).all()  # the third region has an empty series
    assert people.of("nyu").correlations.equal(people.correlations[2:])


def test_without_files_it_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"does not exist. Download ABIDE with nilearn's fetch_ab"):
        read_people(tmp_path)
    write_series(tmp_path, {"a_1": ("UM_1", 2)})
    with pytest.raises(RametError, match="no series of a person at nyu"):
        read_people(tmp_path).of("nyu")


def test_correlations_equal_those_that_were_prepared(data_root: Path) -> None:
    """One person per site; a few of 398,000 values differ by rounding to half precision."""
    if not (data_root / "abide" / "ABIDE_pcp").exists():
        pytest.skip("the series are not in RAMET_DATA")
    from ramet.data.sources import connectomes

    folder = data_root / "abide" / "ABIDE_pcp" / "cpac" / "nofilt_noglobal"
    files = sorted(folder.glob("*.1D"))
    with np.load(data_root / "abide" / "abide_cc200.npz") as arrays:
        rows = [[*arrays["subject"]].index(file.name.partition("_rois")[0]) for file in files]
        prepared = arrays["correlations"][rows]
    computed = connectomes._correlated(files).numpy()
    assert len(files) == 20
    assert (computed != prepared).mean() < 2e-4
    assert np.abs(computed.view(np.int16) - prepared.view(np.int16)).max() <= 1


def test_a_graph_links_the_most_correlated_regions(tmp_path: Path) -> None:
    write_arrays(tmp_path, {"NYU": 20})
    data = abide(density=0.05, centre="none").client_data("nyu", Reading(tmp_path, 1))
    block, people = data.content, read_people(tmp_path)
    assert (block.graphs, block.aligned, block.feature_width) == (20, REGIONS, REGIONS)
    assert [part.numel() for part in (data.split.train, data.split.val, data.split.test)] == [
        *(12, 4, 4)
    ]
    batch = block.cut(torch.tensor([3]))
    pairs = people.correlations[3].float()
    rows, columns = torch.triu_indices(REGIONS, REGIONS, 1)
    matrix = torch.zeros(REGIONS, REGIONS)
    matrix[rows, columns] = matrix[columns, rows] = pairs
    assert batch.x.equal(matrix)
    linked = torch.zeros(REGIONS, REGIONS, dtype=torch.bool)
    linked[batch.edge_index[0], batch.edge_index[1]] = True
    assert batch.edge_index.size(1) == 2 * round(0.05 * PAIRS)
    off_diagonal = ~torch.eye(REGIONS, dtype=torch.bool)
    assert matrix[linked].min() >= matrix[~linked & off_diagonal].max()


def test_sites_subtract_the_mean_of_their_own_training_people(tmp_path: Path) -> None:
    write_arrays(tmp_path, {"NYU": 20, "YALE": 30})
    own = abide().client_data("yale", Reading(tmp_path, 1))
    features = own.content.features.view(30, REGIONS, REGIONS)
    assert features[own.split.train].mean(dim=0).abs().max() < 1e-6
    assert features[own.split.test].mean(dim=0).abs().max() > 1e-3


def test_together_everybody_is_in_the_same_part_as_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path, {"NYU": 20, "YALE": 30})
    monkeypatch.setattr("ramet.partition.by_hospital._HOSPITALS", ("nyu", "yale"))
    apart = [abide().client_data(site, Reading(tmp_path, 1)) for site in ("nyu", "yale")]
    both = abide(together=True).client_data("all-hospitals", Reading(tmp_path, 1))
    assert both.content.features.equal(torch.cat([one.content.features for one in apart]))
    for part in ("train", "val", "test"):
        first, second = (getattr(one.split, part) for one in apart)
        assert getattr(both.split, part).equal(torch.cat([first, second + 20]))


@pytest.mark.parametrize("network", ["linear", "aligned-gcn"])
def test_aligned_networks_learn_what_one_region_tells(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path, {"NYU": 40, "YALE": 40})
    monkeypatch.setattr("ramet.partition.by_hospital._HOSPITALS", ("nyu", "yale"))
    run = ramet.run(
        "fedavg", "abide", network=network, rounds=15, data=tmp_path, out=tmp_path / "run", epochs=3
    )
    assert run.summary.scores.test > 0.98


@pytest.mark.parametrize("network", [Linear, AlignedGCN])
def test_networks_for_aligned_graphs_refuse_others(network: Callable[..., nn.Module]) -> None:
    with pytest.raises(RametError, match="needs the same nodes in every graph"):
        network(GraphShape(features=3, structure=0, classes=2))


def test_methods_with_structure_encodings_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path, {"NYU": 20, "YALE": 20})
    monkeypatch.setattr("ramet.partition.by_hospital._HOSPITALS", ("nyu", "yale"))
    run = ramet.run("fedstar", "abide", rounds=1, data=tmp_path, out=tmp_path / "run", layers=1)
    assert run.summary.traffic.up_per_client_round > 0
    assert run.samples("nyu").block.structure.shape == (20 * REGIONS, 32)


@pytest.mark.parametrize("network", [Linear, AlignedGCN])
@pytest.mark.parametrize("clip", [0.05, 1e6])
def test_one_pass_gives_the_clipped_gradients_of_aligned_networks(
    network: Callable[..., nn.Module], clip: float, tmp_path: Path
) -> None:
    write_arrays(tmp_path, {"NYU": 20})
    task = GraphClassification()
    samples = task.samples(abide().client_data("nyu", Reading(tmp_path, 1)))
    torch.manual_seed(0)
    model, graphs = network(task.shape(samples)).eval(), samples.split.train
    found = [way(model, task, samples, graphs, clip) for way in (in_one_pass, one_by_one)]
    torch.testing.assert_close(found[0].norms, found[1].norms, rtol=1e-4, atol=1e-6)
    assert found[0].norms.min() > 0.05  # clipped
    for name, gradient in found[1].gradients.items():
        torch.testing.assert_close(found[0].gradients[name], gradient, rtol=1e-3, atol=1e-4)


def test_noise_for_one_person_is_refused_if_a_person_changes_the_features_of_others(
    tmp_path: Path,
) -> None:
    private = {"network": "linear", "data": tmp_path, "dp": "unit=graph,epsilon=8,delta=1e-4"}
    with pytest.raises(RametError, match="a site's mean is subtracted from all of its people"):
        given_experiment("fedavg", "abide", {}, private)
    given_experiment("fedavg", "abide", {"centre": "none"}, private)
    given_experiment("fedavg", "abide", {}, {**private, "dp": "unit=site,epsilon=8,delta=1e-4"})
