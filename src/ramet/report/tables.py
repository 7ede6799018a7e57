"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ramet.metrics import Departure, Holdings, KindOfLink, Standing, Verdict
from ramet.metrics.work import total


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GB"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def operations(count: float | None) -> str:
    """Floating-point operations in billions; a multiply-add is two."""
    return "–" if count is None else f"{count / 1e9:.2f} G"


def _plain_table(title: str) -> Table:
    """Without walls, so that many columns fit into a narrow terminal."""
    return Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)


def comparison_table(rows: Sequence[Standing], setting: str, target: float | None) -> Table:
    """A row per method, in the order asked for."""
    seeds = {row.seeds for row in rows}
    alike = len(seeds) == 1
    over = f"{seeds.pop()} seeds" if alike else "seeds (their number behind the method)"
    table = _plain_table(f"{setting}: test accuracy %, mean ± std over {over}")
    table.add_column("method", no_wrap=True)
    columns = standing_columns(rows, target)
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    labels = [row.label if alike else f"{row.label} ({row.seeds})" for row in rows]
    for cells in zip(labels, *columns.values(), strict=True):
        table.add_row(*cells)
    table.caption = (
        "best val: at the round with the best validation score; gain: over local, or else the "
        "first; p: of a paired t-test; scalars: of a client's model; up, GFLOPs: per client and "
        "round"
    )
    if "all data" in columns:
        table.caption += (
            "; all data: the server's model on all clients' data at once, at its best validation"
        )
    if target is not None:
        table.caption += f"; to {100 * target:g}: rounds until that accuracy"
    return table


def standing_columns(rows: Sequence[Standing], target: float | None) -> dict[str, list[str]]:
    """The text of each column by its head; columns that nobody has anything for are left out."""
    columns = {
        "last round": [_percent_with_spread(row.test, row.spread) for row in rows],
        "best val": [percent(row.test_at_best_val) for row in rows],
        "all data": [_percent_with_spread(row.overview, row.overview_spread) for row in rows],
        "gain": ["–" if row.gain is None else f"{100 * row.gain:+.2f}" for row in rows],
        "p": ["–" if row.chance is None else f"{row.chance:.3f}" for row in rows],
        "scalars": [f"{row.scalars:,.0f}" for row in rows],
        "up KB": [f"{row.up_per_client_round / 1024:.2f}" for row in rows],
        "GFLOPs": [operations(row.flops_per_client_round).removesuffix(" G") for row in rows],
    }
    if target is not None:
        columns[f"to {100 * target:g}"] = [
            "never" if row.rounds_to_target is None else f"{row.rounds_to_target:.0f}"
            for row in rows
        ]
    if all(row.overview is None for row in rows):
        del columns["all data"]
    return columns


def _percent_with_spread(mean: float | None, spread: float | None) -> str:
    return percent(mean) + ("" if spread is None else f" ± {percent(spread)}")


def result_table(summary: Mapping[str, Any]) -> Table:
    """A row per client and their mean, with what crossed the wire below."""
    scores, traffic = summary["scores"], summary["traffic"]
    table = Table(title=f"{summary['method']} on {summary['setting']}, seed {summary['seed']}")
    table.add_column("client")
    table.add_column("test accuracy %", justify="right")
    table.add_column("model scalars", justify="right")
    table.add_column("FLOPs per round", justify="right")
    for client, score in scores["clients"].items():
        work = summary["flops"]["clients"].get(client)
        table.add_row(
            client,
            percent(score),
            f"{summary['model']['scalars'][client]:,}",
            operations(total(work) if work else None),
        )
    table.add_section()
    table.add_row("mean, last round", percent(scores["test"]), "", "")
    table.add_row(
        f"mean, round {scores['best_val_round']} (best validation)",
        percent(scores["test_at_best_val"]),
        "",
        "",
    )
    table.caption = (
        f"{summary['model']['shared_scalars']:,} scalars shared; "
        f"{size(traffic['up_per_client_round'])} up and "
        f"{size(traffic['down_per_client_round'])} down per client and round, "
        f"{size(traffic['total'])} in all; {summary['seconds']:.0f} s, "
        f"{size(summary['peak_memory'])} of memory"
    )
    return table


def portrait_table(
    clients: Mapping[str, Holdings], divergences: Mapping[str, NDArray[np.float64]], setting: str
) -> Table:
    """A row per client: its graphs, and its mean divergence from the others."""
    table = _plain_table(f"{setting}: {len(clients)} clients")
    table.add_column("client", no_wrap=True)
    for head in ("graphs", "nodes", "links", "features", "graphs by class", *divergences):
        table.add_column(head, justify="right")
    others = max(len(clients) - 1, 1)
    for place, (client, held) in enumerate(clients.items()):
        apart = [f"{matrix[place].sum() / others:.3f}" for matrix in divergences.values()]
        table.add_row(
            client,
            f"{held.graphs:,}",
            f"{held.nodes:.1f}",
            f"{held.links:.1f}",
            str(held.features),
            " ".join(map(str, held.classes)),
            *apart,
        )
    table.caption = (
        "nodes, links: mean over graphs; features: their width; "
        f"{' and '.join(divergences)} (last columns): mean Jensen–Shannon divergence from the "
        "other clients, 0 is alike and 1 is nothing in common"
    )
    return table


