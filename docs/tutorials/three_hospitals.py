# %% [markdown]
# # Three hospitals with their own graphs
#
# Three hospitals each hold a graph of patients, diagnoses and drugs: which patient has which
# diagnosis and takes which drug and, at one hospital, which drug treats which diagnosis. They want
# to predict missing links, for instance a prescription that was not recorded. None may share
# patient records, and two are small.
#
# This script generates each hospital's tables, checks them as each hospital would, trains alone and
# together, and plots the scores. Run it: `python docs/tutorials/three_hospitals.py hospitals.png`.
# All data are invented.

# %%
import csv
import random
import shlex
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

import ramet
from ramet.data.own.site import check_site, statistics

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "three_hospitals.png")
work = tempfile.TemporaryDirectory()
root = Path(work.name)

# %% [markdown]
# ## Each hospital's tables
#
# Diagnoses and drugs are the same catalogues everywhere; patients differ. Every patient belongs to
# one of five groups of illness. The group is *not* in the tables, but it affects age, blood values,
# and which diagnoses and drugs the patient has. Four in five links stay within the patient's group.

# %%
GROUPS, CODES, DRUGS = 5, 40, 30


def write(path: Path, heads: list[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(heads)
        table.writerows(rows)


def one_hot(group: int) -> list[int]:
    return [int(place == group) for place in range(GROUPS)]


def make_tables(folder: Path, patients: int, seed: int, formulary: bool) -> None:
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    groups = [draw.randrange(GROUPS) for _ in range(patients)]
    blood = [
        [round(draw.gauss(int(place == group), 0.7), 2) for place in range(3)] for group in groups
    ]
    ages = [round(draw.gauss(group - 2, 1.0), 2) for group in groups]  # scaled: 0 is the mean age
    chapters = [f"chapter{place}" for place in range(GROUPS)]
    write(
        folder / "patients.csv",
        ["id", "age", "iron", "sugar", "fat"],
        ([f"p{n}", age, *values] for n, (age, values) in enumerate(zip(ages, blood, strict=True))),
    )
    write(
        folder / "diagnoses.csv",
        ["id", *chapters],
        ([f"d{n}", *one_hot(n % GROUPS)] for n in range(CODES)),
    )
    write(
        folder / "drugs.csv",
        ["id", *chapters],
        ([f"m{n}", *one_hot(n % GROUPS)] for n in range(DRUGS)),
    )

    def chosen(group: int, size: int) -> int:
        kept = group if draw.random() < 0.8 else draw.randrange(GROUPS)
        return kept + GROUPS * draw.randrange(size // GROUPS)

    for name, letter, size in (("diagnosed", "d", CODES), ("takes", "m", DRUGS)):
        links = {(n, chosen(group, size)) for n, group in enumerate(groups) for _ in range(4)}
        write(
            folder / f"{name}.csv",
            ["source", "target"],
            ((f"p{n}", f"{letter}{to}") for n, to in sorted(links)),
        )
    if formulary:
        treats = {(n, chosen(n % GROUPS, CODES)) for n in range(DRUGS) for _ in range(3)}
        write(
            folder / "treats.csv",
            ["source", "target"],
            ((f"m{n}", f"d{to}") for n, to in sorted(treats)),
        )


# %% [markdown]
# ## One TOML per hospital
#
# It describes the tables. All hospitals declare all types of the consortium. A type without a
# `file` is one for which the hospital has no data. Only *north* has the table of which drug treats
# which diagnosis.

# %%
TOML = """\
site = "{site}"
task = "link-prediction"

[nodes.patient]
file = "patients.csv"
features = ["age", "iron", "sugar", "fat"]

[nodes.diagnosis]
file = "diagnoses.csv"
features = ["chapter0", "chapter1", "chapter2", "chapter3", "chapter4"]

[nodes.drug]
file = "drugs.csv"
features = ["chapter0", "chapter1", "chapter2", "chapter3", "chapter4"]

[edges.diagnosed]
file = "diagnosed.csv"
from = "patient"
to = "diagnosis"

[edges.takes]
file = "takes.csv"
from = "patient"
to = "drug"

[edges.treats]
{formulary}from = "drug"
to = "diagnosis"
"""

hospitals = {"north": (160, True), "south": (40, False), "east": (25, False)}
for seed, (site, (patients, formulary)) in enumerate(hospitals.items()):
    make_tables(root / site, patients, seed, formulary)
    line = 'file = "treats.csv"\n' if formulary else ""
    (root / site / "site.toml").write_text(TOML.format(site=site, formulary=line))

# %% [markdown]
# ## Check before you join
#
# Suppose that *east* edits a table by hand and makes mistakes. `check_site` is what
# `ramet data check` calls. It reports all problems at once, with file, row and column, and only to
# the hospital itself.

# %%
table = root / "east" / "patients.csv"
original = table.read_text()
table.write_text(
    original.replace("p3,", "p2,", 1).replace(original.splitlines()[6].split(",")[1], "old", 1)
)
checked = check_site(root / "east" / "site.toml")
print(f"east has {checked.count} problems:")
for problem in checked.problems[:3]:
    print(f"  {problem}")
table.write_text(original)

print("\nmended:")
for site in hospitals:
    checked = check_site(root / site / "site.toml")
    assert checked.site is not None, checked.problems
    counts = statistics(checked.site, seed=123)
    edges = ", ".join(f"{int(count['edges'])} {name}" for name, count in counts["edges"].items())
    print(f"  {site}: {counts['nodes']['patient']} patients; {edges}")

# %% [markdown]
# ## Alone and together
#
# `local` trains a network at each hospital, and `fedavg` averages it over them. The sites' files
# name the task, link prediction. Its default network, Simple-HGN, handles several types of nodes
# and links. Before round 1, the hospitals' fingerprints (names of types and columns, no values) are
# compared. Each hospital is evaluated on its own test links, which were not used for training, over
# three seeds.

# %%
sites = shlex.join(str(root / site / "site.toml") for site in hospitals)
scores: dict[str, dict[str, list[float]]] = {}
sent = 0
for name, method in (("alone", "local"), ("together", "fedavg")):
    scores[name] = {site: [] for site in hospitals}
    for seed in (1, 2, 3):
        out = root / f"{name}-{seed}"
        summary = ramet.run(
            method, "own", rounds=30, seed=seed, out=out, sites=sites, hidden=16, lr=0.01
        ).summary
        for site, score in summary.scores.clients.items():
            if score is not None:
                scores[name][site].append(100 * score)
        sent = summary.model.shared_scalars
means = {name: {site: sum(s) / len(s) for site, s in own.items()} for name, own in scores.items()}

print(f"\n{'ROC-AUC, %':<12}" + "".join(f"{site:>8}" for site in hospitals))
for name, row in means.items():
    print(f"{name:<12}" + "".join(f"{row[site]:8.1f}" for site in hospitals))
gains = {site: means["together"][site] - means["alone"][site] for site in hospitals}
print(
    "\ntogether instead of alone: "
    + ", ".join(f"{site} {gain:+.1f} points" for site, gain in gains.items())
)
print(f"What left each hospital in a round: {sent:,} parameters, and not one row of a table.")

# %% [markdown]
# The test sets are small, a tenth of each hospital's links, so look at all three seeds in the
# figure before you believe a difference. And parameters do carry information: [Security and
# privacy](../security.md) says what they may reveal to the coordinator.
#
# ## The figure

# %%
figure, axes = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
for shift, (name, colour) in zip(
    (-0.2, 0.2), (("alone", "#E69F00"), ("together", "#0072B2")), strict=True
):
    places = [place + shift for place in range(len(hospitals))]
    axes.bar(places, list(means[name].values()), 0.36, color=colour, label=name, alpha=0.85)
    for place, seeds in zip(places, scores[name].values(), strict=True):
        axes.plot([place] * len(seeds), seeds, "o", color="black", markersize=4)
axes.set_xticks(
    range(len(hospitals)), [f"{site}\n{size} patients" for site, (size, _) in hospitals.items()]
)
axes.set(
    ylim=(50, 100),
    ylabel="ROC-AUC on own held-out links, %",
    title="Each dot is a seed; 50 is guessing",
)
axes.legend(frameon=False, loc="upper right")
axes.grid(axis="y", alpha=0.25)
axes.set_axisbelow(True)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(picture, dpi=150)
work.cleanup()
print(f"\nThe picture is in {picture}.")
