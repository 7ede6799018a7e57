# %% [markdown]
# # FedDA: ask only for what a client changes
#
# Eight sites predict links in a graph with several types of nodes and relations. Each has many
# links of some relations and few of others, so each moves some tensors of the network a lot and
# others hardly. FedDA stops asking a client for tensors that it changes less than the others do,
# and leaves out a client of which too little is asked.
#
# That rule is an *activation*, and it runs over any method that merges by the mean. Run it: `python
# docs/tutorials/fedda.py fedda.png`.

# %%
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import ramet
from ramet.archive import found

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "fedda.png")
runs = tempfile.TemporaryDirectory()

# %% [markdown]
# ## Everyone, Restart, Explore
#
# - `everyone` is FedAvg: all clients send everything, every round.
# - `restart` lets clients fade out; when fewer than 40 % are left, all come back and are asked for
#   everything.
# - `explore` keeps two thirds of the places filled, by drawing from those that left earlier.

# %%
for activation in ("everyone", "restart", "explore"):
    ramet.run(
        "fed-hgn",
        "planted-hetero",
        rounds=20,
        seed=1,
        activation=activation,
        clients=8,
        hidden=16,
        lr=0.02,
        out=Path(runs.name) / activation,
    )
stories = {label.rpartition("=")[2]: told[1] for label, told in found([Path(runs.name)]).items()}

# %% [markdown]
# ## What was sent

# %%
whole = stories["everyone"].result["sent"]
print(f"{'':<10}{'tensors up':>12}{'bytes both ways':>18}{'ROC-AUC, %':>12}")
shares = {}
for rule, story in stories.items():
    sent = story.result["sent"]
    shares[rule] = sum(sent["bytes"].values()) / sum(whole["bytes"].values())
    tensors = f"{sent['tensors']['up']:,}"
    print(f"{rule:<10}{tensors:>12}{shares[rule]:>18.0%}{100 * story.score:>12.1f}")

# %% [markdown]
# The score is that of the server's model on the whole graph after the last round. Who takes part is
# sent the whole model, so the way down is saved only by clients that are left out; with
# `keep_own=true` it is saved too.

# %%
apart = 100 * (stories["explore"].score - stories["everyone"].score)
print(f"\nExplore sends {shares['explore']:.0%} of the bytes, {apart:+.1f} points from FedAvg.")
print(f"Restart sends {shares['restart']:.0%}: it saves less, since all return again and again.")
print("One seed.")

# %% [markdown]
# Whether that is worth it depends on the data and on the number of clients: [results for
# links](../results-links.md) has real graphs.
#
# ## The picture
#
# Above, the score over rounds. Below, the share of its tensors that each client sent in each round:
# white is nothing, the client did not take part.

# %%
figure, panels = plt.subplot_mosaic(
    [["score", "score"], ["restart", "explore"]],
    figsize=(10, 6.4),
    height_ratios=(1.25, 1),
    layout="constrained",
)
above = panels["score"]
for (rule, story), colour, dash in zip(
    stories.items(), ("#000000", "#0072B2", "#E69F00"), ("-", "--", "-."), strict=True
):
    scores = [100 * line[4] for line in story.rounds]
    above.plot(range(1, 21), scores, dash, color=colour, label=rule, linewidth=1.8)
above.set(xlabel="round", ylabel="ROC-AUC on the whole graph, %")
above.legend(frameon=False)
above.grid(alpha=0.25)
above.spines[["top", "right"]].set_visible(False)
for rule in ("restart", "explore"):
    told = np.array(stories[rule].tensors).T  # [clients, rounds]
    place = (0.5, told.shape[1] + 0.5, told.shape[0] + 0.5, 0.5)
    share = panels[rule].imshow(
        told / told.max(), cmap="Blues", vmin=0, aspect="auto", extent=place
    )
    panels[rule].set(title=rule, xlabel="round", ylabel="client")
for panel in panels.values():
    panel.set_xticks(range(5, 21, 5))
figure.colorbar(share, ax=[panels["restart"], panels["explore"]], label="share of tensors sent")
figure.savefig(picture, dpi=150)
runs.cleanup()
print(f"\nThe picture is in {picture}.")
