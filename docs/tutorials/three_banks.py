# %% [markdown]
# # Three banks
#
# Three banks each see their own accounts and transfers. Thieves send what they steal to *mules*:
# accounts that collect from many victims and pass the money on within days. The banks may not show
# each other a customer. Together they train two models: which account is a mule, and which transfer
# goes to one.
#
# This script invents half a year of tables for each bank, trains alone and together, chooses how
# many of the fraudulent transfers to catch, and predicts July, whose tables come later. Run it:
# `python docs/tutorials/three_banks.py banks.png`. It needs about a minute
# and a half.

# %%
import random
import subprocess
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import pandas as pd

import ramet
from ramet.data.own.site import check_site

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "three_banks.png")
work = tempfile.TemporaryDirectory()
root = Path(work.name)

# %% [markdown]
# ## Tables
#
# An account has a kind and an age. A transfer has an amount, a channel and a date. Shops also
# receive from many people, and some people sell things: they collect a little less per transfer,
# and pass it on less often. Neither an amount nor the number of senders is enough to know a mule.

# %%
BANKS = {"north": 700, "south": 200, "east": 200}
START, JULY = date(2026, 1, 1), date(2026, 7, 1)


def invented(
    draw: random.Random, accounts: pd.DataFrame, first: date, days: int, mules: set[str]
) -> pd.DataFrame:
    """The transfers of a period, with their state."""
    shops = [*accounts.id[accounts.kind == "business"]]
    people = [*accounts.id[accounts.kind == "private"]]
    rows = []

    def pay(source: str, target: str, mean: float, day: float, state: str = "fine") -> None:
        if source == target or day >= days:
            return
        amount = round(draw.lognormvariate(0, 0.5) * mean, 2)
        channel = draw.choices(["card", "online", "branch"], [1, 3, 1])[0]
        when = first + timedelta(days=int(day))
        rows.append([source, target, amount, channel, when.isoformat(), state])

    months = days / 30
    for person in people:
        for _ in range(round(draw.uniform(1, 3) * months)):
            pay(person, draw.choice(shops), 120, draw.uniform(0, days))
        pay(draw.choice(shops), person, 900, draw.uniform(0, days))
    sellers = [one for one in people if one not in mules and draw.random() < 0.1]
    for collector in [*sellers, *sorted(mules & {*people})]:
        is_mule = collector in mules
        for _ in range(round(months)):
            day = draw.uniform(0, days - 5)
            for _ in range(draw.randint(1, 3)):
                state = "fraud" if is_mule else "fine"
                pay(draw.choice(people), collector, 350 if is_mule else 250, day, state)
            if is_mule or draw.random() < 0.3:
                pay(collector, draw.choice(people), 500, day + draw.uniform(1, 3))
    table = pd.DataFrame(rows, columns=["source", "target", "amount", "channel", "date", "state"])
    table = table.sort_values("date", kind="stable", ignore_index=True)
    table.insert(0, "number", [f"{first:%b}{n}" for n in range(len(table))])
    return table


def opened(draw: random.Random, count: int, prefix: str, oldest: float) -> pd.DataFrame:
    """Accounts; one in fourteen is a mule, mostly among the young ones."""
    rows = []
    for number in range(count):
        kind = draw.choices(["private", "business"], [4, 1])[0]
        mule = kind == "private" and draw.random() < 0.09
        years = draw.uniform(0, 2 if mule and draw.random() < 0.7 else oldest)
        rows.append([f"{prefix}{number}", kind, round(years, 1), "mule" if mule else "honest"])
    return pd.DataFrame(rows, columns=["id", "kind", "years", "state"])


# %% [markdown]
# ## One description per question
#
# The files name columns; Ramet scales and encodes them alike at all banks. `aggregate` adds
# the counts and mean amounts of an account's last sixty days to its columns. Transfers are split by
# time: trained on those until April, thresholds chosen on May, tested on June.

# %%
COMMON = """\
site = "{bank}"

[nodes.account]
file = "accounts.csv"
{label}columns = {{ kind = "category", years = "number" }}

[edges.transfer]
file = "transfers.csv"
directed = true
columns = {{ amount = "number", channel = "category" }}
aggregate = ["mean", "count"]
time = "date"
windows = [60]
"""
ACCOUNTS = 'task = "node-classification"\nclasses = ["honest", "mule"]\n'
TRANSFERS = 'task = "edge-classification"\nclasses = ["fine", "fraud"]\n'
OF_TRANSFERS = """\
id = "number"
label = "state"

[split]
by = "time"
train_until = 2026-04-30
validate_until = 2026-05-31
"""

