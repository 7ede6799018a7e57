"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ramet.metrics import (
    Departure,
    Holdings,
    KindOfLink,
    LinksOfRelations,
    Order,
    Printed,
    Relation,
    Saving,
    Standing,
    TypeOfNode,
    Verdict,
    common_measure,
    measure,
)
from ramet.metrics.saving import POINTS_LOST, SHARE_SENT
from ramet.metrics.work import total


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GB"


def several(count: int, what: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def operations(count: float | None) -> str:
    """Floating-point operations in billions; a multiply-add is two."""
    return "–" if count is None else f"{count / 1e9:.2f} G"


def _plain_table(title: str) -> Table:
    """Without walls, so that many columns fit into a narrow terminal."""
    return Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)


def list_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """What there is, by name."""
    table = _plain_table("")
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=place == 0)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def uncut(table: Table) -> Table:
    """Columns at least so wide that no number and no word is cut; those that fold may be less."""
    for column in table.columns:
        cells = [Text.from_markup(str(cell)).plain for cell in (column.header, *column.cells)]
        pieces = cells if column.no_wrap else [word for cell in cells for word in cell.split()]
        if column.overflow != "fold":
            column.min_width = max(map(cell_len, pieces), default=0)
    return table


def comparison_table(rows: Sequence[Standing], setting: str, target: float | None) -> Table:
    """A row per method, in the order asked for."""
    seeds = {row.seeds for row in rows}
    alike = len(seeds) == 1
    over = several(seeds.pop(), "seed") if alike else "seeds (their number behind the method)"
    what = common_measure(row.measure for row in rows)
    table = _plain_table(f"{setting}: test {what} %, mean ± std over {over}")
    table.add_column("method", overflow="fold")
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
        table.caption += f"; to {100 * target:g}: rounds until that score"
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


def site_table(name: str, task: str, statistics: Mapping[str, Any]) -> Table:
    """What a site has, counted."""
    table = _plain_table(f"{name}, for {task}")
    table.add_column("what", overflow="fold")
    table.add_column("how many", justify="right", no_wrap=True)
    table.add_column("mean degree", justify="right", no_wrap=True)
    table.add_column("largest", justify="right", no_wrap=True)
    if "graphs" in statistics:
        table.add_row("graphs", f"{statistics['graphs']:,}")
    for kind, count in statistics["nodes"].items():
        table.add_row(f"nodes: {kind}", f"{count:,}")
    for kind, facts in statistics["edges"].items():
        cells = f"{facts['edges']:,}", f"{facts['mean degree']:g}", f"{facts['largest degree']:,}"
        table.add_row(f"edges: {kind}", *cells)
    for kind, count in statistics.get("classes", {}).items():
        table.add_row(f"class: {kind}", f"{count:,}")
    for part, count in statistics["split"].items():
        table.add_row(f"split: {part}", f"{count:,}")
    return table


def result_table(summary: Mapping[str, Any]) -> Table:
    """A row per client and their mean, with what crossed the wire below."""
    scores, traffic = summary["scores"], summary["traffic"]
    table = Table(title=f"{summary['method']} on {summary['setting']}, seed {summary['seed']}")
    table.add_column("client", overflow="fold")
    table.add_column(f"test {measure(summary)} %", justify="right", no_wrap=True)
    table.add_column("model scalars", justify="right", no_wrap=True)
    table.add_column("FLOPs per round", justify="right", no_wrap=True)
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
    table = _plain_table(f"{setting}: {several(len(clients), 'client')}")
    table.add_column("client", overflow="fold")
    for head in ("graphs", "nodes", "links", "features", _BY_CLASS, *divergences):
        table.add_column(head, justify="right", no_wrap=head != _BY_CLASS)
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
    table = _plain_table(f"{setting}: kinds of links")
    table.add_column("kind", overflow="fold")
    for head in ("links", "edge homophily", "attribute homophily"):
        table.add_column(head, justify="right", no_wrap=True)
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
    table.add_column("client", overflow="fold")
    for head in next(iter(clients.values())):
        table.add_column(head, justify="right", no_wrap=True)
    for client, counts in clients.items():
        table.add_row(client, *(f"{count:,}" for count in counts.values()))
    return table


