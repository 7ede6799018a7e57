# %% [markdown]
# # Twenty hospitals with brain scans
#
# ABIDE I has brain scans of 1,035 people with and without autism from twenty hospitals. A person is
# a graph whose nodes are 200 regions of the brain, the same for everybody, and a region's features
# are its correlations with the others. Does it help a hospital to train with the others?
# [The study](../hospitals.md) answers that on the real scans.
#
# This script shows how, in small. The scans may not be passed on with Ramet, so that it invents
# some, in the folders and files that nilearn's `fetch_abide_pcp` makes. With the real ones, which
# that function downloads, use them instead: `python docs/tutorials/twenty_hospitals.py
# hospitals.png data`, where `data/abide/ABIDE_pcp` is nilearn's folder.

# %%
import csv
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import ramet
from ramet.partition.by_hospital import abide

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "twenty_hospitals.png")
work = tempfile.TemporaryDirectory()
root = Path(work.name)
data = Path(sys.argv[2]) if len(sys.argv) > 2 else root
hospitals = abide().clients

# %% [markdown]
# ## Invented scans
#
# Each hospital has its own scanner, which adds the same signal to some regions of all its people.
# In people with autism, two networks of regions move together a little more. Small hospitals have
# 20 people, the largest has 60.

# %%
REGIONS, STEPS = 200, 60


def series(draw: np.random.Generator, autism: bool, scanner: Any) -> Any:
    """A row per time step, a column per region."""
    rhythms = draw.normal(size=(STEPS, 4))
    rhythms[:, 1] += (0.5 if autism else 0.2) * rhythms[:, 0]
    networks = np.repeat(rhythms, REGIONS // 4, axis=1)
    noise = draw.normal(size=(STEPS, REGIONS))
    return networks + 2.5 * noise + draw.normal(size=(STEPS, 1)) * scanner


def invent(folder: Path) -> None:
    draw = np.random.default_rng(0)
    places = folder / "abide" / "ABIDE_pcp"
    files = places / "cpac" / "nofilt_noglobal"
    files.mkdir(parents=True)
    heads = "\t".join(f"#{region + 1}" for region in range(REGIONS))
    with (places / "Phenotypic_V1_0b_preprocessed1.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["FILE_ID", "SITE_ID", "DX_GROUP", "AGE_AT_SCAN", "SEX"])
        for hospital in hospitals:
            scanner = draw.normal(size=REGIONS)
            for number in range(60 if hospital == "nyu" else 20):
                name, autism = f"{hospital}_{number:04d}", number % 2 == 0
                table.writerow([name, hospital.upper(), 1 if autism else 2, 20, 1])
                values = series(draw, autism, scanner)
                path = files / f"{name}_rois_cc200.1D"
                np.savetxt(path, values, fmt="%.3f", header=heads, comments="")


if data == root:
    invent(root)

# %% [markdown]
# ## Alone, together, in one place
#
# `local` trains a model at each hospital, `fedavg` averages them in each round, and with
# `together=True` there is one client with everybody. The network `linear` is logistic regression on
# the correlations; `aligned-gcn` would be a graph network for graphs with the same nodes. Hospitals
# subtract the mean correlations of their own training people, which takes out what their scanner
# does to everybody. Each way runs on the same three splits: a hospital of 20 has four test people
# in each, so that one split says nothing about it.

# %%
WAYS = {
    "alone": ("local", False),
    "together": ("fedavg", False),
    "in one place": ("local", True),
}
SPLITS = (1, 2, 3)
right: dict[str, dict[str, list[float]]] = {}
overall: dict[str, float] = {}
people: dict[str, int] = {}
for way, (method, together) in WAYS.items():
    right[way] = {}
    shares = []
    for split in SPLITS:
        summary = ramet.run(
            method,
            "abide",
            network="linear",
            together=together,
            rounds=10,
            epochs=2,
            batch_size=32,
            split_seed=split,
            data=data,
            out=root / f"{method}-{together}-{split}",
        ).summary
        tested = {name: sizes.test for name, sizes in summary.baselines.items()}
        people = people or tested
        found = {name: 100 * (score or 0) for name, score in summary.scores.clients.items()}
        shares.append(sum(tested[name] * found[name] for name in found) / sum(tested.values()))
        for name, score in found.items():
            right[way].setdefault(name, []).append(score)
    overall[way] = fmean(shares)

print(f"{len(hospitals)} hospitals, {sum(people.values())} test people in a split")
print("of 100 test people, classified correctly:")
for way, share in overall.items():
    print(f"  {way:<13}{share:5.1f}")

# %% [markdown]
# ## Each hospital
#
# A hospital asks for its own gain. With four test people, one of them is 25 points, so that the
# gains of small hospitals scatter widely around the mean, and some are below zero by chance. `ramet
# compare local fedavg --setting abide --network linear --splits 10` prints their intervals.

# %%
gains = {name: fmean(right["together"][name]) - fmean(right["alone"][name]) for name in hospitals}
better = sum(gain > 0 for gain in gains.values())
print(f"joining is better at {better} hospitals, by {fmean(gains.values()):+.1f} points on average")
print(f"from {min(gains.values()):+.1f} to {max(gains.values()):+.1f} points")

# %% [markdown]
# ## The figure

# %%
figure, axes = plt.subplots(figsize=(7.5, 5.5), layout="constrained")
ordered = sorted(hospitals, key=lambda name: -people[name])
for place, name in enumerate(ordered):
    ends = [fmean(right[way][name]) for way in ("alone", "together")]
    axes.plot(ends, [place, place], color="lightgrey", linewidth=2, zorder=1)
for way, colour in (("alone", "#E69F00"), ("together", "#0072B2")):
    scores = [fmean(right[way][name]) for name in ordered]
    axes.scatter(scores, range(len(ordered)), color=colour, label=way)
axes.axvline(overall["in one place"], color="black", linestyle="--", label="in one place")
axes.axvline(50, color="grey", linestyle=":", label="tossing a coin")
axes.set_yticks(range(len(ordered)), [f"{name} ({people[name]})" for name in ordered], fontsize=8)
axes.invert_yaxis()
title = "Invented scans, three splits" if data == root else "ABIDE I, three splits"
axes.set(xlabel="of 100 test people, classified correctly", title=title)
axes.legend(frameon=False, loc="lower left")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(picture, dpi=150)
work.cleanup()
print(f"\nThe picture is in {picture}.")
