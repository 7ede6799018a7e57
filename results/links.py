"""FedDA's tables from kept runs: `python results/links.py [PAGE] [--from FOLDER]`.

Prints a table for each data set and number of clients, one of how the claim fares in them, and one
of FedDA's activation over methods for graphs; with a page, writes each table between its marks
there, `<!-- amazon-8 -->` and `<!-- end -->`. Scores are of the last round: of the server's model
over the whole graph, of Local and over methods for graphs the clients' mean. Shares are of what
asking everyone for everything sends, on common seeds.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeAlias

from ramet.archive import kept
from ramet.experiment import written
from ramet.metrics import Stories, Story, saving
from ramet.sweeps import Contender

CENTRAL = {"amazon": "amazon-central", "acm-hetero": "acm-central"}
DATA = {"amazon": "Amazon", "acm-hetero": "ACM"}
CLIENTS = {"amazon": (8, 16), "acm-hetero": (4, 8, 16)}
NAMES = {
    "local-hgn": "Local",
    "fed-hgn": "FedAvg",
    "fedda": "FedDA, Restart",
    "fedda,activation=explore": "FedDA, Explore",
    "fedda,activation=restart,beta=0.2": "Restart, `beta=0.2`",
    "fedda,activation=restart,keep_own=true": "Restart, `keep_own`",
    "fedda,activation=explore,keep_own=true,train_away=true": "Explore, `keep_own`, `train_away`",
}
NBSP = "\u00a0"
Cells: TypeAlias = Mapping[tuple[str, int], Stories]
OVER = ("fedstar", "feddense,width=32")
HEADS_OVER = (
    *("method", "activation", "seeds", "accuracy", "beside everyone", "worst seed", "MB both ways"),
    "of everyone's",
)
HEADS_CLAIM = (
    *("data", "clients", "rule", "seeds", "beside FedAvg", "worst seed beside FedAvg's"),
    *("bytes both ways", "as good for less", "no worse at worst"),
)
HEADS = (
    *("method", "seeds", "ROC-AUC", "worst seed", "last ten rounds", "best validation", "MRR"),
    *("MB both ways", "MB up", "tensors up"),
)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("page", nargs="?", type=Path)
    words.add_argument("--from", dest="folder", type=Path, default=Path(__file__).parent)
    given = words.parse_args()
    cells: Cells = {
        (setting, clients): named(given.folder / f"{setting}-{clients}")
        for setting, numbers in CLIENTS.items()
        for clients in numbers
    }
    tables = {
        f"{setting}-{clients}": table(given.folder / CENTRAL[setting], runs)
        for (setting, clients), runs in cells.items()
    }
    tables["claim"] = claim(cells)
    tables["single"] = over_methods(kept(given.folder / "single"))
    text = given.page.read_text() if given.page else ""
    for place, made in tables.items():
        if given.page:
            text = filled(text, place, made)
        else:
            print(f"{place}\n\n{made}\n")
    if given.page:
        given.page.write_text(text)


def table(central: Path, own: Stories) -> str:
    if not own:
        return "Not run yet."
    runs = {"Global": kept(central).get("fed-hgn,partition=central", {}), **own}
    rows = [
        row(name, runs[name], runs.get("FedAvg", {}))
        for name in ("Global", *NAMES.values())
        if runs.get(name)
    ]
    return in_markdown(HEADS, rows)


def claim(cells: Cells) -> str:
    """Each rule beside FedAvg, on common seeds; the bounds are those of `ramet reproduce`."""
    rows = [
        (
            DATA[setting],
            str(clients),
            name.removeprefix("FedDA, "),
            str(beside.seeds),
            f"{beside.gain:+.2f}",
            f"{beside.worst:+.2f}",
            f"{100 * beside.bytes_both:.1f} %",
            "**holds**" if beside.as_good_for_less else "does not",
            "**holds**" if beside.steadier else "does not",
        )
        for (setting, clients), runs in cells.items()
        for name in NAMES.values()
        if name not in ("Local", "FedAvg")
        for beside in [saving("", name, runs.get(name, {}), runs.get("FedAvg", {}))]
        if beside is not None
    ]
    return in_markdown(HEADS_CLAIM, rows)


def over_methods(stories: Stories) -> str:
    rows = []
    for whole in OVER:
        asked_less = [label for label in stories if label.startswith(f"{whole},activation=")]
        if asked_less:
            common = set.union(*(set(stories[label]) for label in asked_less))
            rows += [
                row_over(whole, label, stories[label], stories[whole], common)
                for label in [whole, *sorted(asked_less)]
            ]
    return in_markdown(HEADS_OVER, rows)


def row_over(
    whole: str,
    label: str,
    own: Mapping[int, Story],
    everyone: Mapping[int, Story],
    common: Set[int],
) -> tuple[str, ...]:
    """Its mean over the seeds in common, and beside the same seeds of whoever asks everyone."""
    seeds = sorted(own.keys() & everyone.keys() & common)
    ours, theirs = ([100 * runs[seed].score for seed in seeds] for runs in (own, everyone))
    sent, all_sent = (
        fmean(runs[seed].result["traffic"]["total"] for seed in seeds) for runs in (own, everyone)
    )
    return (
        f"`{whole}`",
        f"`{label.partition('activation=')[2] or 'everyone'}`",
        str(len(seeds)),
        spread(ours),
        f"{fmean(ours) - fmean(theirs):+.2f}" if own is not everyone else "–",
        f"{min(ours):.2f}",
        f"{sent / 1e6:.1f}",
        f"{100 * sent / all_sent:.1f} %",
    )


def in_markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def named(folder: Path) -> dict[str, Mapping[int, Story]]:
    """Kept runs by the names of the table; runs with other options are not in it."""
    found = {}
    for label, runs in kept(folder).items():
        contender = Contender.parse(label)
        method = written(contender.method, {}, activation=contender.activation)
        if contender.options.keys() <= {"clients"} and method in NAMES:
            found[NAMES[method]] = runs
    return found


def row(name: str, own: Mapping[int, Story], fedavg: Mapping[int, Story]) -> tuple[str, ...]:
    scores = [100 * story.score for story in own.values()]
    cells = (
        name,
        str(len(own)),
        spread(scores),
        f"{min(scores):.2f}",
        spread(
            [
                100 * fmean(line[-1 if name != "Local" else 2] for line in story.rounds[-10:])
                for story in own.values()
            ]
        ),
        f"{100 * fmean(at_best_validation(story) for story in own.values()):.2f}",
        f"{100 * fmean(story.reciprocal_rank for story in own.values()):.2f}",
    )
    if name in ("Global", "Local"):
        return *cells, *("–",) * 3
    tensors, up = (
        fmean(story.result["sent"][kind]["up"] for story in own.values())
        for kind in ("tensors", "bytes")
    )
    both = fmean(story.result["traffic"]["total"] for story in own.values())
    beside = saving("", name, own, fedavg)
    shares = (
        [
            f"{NBSP}({100 * s:.0f}{NBSP}%)"
            for s in (beside.bytes_both, beside.bytes_up, beside.tensors_up)
        ]
        if beside and name != "FedAvg"
        else [""] * 3
    )
    sent = (f"{both / 1e6:,.1f}", f"{up / 1e6:,.1f}", f"{tensors:,.0f}")
    return *cells, *(amount + share for amount, share in zip(sent, shares, strict=True))


def spread(scores: Sequence[float]) -> str:
    return f"{fmean(scores):.2f}" + (f"{NBSP}±{NBSP}{stdev(scores):.2f}" if len(scores) > 1 else "")


def at_best_validation(story: Story) -> float:
    on_all_data = story.on_all_data
    return story.result["scores"]["test_at_best_val"] if on_all_data is None else on_all_data


def filled(text: str, place: str, made: str) -> str:
    pattern = rf"<!-- {place} -->\n.*?<!-- end -->"
    changed, count = re.subn(
        pattern, lambda _: f"<!-- {place} -->\n{made}\n<!-- end -->", text, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"the page has {count} places for {place}, not one.")
    return changed


if __name__ == "__main__":
    main()
