# %% [markdown]
# # FedDA: ask only for what a client changes
#
# Eight sites predict links in a graph with several types of nodes and relations. Each site has many
# links of some relations and few of others, so it changes some tensors of the network a lot and
# others hardly. FedDA stops asking a client for tensors that it changes less than the others do,
# and leaves out clients that have too few tensors left.
#
# This rule is an *activation*. It runs over any method that merges by the mean. Run it:
# `python docs/tutorials/fedda.py fedda.png`.

# %%
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import ramet
from ramet.studies.archive import finished_runs

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "fedda.png")
runs = tempfile.TemporaryDirectory()

# %% [markdown]
# ## Everyone, Restart, Explore
#
# - `everyone` is FedAvg: all clients send everything, every round.
# - `restart` lets clients drop out. When fewer than 40 % are left, all return and are asked for
#   everything.
# - `explore` keeps two thirds of the places filled with a draw from the clients that left earlier.

# %%
for activation in ("everyone", "restart", "explore"):
    ramet.run(
        "fedavg",
        "planted-hetero",
        rounds=20,
        seed=1,
        activation=activation,
        clients=8,
        hidden=16,
        lr=0.02,
        out=Path(runs.name) / activation,
    )
by_rule = {
    label.rpartition("=")[2]: run
    for label, runs_of_rule in finished_runs([Path(runs.name)]).items()
    for run in runs_of_rule.values()
}

# %% [markdown]
# ## What was sent

# %%
whole = by_rule["everyone"].summary.traffic.total
print(f"{'':<10}{'tensors up':>12}{'bytes both ways':>18}{'ROC-AUC, %':>12}")
shares = {}
for rule, run in by_rule.items():
    shares[rule] = run.summary.traffic.total / whole
    tensors = f"{run.summary.sent.tensors.up:,}" if run.summary.sent else ""
    print(f"{rule:<10}{tensors:>12}{shares[rule]:>18.0%}{100 * run.score:>12.1f}")

# %% [markdown]
# The score is that of the server's model on the whole graph after the last round. Active clients
# receive the whole model, so only clients that are left out save bytes on the way down. With
# `keep_own=true`, active clients save them too.

# %%
apart = 100 * (by_rule["explore"].score - by_rule["everyone"].score)
print(f"\nExplore sends {shares['explore']:.0%} of the bytes, {apart:+.1f} points from FedAvg.")
print(f"Restart sends {shares['restart']:.0%}: it saves less, since all return again and again.")
print("One seed.")

# %% [markdown]
# Whether this is worth it depends on the data and the number of clients. [Results for
# links](../results-links.md) has real graphs.
#
# ## The figure
#
# Top: the score over rounds. Bottom: the share of its tensors that each client sent in each round.
# White means that the client did not take part.

# %%
figure, panels = plt.subplot_mosaic(
    [["score", "score"], ["restart", "explore"]],
    figsize=(10, 6.4),
    height_ratios=(1.25, 1),
    layout="constrained",
)
above = panels["score"]
for (rule, run), colour, dash in zip(
    by_rule.items(), ("#000000", "#0072B2", "#E69F00"), ("-", "--", "-."), strict=True
):
    scores = [100 * one.overview for one in run.rounds if one.overview is not None]
    above.plot(range(1, 21), scores, dash, color=colour, label=rule, linewidth=1.8)
above.set(xlabel="round", ylabel="ROC-AUC on the whole graph, %")
above.legend(frameon=False)
above.grid(alpha=0.25)
above.spines[["top", "right"]].set_visible(False)
for rule in ("restart", "explore"):
    sent = np.array(by_rule[rule].tensors).T  # [clients, rounds]
    place = (0.5, sent.shape[1] + 0.5, sent.shape[0] + 0.5, 0.5)
    share = panels[rule].imshow(
        sent / sent.max(), cmap="Blues", vmin=0, aspect="auto", extent=place
    )
    panels[rule].set(title=rule, xlabel="round", ylabel="client")
for panel in panels.values():
    panel.set_xticks(range(5, 21, 5))
figure.colorbar(share, ax=[panels["restart"], panels["explore"]], label="share of tensors sent")
figure.savefig(picture, dpi=150)
runs.cleanup()
print(f"\nThe picture is in {picture}.")