def types_table(types: Mapping[str, TypeOfNode], setting: str) -> Table:
    """A row per node type."""
    table = _plain_table(f"{setting}: node types")
    table.add_column("type", overflow="fold")
    for head in ("nodes", "features"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, kind in types.items():
        width = "learned vectors" if kind.features is None else f"{kind.features:,}"
        table.add_row(name, f"{kind.nodes:,}", width)
    return table


def relations_table(relations: Mapping[str, Relation]) -> Table:
    """A row per relation."""
    table = _plain_table("relations")
    for head in ("relation", "from", "to"):
        table.add_column(head, overflow="fold")
    for head in ("training links", "validation pairs", "test pairs"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, relation in relations.items():
        counts = (f"{count:,}" for count in (relation.links, relation.val, relation.test))
        table.add_row(name, relation.head, relation.tail, *counts)
    table.caption = "pairs: held-out links, and pairs that are none"
    return table


def specialities_table(clients: Mapping[str, LinksOfRelations]) -> Table:
    """A row per client: its links of each relation, with a star where it learns to predict them."""
    table = _plain_table("clients: links of each relation")
    table.add_column("client", overflow="fold")
    for head in next(iter(clients.values())).links:
        table.add_column(head, justify="right", no_wrap=True)
    for client, held in clients.items():
        cells = (
            f"{count:,}{'*' if name in held.specialities else ' '}"
            for name, count in held.links.items()
        )
        table.add_row(client, *cells)
    table.caption = "*: a speciality, which the client learns to predict; others are for messages"
    return table


def verdict_table(verdicts: Sequence[Verdict], title: str, stated: str = "printed") -> Table:
    """A row per stated figure: theirs, ours, and whether the difference is small enough."""
    table = _plain_table(title)
    for head in ("method", "figure"):
        table.add_column(head, overflow="fold")
    for head in (stated, "ours", "off by"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for verdict in verdicts:
        printed, off = verdict.printed, verdict.off
        digits = 0 if printed.kind == "tensors" else 2
        table.add_row(
            printed.name,
            _figure_of(printed),
            _with_spread(printed.value, printed.std, digits),
            _ours(verdict, digits),
            "–" if off is None else f"{off:+z,.{digits}f}",
            _coloured(verdict.judged),
        )
    table.caption = " ".join(_allowances(verdicts))
    return table


def _figure_of(printed: Printed) -> str:
    """What the figure is of: a size, or a place and the kind of score if there are several."""
    if printed.kind in _SIZES:
        return _SIZES[printed.kind]
    return " ".join([printed.place, *_KINDS.get(printed.kind, ())])


def _allowances(verdicts: Sequence[Verdict]) -> Iterator[str]:
    judged = [verdict.printed for verdict in verdicts if not verdict.printed.beside]
    allowed = sorted({printed.allowed for printed in judged if not printed.note})
    if allowed:
        yield f"inside: off by at most {' or '.join(f'{off:g}' for off in allowed)}."
    for note in dict.fromkeys(printed.note for printed in judged if printed.note):
        own = [printed for printed in judged if printed.note == note]
        labels = ", ".join(dict.fromkeys(printed.label for printed in own))
        yield f"{labels}, allowed {own[0].allowed:g}: {note}."
    for reason in dict.fromkeys(v.printed.beside for v in verdicts if v.printed.beside):
        yield f"beside, not judged: {reason}."


def order_table(orders: Sequence[Order]) -> Table:
    """A row per clear order that is printed."""
    table = _plain_table("printed ROC-AUCs that are further apart than both spreads")
    for head in ("runs", "higher", "lower"):
        table.add_column(head, overflow="fold")
    table.add_column("ours apart by", justify="right", no_wrap=True)
    table.add_column("")
    for order in orders:
        gap = "–" if order.gap is None else f"{order.gap:+.2f}"
        table.add_row(order.place, order.higher, order.lower, gap, _held(order.holds))
    return table


def saving_table(rows: Sequence[Saving], title: str, judged: bool = True) -> Table:
    """A row per method that sends less: what it costs in points, and what share it sends."""
    table = _plain_table(title)
    for head in ("runs", "method"):
        table.add_column(head, overflow="fold")
    for head in ("seeds", "points", "worst seed", "tensors up", "bytes up", "both ways"):
        table.add_column(head, justify="right", no_wrap=True)
    if judged:
        table.add_column("as good for less")
        table.add_column("no worse at worst")
    for row in rows:
        marks = (_held(row.as_good_for_less), _held(row.steadier)) if judged else ()
        table.add_row(
            row.place,
            row.label,
            str(row.seeds),
            f"{row.gain:+.2f}",
            f"{row.worst:+.2f}",
            *(f"{100 * share:.1f} %" for share in (row.tensors_up, row.bytes_up, row.bytes_both)),
            *marks,
        )
    if judged:
        table.caption = (
            f"as good for less: loses at most {POINTS_LOST:g} points and sends at most "
            f"{100 * SHARE_SENT:g} % of the bytes, both ways; no worse at worst: its worst seed is "
            "no lower than FedAvg's"
        )
    return table


_BY_CLASS = "graphs by class"
_COLOURS = {"inside": "green", "holds": "green", "outside": "red", "does not": "red"}
_SIZES = {"model_kb": "model KB", "payload_kb": "payload KB"}
_KINDS = {"auc": ("ROC-AUC",), "mrr": ("MRR",), "tensors": ("tensors",)}


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    return f"[{colour}]{word}[/]" if colour else word


def _held(holds: bool | None) -> str:
    return _coloured({True: "holds", False: "does not", None: "not run"}[holds])


def _ours(verdict: Verdict, digits: int) -> str:
    if verdict.mean is None:
        return "–"
    if verdict.printed.kind in _SIZES:
        return f"{round(verdict.mean * 256):,}: {verdict.mean:.3f}"
    if verdict.printed.shape is not None:
        return f"{verdict.mean:,.0f}"
    return f"{_with_spread(verdict.mean, verdict.spread, digits)} ({len(verdict.ours)})"


def _with_spread(mean: float, spread: float | None, digits: int = 2) -> str:
    return f"{mean:,.{digits}f}" + ("" if spread is None else f" ± {spread:,.{digits}f}")


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
