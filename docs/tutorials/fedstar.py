# %% [markdown]
# # FedStar: share structure, keep features
#
# Three sites classify graphs. Their nodes have different features and their graphs different
# classes, so a model of one site does not fit another. But all of them have *structure*: degrees,
# cycles, walks that come back. FedStar gives every client two channels, one that sees features and
# one that sees structure encodings only, and shares the second.
#
# Run it: `python docs/tutorials/fedstar.py fedstar.png`. It needs no download and takes less than
# half a minute.

# %%
import sys
import tempfile
from pathlib import Path

import ramet
from ramet.archive import found
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.metrics import standings
from ramet.report import figures

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "fedstar.png")
runs = tempfile.TemporaryDirectory()

# %% [markdown]
# ## What would leave a site
#
# This can be asked before anything is trained. `shared` is a list of patterns over parameter names;
# whatever they do not name stays.

# %%
for method in ("fedavg", "fedstar"):
    plan = Experiment(checked_settings(method=method, setting="tiny", data=default_data()))
    tensors = ", ".join(plan.shared_names()[:3])
    print(f"{method} shares {plan.shared_scalars():,} scalars: {tensors}, …")

# %% [markdown]
# FedAvg cannot share the first and the last layer here: they have other sizes at every site.
# FedStar's whole structure channel has the same size everywhere, because all sites compute the same
# structure encodings.
#
# ## Alone, averaged, and with structure shared
#
# `tiny` has three made-up sites: rings, trees and blocks (communities of nodes). Each method runs
# 20 rounds of one local epoch, with three seeds: they move weights, dropout and the order of
# batches, the split stays.

# %%
for method in ("local", "fedavg", "fedstar"):
    for seed in (1, 2, 3):
        ramet.run(method, "tiny", rounds=20, seed=seed, out=Path(runs.name) / f"{method}-{seed}")
stories = found([Path(runs.name)])

print("\nmean test accuracy over the three sites, %, after round 20")
for row in standings(stories):
    gain = (
        f"{100 * row.gain:+.1f} over local (p {row.chance:.2f})" if row.gain and row.chance else ""
    )
    up = row.up_per_client_round / 1024
    score = f"{100 * row.test:5.1f} ± {100 * (row.spread or 0):3.1f}"
    print(f"{row.label:<8} {score} {up:6.1f} KB up   {gain}".rstrip())

# %% [markdown]
# `standings` is what `ramet compare` prints: means over seeds, the gain over the yardstick on the
# same seeds, and the p-value of a paired t-test. A site's test part has 15 graphs, so one graph
# more or less is 2.2 points of a run's mean, and with three seeds hardly any gain can be told from
# luck. What can be said for certain is what crossed the network.

# %%
alone, _, star = standings(stories)
told = "more than luck" if star.chance is not None and star.chance < 0.05 else "not told from luck"
gain = f"{100 * (star.test - alone.test):+.1f} points, {told}"
print(f"\nFedStar's gain on these made-up sites: {gain}.")
print("On seven molecule datasets, 200 rounds and five seeds it is: see docs/results.md.")

# %% [markdown]
# ## The picture
#
# Test accuracy after each round, as `ramet report` draws it: means over seeds, bands of one
# standard deviation.

# %%
figures.score_over_rounds(stories).savefig(picture, dpi=150, bbox_inches="tight")
runs.cleanup()
print(f"\nThe picture is in {picture}.")
