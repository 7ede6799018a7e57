"""Correlations between the regions of people's brains, from the files that nilearn downloads.

ABIDE I, preprocessed by the Preprocessed Connectomes Project: pipeline C-PAC, no filter, no global
signal regression, 200 regions of the atlas CC200. https://doi.org/10.3389/conf.fninf.2013.09.00041
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.sources.cache import cached
from ramet.errors import RametError

REGIONS = 200
_FORMAT = 1
_FOLDER = Path("abide") / "ABIDE_pcp"
_SERIES = Path("cpac") / "nofilt_noglobal"
_PHENOTYPES = "Phenotypic_V1_0b_preprocessed1.csv"
_ENDING = "_rois_cc200.1D"
_PREPARED = Path("abide") / "abide_cc200.npz"
_FETCH = (
    "fetch_abide_pcp(data_dir='DATA/abide', pipeline='cpac', band_pass_filtering=False, "
    "global_signal_regression=False, derivatives=['rois_cc200'], quality_checked=False)"
)


@dataclass(frozen=True)
class People:
    """The people that some sites have scanned, by the names of their files."""

    correlations: Tensor  # [people, pairs] float16, the upper triangle row by row
    autism: Tensor  # [people] 1 or 0
    age: Tensor  # [people] years
    site: tuple[str, ...]

    def of(self, site: str) -> People:
        """The people of one site."""
        own = torch.tensor([row for row, one in enumerate(self.site) if one == site])
        if not own.numel():
            raise RametError(
                f"there is no series of a person at {site}. Download all of them with nilearn's "
                f"{_FETCH}, where DATA is the folder of --data."
            )
        return People(
            self.correlations[own], self.autism[own], self.age[own], (site,) * own.numel()
        )


@lru_cache(maxsize=2)
def read_people(root: Path) -> People:
    """Everybody whose series is in the folder, or in the arrays that hold their correlations.

    Correlations are rounded to half precision, as the arrays have them.
    """
    if (root / _PREPARED).exists():
        with np.load(root / _PREPARED) as arrays:
            return _people({key: arrays[key] for key in arrays.files}, [*map(str, arrays["site"])])
    rows = _phenotypes(root)
    files = [root / _FOLDER / _SERIES / f"{row['FILE_ID']}{_ENDING}" for row in rows]
    sizes = [[file.name, file.stat().st_size] for file in files]
    stored = cached(root, "abide", [_FORMAT, sizes], lambda: {"correlations": _correlated(files)})
    columns = {
        "correlations": stored["correlations"].numpy(),
        "autism": np.array([row["DX_GROUP"] == "1" for row in rows]),
        "age": np.array([float(row["AGE_AT_SCAN"]) for row in rows]),
    }
    return _people(columns, [row["SITE_ID"] for row in rows])


def _people(columns: dict[str, NDArray[np.generic]], sites: list[str]) -> People:
    return People(
        torch.from_numpy(np.asarray(columns["correlations"], dtype=np.float16)),
        torch.from_numpy(np.asarray(columns["autism"], dtype=np.int64)),
        torch.from_numpy(np.asarray(columns["age"], dtype=np.float32)),
        tuple(site.lower().replace("_", "-") for site in sites),
    )


def _phenotypes(root: Path) -> list[dict[str, str]]:
    """The rows of the people whose series are there, sorted by the names of their files."""
    import csv

    path = root / _FOLDER / _PHENOTYPES
    if not path.exists():
        raise RametError(
            f"{path} does not exist. Download ABIDE with nilearn's {_FETCH}, where DATA is the "
            "folder of --data. Its licence excludes commercial use."
        )
    with path.open(newline="") as lines:
        rows = [*csv.DictReader(lines)]
    there = {file.name for file in (root / _FOLDER / _SERIES).glob(f"*{_ENDING}")}
    known = [row for row in rows if f"{row['FILE_ID']}{_ENDING}" in there]
    return sorted(known, key=lambda row: row["FILE_ID"])


def _correlated(files: list[Path]) -> Tensor:
    if not files:
        raise RametError(
            f"there are no series (*{_ENDING}). Download them with nilearn's {_FETCH}."
        )
    return torch.stack([_pairs(file) for file in files])


def _pairs(file: Path) -> Tensor:  # [pairs]
    """The correlations of a person's regions; 0 where a region has an empty series."""
    series = np.loadtxt(file)
    if series.ndim != 2 or series.shape[1] != REGIONS:
        raise RametError(f"{file.name} has shape {series.shape}, not a column for each region.")
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.asarray(np.nan_to_num(np.corrcoef(series.T)))
    return torch.from_numpy(matrix[np.triu_indices(REGIONS, 1)].astype(np.float16))


def connectomes(pairs: Tensor, linked_by: Tensor, labels: Tensor, density: float) -> GraphBlock:
    """A graph per person, whose nodes are regions, with a row of the matrix as features.

    Args:
        pairs: [people, pairs] the features, such as centred correlations.
        linked_by: [people, pairs] correlations; the pairs with the largest ones are linked.
        labels: [people]
        density: the share of pairs that are linked.
    """
    people = labels.numel()
    largest = linked_by.float().topk(max(1, round(density * pairs.size(1))), dim=1).indices
    linked = _matrices(torch.zeros(pairs.shape, dtype=torch.bool).scatter_(1, largest, True))
    return GraphBlock(
        features=_matrices(pairs),
        feature_width=REGIONS,
        structure=torch.empty((REGIONS * people, 0)),
        columns=linked.nonzero()[:, 1].to(torch.int32),
        degrees=linked.sum(dim=1),
        node_starts=REGIONS * torch.arange(people + 1),
        labels=labels,
        aligned=REGIONS,
    )


def _matrices(pairs: Tensor) -> Tensor:  # [people · regions, regions]
    """Symmetric matrices, with zeros on the diagonal."""
    rows, columns = torch.triu_indices(REGIONS, REGIONS, 1)
    place = torch.full((REGIONS, REGIONS), rows.numel())  # the column of zeros
    place[rows, columns] = place[columns, rows] = torch.arange(rows.numel())
    padded = torch.cat([pairs, pairs.new_zeros((pairs.size(0), 1))], dim=1)
    return padded[:, place.flatten()].view(-1, REGIONS)