truth = {}
for seed, (bank, count) in enumerate(BANKS.items()):
    draw, folder = random.Random(seed), root / bank
    (folder / "july").mkdir(parents=True)
    accounts = opened(draw, count, f"{bank[0]}", 20)
    new = opened(draw, count // 10, f"{bank[0]}j", 0.1)
    both = pd.concat([accounts, new])
    mules = {*both.id[both.state == "mule"]}
    accounts.to_csv(folder / "accounts.csv", index=False)
    half_year = invented(draw, accounts, START, (JULY - START).days, mules)
    half_year.to_csv(folder / "transfers.csv", index=False)
    july = invented(draw, both, JULY, 31, mules)
    truth[bank] = july
    new.drop(columns="state").to_csv(folder / "july" / "accounts.csv", index=False)
    july.drop(columns="state").to_csv(folder / "july" / "transfers.csv", index=False)
    of_accounts = COMMON.format(bank=bank, label='label = "state"\n')
    (folder / "accounts.toml").write_text(ACCOUNTS + of_accounts)
    (folder / "transfers.toml").write_text(
        TRANSFERS + COMMON.format(bank=bank, label="") + OF_TRANSFERS
    )
    for name in ("accounts.toml", "transfers.toml"):
        assert check_site(folder / name).site is not None
    fraud = (half_year.state == "fraud").sum()
    print(
        f"{bank}: {len(accounts)} accounts, {(accounts.state == 'mule').sum()} mules; "
        f"{len(half_year)} transfers, {fraud} fraudulent"
    )

# %% [markdown]
# ## Alone and together
#
# `local` trains at each bank, `fedavg` averages over them. The network `gatv2` reads amounts and
# directions. Fraud is rare, so that the metric is average precision: about the share of fraud for
# guessing, 100 for a perfect order.

# %%
QUESTIONS = {"mules": "accounts.toml", "fraud": "transfers.toml"}
WAYS = {"alone": "local", "together": "fedavg"}
runs = {}
for question, toml in QUESTIONS.items():
    print(f"\n{question}: average precision on the test, %")
    for way, method in WAYS.items():
        result = ramet.run(
            method,
            "own",
            network="gatv2",
            metric="average-precision",
            weights="balanced",
            rounds=15,
            epochs=3,
            lr=0.01,
            sites=[root / bank / toml for bank in BANKS],
            out=root / f"{question}-{way}",
        )
        runs[question, way] = result
        scores = result.summary.scores.clients
        shown = (f"{bank:>7} {100 * (scores[bank] or 0):5.1f}" for bank in BANKS)
        print(f"  {way:<9}" + "".join(shown))

# %% [markdown]
# The large bank could do without the others, and a test at a small one has few mules: their scores
# jump: one run decides nothing.
#
# ## How much fraud to catch
#
# `ramet evaluate --recall 0.7` chooses for each bank the threshold that finds seven in ten
# fraudulent transfers of May with the fewest alerts, and saves it beside the model.

# %%
together = runs["fraud", "together"]
chosen = subprocess.run(
    ["ramet", "evaluate", str(together.folder), "--recall", "0.7"],
    check=True,
    capture_output=True,
    text=True,
)
print()
print(*(line for line in chosen.stdout.splitlines() if "threshold" in line), sep="\n")

# %% [markdown]
# ## July
#
# July's folders have new accounts and transfers only. `new=` joins them to the graph of training,
# as `ramet predict RUN --new july` does.

# %%
alerts = {}
for bank in BANKS:
    found = together.predict(bank, new=root / bank / "july")
    assert [*found.id] == [*truth[bank].number]
    alerts[bank] = found.assign(state=truth[bank].state.to_numpy())
    told = alerts[bank][found["class"] == "fraud"]
    right, there = (told.state == "fraud").sum(), (truth[bank].state == "fraud").sum()
    print(f"{bank}: {len(found)} transfers in July, {len(told)} alerts, {right} of {there} frauds")

suspects = runs["mules", "together"].predict("north", new=root / "north" / "july")
print("\nnew accounts of north that July's transfers make most suspicious:")
print(suspects.nlargest(3, "p_mule").to_string(index=False))

# %% [markdown]
# In September the investigators know which transfers were fraudulent. With the column filled in,
# `ramet evaluate RUN --new july` scores July beside the test.

# %%
for bank in BANKS:
    truth[bank].to_csv(root / bank / "july" / "transfers.csv", index=False)
    beside = together.beside_test(bank, new=root / bank / "july")
    first = next(one for one in beside.lines if one.metric == "average-precision")
    assert first.other is not None
    test, month = 100 * first.other.value, 100 * first.new.value
    print(f"{bank}: average precision {test:.1f} in the test, {month:.1f} in July")

# %% [markdown]
# ## The figure

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for shift, (way, colour) in zip(
    (-0.2, 0.2), (("alone", "#E69F00"), ("together", "#0072B2")), strict=True
):
    scores = runs["fraud", way].summary.scores.clients
    places = [place + shift for place in range(len(BANKS))]
    left.bar(places, [100 * (scores[bank] or 0) for bank in BANKS], 0.36, color=colour, label=way)
left.set_xticks(range(len(BANKS)), [f"{bank}\n{size} accounts" for bank, size in BANKS.items()])
left.set(ylabel="average precision, %", title="Fraudulent transfers of June")
left.legend(frameon=False)
for bank, found in alerts.items():
    ordered = (found.sort_values("p_fraud", ascending=False).state == "fraud").to_numpy()
    looked_at = [100 * (rank + 1) / len(ordered) for rank in range(len(ordered))]
    right.plot(looked_at, 100 * ordered.cumsum() / ordered.sum(), label=bank)
right.set(xlabel="transfers looked at, most suspicious first, %", xlim=(0, 25))
right.set(ylabel="July's fraud found, %", title="July, which the models never saw")
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig(picture, dpi=150)
work.cleanup()
print(f"\nThe picture is in {picture}.")