def kinds_table(kinds: Mapping[str, KindOfLink], setting: str) -> Table:
    """A row per kind of link."""
    table = _plain_table(f"{setting}: kinds of links in the whole graph")
    table.add_column("kind", no_wrap=True)
    for head in ("links", "edge homophily", "attribute homophily"):
        table.add_column(head, justify="right")
    for name, kind in kinds.items():
        table.add_row(
            name,
            f"{kind.links:,}",
            f"{kind.edge_homophily:.3f}",
            f"{kind.attribute_homophily:.3f}",
        )
    table.caption = (
        "edge homophily: links that join nodes of one class; attribute homophily: mean cosine of "
        "the features of a link's ends"
    )
    return table


def links_table(clients: Mapping[str, Mapping[str, int]]) -> Table:
    """A row per client: its nodes, and its links of each kind."""
    table = _plain_table("clients: nodes, and links of each kind")
    table.add_column("client", no_wrap=True)
    for head in next(iter(clients.values())):
        table.add_column(head, justify="right")
    for client, counts in clients.items():
        table.add_row(client, *(f"{count:,}" for count in counts.values()))
    return table


def verdict_table(verdicts: Sequence[Verdict], title: str) -> Table:
    """A row per printed figure: theirs, ours, and whether the difference is small enough."""
    table = _plain_table(title)
    for head in ("method", "figure"):
        table.add_column(head, no_wrap=True)
    for head in ("printed", "ours", "off by"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for verdict in verdicts:
        printed, off = verdict.printed, verdict.off
        table.add_row(
            printed.label,
            _SIZES.get(printed.kind, printed.setting),
            _with_spread(printed.value, printed.std),
            _ours(verdict),
            "–" if off is None else f"{off:+z.2f}",
            _MARKS[verdict.inside],
        )
    allowed = sorted({v.printed.allowed for v in verdicts if not v.printed.note})
    inside = f"inside: off by at most {' or '.join(f'{off:g}' for off in allowed)}."
    notes = [
        f"{v.printed.label}, allowed {v.printed.allowed:g}: {v.printed.note}."
        for v in verdicts
        if v.printed.note
    ]
    table.caption = " ".join([inside, *notes])
    return table


_MARKS = {True: "[green]inside[/]", False: "[red]outside[/]", None: "not run"}
_SIZES = {"model_kb": "model KB", "payload_kb": "payload KB"}


def _ours(verdict: Verdict) -> str:
    if verdict.mean is None:
        return "–"
    if verdict.printed.kind in _SIZES:
        return f"{round(verdict.mean * 256):,}: {verdict.mean:.3f}"
    return f"{_with_spread(verdict.mean, verdict.spread)} ({len(verdict.ours)})"


def _with_spread(mean: float, spread: float | None) -> str:
    return f"{mean:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def departures_table(departures: Sequence[Departure]) -> Table:
    """Every tensor of every reply."""
    table = _plain_table("what left")
    for head in ("run", "client", "round", "tensor", "shape", "bytes", "SHA-256"):
        table.add_column(head, overflow="fold")
    for reply in departures:
        for one in reply.tensors:
            facts = (str(list(one.shape)), f"{one.bytes:,}", one.sha256)
            table.add_row(reply.run[:8], reply.client, str(reply.round), one.name, *facts)
    return table


def totals_of_departures(departures: Sequence[Departure]) -> Table:
    """A row per client and tensor, and the names of the numbers and notes that went along."""
    table = _plain_table("what left")
    for head in ("run", "client", "what", "shape", "times", "bytes"):
        table.add_column(head, overflow="fold", justify="right" if head == "bytes" else "left")
    for run, client in dict.fromkeys((reply.run, reply.client) for reply in departures):
        own = [reply for reply in departures if (reply.run, reply.client) == (run, client)]
        sizes: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for one in (one for reply in own for one in reply.tensors):
            sizes.setdefault((one.name, one.shape), []).append(one.bytes)
        for (name, shape), all_bytes in sizes.items():
            told = (str(list(shape)), str(len(all_bytes)), f"{sum(all_bytes):,}")
            table.add_row(run[:8], client, name, *told)
        numbers = dict.fromkeys(name for reply in own for name in (*reply.numbers, *reply.notes))
        table.add_row(run[:8], client, f"numbers: {', '.join(numbers)}", "", str(len(own)), "")
    return table
