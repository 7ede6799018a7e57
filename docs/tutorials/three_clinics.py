# %% [markdown]
# # Three clinics, from tables to next month's list
#
# Three clinics want to know which patients are likely to come back within a month, so that somebody
# calls them in time. Each has a table of patients and a table of who shared a room with whom. None
# may share rows, and two are small.
#
# The tables are as tables are: categories, dates, gaps, a laboratory value that only one clinic
# measures, and referrals that only one clinic records. This script goes the whole way: check the
# tables, compare training alone and together, predict next month's list, explain one line of it,
# and hand the model to a colleague who does not have Ramet. Run it:
# `python docs/tutorials/three_clinics.py clinics.png`. All data are invented.

# %%
import random
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import ramet
from ramet.data.own.advice import column_summaries
from ramet.data.own.site import check_site

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "three_clinics.png")
work = tempfile.TemporaryDirectory()
root = Path(work.name)

# %% [markdown]
# ## Each clinic's tables
#
# A patient's risk depends on age, weight, smoking and the ward, and on the people in the same room:
# infections travel. About one patient in four comes back. One in five has no weight on record, and
# only *north* measures CRP, an inflammation marker.

# %%
WARDS = {"surgery": -0.6, "medicine": 0.0, "cardiology": 0.7, "oncology": 1.2}


def make_tables(folder: Path, patients: int, seed: int, measures_crp: bool) -> None:
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    rows: list[dict[str, object]] = []
    own_risk: list[float] = []
    for number in range(patients):
        age, bmi = draw.gauss(62, 14), draw.gauss(27, 5)
        ward, smokes = draw.choice([*WARDS]), draw.random() < 0.3
        risk = (age - 62) / 14 + 0.1 * (bmi - 27) + WARDS[ward] + 0.9 * smokes - 0.3
        own_risk.append(risk)
        rows.append(
            {
                "id": f"p{number}",
                "age": round(age),
                "bmi": "" if draw.random() < 0.2 else round(bmi, 1),
                "ward": ward if draw.random() > 0.05 else "",
                "first_visit": f"2026-0{draw.randint(1, 5)}-{draw.randint(1, 28):02}",
                "smoker": draw.choice(["yes", "y", "TRUE"] if smokes else ["no", "n", "0"]),
                "remark": draw.choice(["", "prefers mornings; calls back", "has a dog"]),
            }
            | ({"crp": round(abs(draw.gauss(8 + 4 * risk, 4)), 1)} if measures_crp else {})
        )
    rooms = [draw.sample(range(patients), 2) for _ in range(2 * patients)]
    together = [[other for pair in rooms if n in pair for other in pair] for n in range(patients)]
    for number, row in enumerate(rows):
        near = [own_risk[other] for other in together[number]] or [own_risk[number]]
        chance = own_risk[number] + sum(near) / len(near) + draw.gauss(0, 0.7)
        row["returned"] = "yes" if chance > 1.9 else "no"
    pd.DataFrame(rows).to_csv(folder / "patients.csv", index=False)
    write_links(folder / "rooms.csv", rooms)
    if measures_crp:
        referrals = [draw.sample(range(patients), 2) for _ in range(patients // 4)]
        write_links(folder / "referrals.csv", referrals)


def write_links(path: Path, pairs: list[list[int]]) -> None:
    named = [[f"p{one}", f"p{other}"] for one, other in pairs]
    pd.DataFrame(named, columns=["source", "target"]).to_csv(path, index=False)


# %% [markdown]
# ## One TOML per clinic
#
# It says what each column means. Scaling and the list of wards are agreed between the clinics
# before round 1, from counts and sums alone. A column that a clinic lacks is `absent`, and an edge
# type without a `file` is one that it does not record.

# %%
TOML = """\
site = "{site}"
task = "node-classification"
classes = ["no", "yes"]

[nodes.patient]
file = "patients.csv"
label = "returned"

[nodes.patient.columns]
age = "number"
bmi = "number"
crp = {crp}
ward = "category"
first_visit = "date"
smoker = "flag"
remark = "ignored"

[edges.room]
file = "rooms.csv"

[edges.referral]
{referrals}
"""


def write_toml(folder: Path, site: str, measures_crp: bool) -> Path:
    crp = '"number"' if measures_crp else '{kind = "number", absent = true}'
    referrals = 'file = "referrals.csv"' if measures_crp else ""
    path = folder / "site.toml"
    path.write_text(TOML.format(site=site, crp=crp, referrals=referrals))
    return path


clinics = {"north": 400, "south": 120, "east": 100}
for seed, (site, patients) in enumerate(clinics.items()):
    make_tables(root / site, patients, seed, measures_crp=site == "north")
    write_toml(root / site, site, measures_crp=site == "north")

# %% [markdown]
# ## Check before you join
#
# This is `ramet data check south/site.toml`: the columns as the clinic sees them, and what other
# clinics learn about them.

# %%
checked = check_site(root / "south" / "site.toml")
assert checked.site is not None, checked.problems
print("south's columns:")
for column in column_summaries(checked.site):
    print(f"  {column.column}: {column.missing} of {column.rows} missing; leaves: {column.leaves}")

# %% [markdown]
# ## Alone and together
#
# `local` trains a network at each clinic, and `fedavg` averages it over them. Only one patient in
# four comes back, so accuracy would praise a model that says "no" to everyone. Average precision
# asks how many of the patients at the top of the list really come back.
#
# These clinics are invented, and their sizes were chosen: with fewer patients, where a test set is
# a dozen people, joining made *east* worse. So take the way from here, not the gain. For your own
# tables, `ramet compare` gives the gain of each site with its interval.

# %%
sites = shlex.join(str(root / site / "site.toml") for site in clinics)
scores: dict[str, dict[str, list[float]]] = {}
for name, method in (("alone", "local"), ("together", "fedavg")):
    scores[name] = {site: [] for site in clinics}
    for seed in (1, 2, 3):
        result = ramet.run(
            method,
            "own",
            rounds=40,
            seed=seed,
            out=root / f"{name}-{seed}",
            metric="average-precision",
            network="sage",
            sites=sites,
            hidden=16,
        )
        for site, score in result.summary.scores.clients.items():
            scores[name][site].append(100 * (score or 0.0))
means = {name: {site: sum(s) / len(s) for site, s in own.items()} for name, own in scores.items()}

print(f"\n{'average precision, %':<22}" + "".join(f"{site:>8}" for site in clinics))
for name, row in means.items():
    print(f"{name:<22}" + "".join(f"{row[site]:8.1f}" for site in clinics))
print()
print(result)

# %% [markdown]
# ## June's list
#
# In June, *south* has new patients. Nobody knows yet who will come back, so the table has no such
# column, and the TOML names nothing but files. `result.predict` is `ramet predict`: it reads the
# rows at the clinic, prepares them as in training, and keeps their ids.

# %%
june = root / "june"
make_tables(june, 40, seed=9, measures_crp=False)
table = pd.read_csv(june / "patients.csv", dtype=str, keep_default_na=False)
truth = table.pop("returned")
table.loc[0, "ward"] = "dermatology"  # a ward that did not exist in training
table.to_csv(june / "patients.csv", index=False)
june_toml = write_toml(june, "south", measures_crp=False)
june_toml.write_text(june_toml.read_text().replace('label = "returned"\n', ""))

listed = result.predict("south", june_toml)
ranking = listed.sort_values("p_yes", ascending=False)
print("\nJune's list, the first five of 40:")
for patient, chance in ranking[["id", "p_yes"]].head(5).to_numpy():
    print(f"  {patient}: {chance:.2f}")
for warning in listed.attrs["warnings"]:
    print(f"  note: {warning}")
came_back = truth == "yes"
hits, by_chance = int(came_back[ranking.index[:10]].sum()), 10 * came_back.mean()
print(f"{hits} of the first ten came back; of ten at random it would be {by_chance:.1f}.")

# %% [markdown]
# ## Why this patient?
#
# What each feature, and each shared room, adds to the probability. It describes the model, not the
# patient's body.

# %%
first = ranking["id"].iloc[0]
why = result.explain(first, "south", june_toml)
print(f"\n{first} has probability {why.value:.2f} of '{why.output}':")
for feature, contribution in why.features[["feature", "contribution"]].head(4).to_numpy():
    print(f"  {feature}: {contribution:+.2f}")

# %% [markdown]
# ## Hand it over
#
# `ramet export` writes a folder with the weights, the network as one file for PyTorch and PyG, the
# preparation, an invented example and a model card. The colleague's process below refuses to import
# Ramet, reads June's raw tables, and gets the same list. (Without `programs=False` the folder also
# has programs for `torch.export` and ONNX.)

# %%
model = root / "south-model"
result.export("south", model, programs=False)
COLLEAGUE = """
import sys
sys.modules["ramet"] = None  # any import of Ramet fails
sys.path.insert(0, sys.argv[1])
from predict import load, probabilities
from prepare import features, links, read_csv

patients, rooms = (read_csv(f"{sys.argv[2]}/{name}.csv") for name in ("patients", "rooms"))
x = features(patients, "patient")
edge_index = links(rooms["source"], rooms["target"], patients["id"])
for chances in probabilities(load(), x=x, edge_index=edge_index).tolist():
    print(repr(chances[1]))
"""
done = subprocess.run(
    [sys.executable, "-IB", "-c", COLLEAGUE, model, june],
    capture_output=True,
    text=True,
    check=True,
)
elsewhere = np.array([float(line) for line in done.stdout.split()])
difference = float(np.abs(elsewhere - listed["p_yes"].to_numpy()).max())
assert difference < 1e-6, difference
print(f"\nThe colleague's list is the same: {len(elsewhere)} probabilities, to six digits.")
print("The folder: " + ", ".join(sorted(path.name for path in model.iterdir())))

card = (model / "README.md").read_text().splitlines()
print("\nFrom the card:")
start = next(n for n, line in enumerate(card) if line.startswith("## What left the sites"))
print("\n".join(f"  {line}" for line in card[start + 2 : start + 8]))

# %% [markdown]
# ## The figure
#
# The test data of the small clinics are two dozen patients each, so look at all three seeds before
# you believe a difference.

# %%
figure, (compared, ranked, reasons) = plt.subplots(
    1, 3, figsize=(13, 4.4), layout="constrained", width_ratios=(1.1, 1, 1.2)
)
for shift, (name, colour) in zip(
    (-0.2, 0.2), (("alone", "#E69F00"), ("together", "#0072B2")), strict=True
):
    places = [place + shift for place in range(len(clinics))]
    compared.bar(places, list(means[name].values()), 0.36, color=colour, label=name, alpha=0.85)
    for place, seeds in zip(places, scores[name].values(), strict=True):
        compared.plot([place] * len(seeds), seeds, "o", color="black", markersize=4)
compared.set_xticks(
    range(len(clinics)), [f"{site}\n{size} patients" for site, size in clinics.items()]
)
compared.set(
    ylabel="average precision on own test data, %", ylim=(0, 118), title="Each dot is a seed"
)
compared.legend(frameon=False, loc="upper right", ncols=2)

shown = ranking.head(12)
colours = ["#D55E00" if came_back[row] else "#9aa5b1" for row in shown.index]
ranked.barh(shown["id"], shown["p_yes"], color=colours)
ranked.invert_yaxis()
ranked.set(xlabel="probability of coming back", xlim=(0, 1), title="June's list; orange came back")

most = why.features.head(7)
reasons.barh(most["feature"], most["contribution"], color="#0072B2")
reasons.invert_yaxis()
reasons.axvline(0, color="black", linewidth=0.8)
reasons.set(xlabel=f"added to the probability of '{why.output}'", title=f"Why {first}?")
for axes in (compared, ranked, reasons):
    axes.grid(axis="x" if axes is not compared else "y", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig(picture, dpi=150)
work.cleanup()
print(f"\nThe picture is in {picture}.")
