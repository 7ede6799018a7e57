"""Tables of one run: its result, and what left the sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan

from rich.markup import escape
from rich.table import Table

from ramet.engine.site.audit import AuditEntry
from ramet.metrics import Record, Summary
from ramet.metrics.evaluation import Evaluation
from ramet.metrics.work import total
from ramet.report.plain_table import plain_table
from ramet.report.text import operations, plural, size


def result_table(summary: Summary) -> Table:
    """A row per client, their means, and the network traffic as the caption."""
    scores, traffic, shown = summary.scores, summary.traffic, summary.scale.shown
    table = Table(title=f"{summary.method} on {summary.setting}, seed {summary.seed}")
    table.add_column("client", overflow="fold")
    table.add_column(f"test {summary.metric}{summary.scale.suffix}", justify="right", no_wrap=True)
    table.add_column("model scalars", justify="right", no_wrap=True)
    table.add_column("FLOPs per round", justify="right", no_wrap=True)
    for client, score in scores.clients.items():
        work = summary.flops.clients.get(client)
        table.add_row(
            client,
            shown(score),
            f"{summary.model.scalars[client]:,}",
            operations(total(work) if work else None),
        )
    table.add_section()
    early = f" ({summary.rounds}, stopped early)" if summary.stopped_early else ""
    table.add_row(f"mean, last round{early}", shown(scores.test), "", "")
    if scores.interval is not None:
        low, high = scores.interval
        table.add_row("95 % interval for all clients", f"{shown(low)}–{shown(high)}", "", "")
    table.add_row(
        f"mean, round {scores.best_val_round} (best validation)",
        shown(scores.test_at_best_val),
        "",
        "",
    )
    table.caption = (
        f"{summary.model.shared_scalars:,} scalars shared; "
        f"{size(traffic.up_per_client_round)} up and "
        f"{size(traffic.down_per_client_round)} down per client and round, "
        f"{size(traffic.total)} in total; {summary.seconds:.0f} s"
    )
    if summary.peak_memory:
        table.caption += f", {size(summary.peak_memory)} of memory"
    if summary.privacy is not None:
        table.caption += f"; differential privacy: {summary.privacy.sentence}"
    if isnan(scores.test):
        table.caption += "; no site sent its scores, so there is no best round and no early stop"
    return table


def missed_rounds(records: Sequence[Record]) -> list[str]:
    """Who did not take part in rounds in which it was asked."""
    missed = Counter(client for record in records for client in record.failed)
    return [
        f"{client}: no valid reply in {times} of {plural(len(records), 'round')}"
        for client, times in missed.items()
    ]


def audit_table(entries: Sequence[AuditEntry]) -> Table:
    """A row per tensor of each reply."""
    table = plain_table("tensors sent")
    for head in ("run", "client", "round", "tensor", "shape", "bytes", "SHA-256"):
        table.add_column(head, overflow="fold")
    for reply in entries:
        for one in reply.tensors:
            facts = (str(list(one.shape)), f"{one.bytes:,}", one.sha256)
            table.add_row(reply.run[:8], reply.client, str(reply.round), one.label, *facts)
    return table


def audit_totals_table(entries: Sequence[AuditEntry]) -> Table:
    """A row per client and tensor, and the names of the numbers and notes sent with them."""
    table = plain_table("sent")
    for head in ("run", "client", "item", "shape", "times", "bytes"):
        table.add_column(head, overflow="fold", justify="right" if head == "bytes" else "left")
    for run, client in dict.fromkeys((reply.run, reply.client) for reply in entries):
        own = [reply for reply in entries if (reply.run, reply.client) == (run, client)]
        sizes: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for one in (one for reply in own for one in reply.tensors):
            sizes.setdefault((one.label, one.shape), []).append(one.bytes)
        for (name, shape), all_bytes in sizes.items():
            cells = (str(list(shape)), str(len(all_bytes)), f"{sum(all_bytes):,}")
            table.add_row(run[:8], client, name, *cells)
        numbers = dict.fromkeys(name for reply in own for name in (*reply.numbers, *reply.notes))
        table.add_row(run[:8], client, f"numbers: {', '.join(numbers)}", "", str(len(own)), "")
    return table


def audit_told_table(entries: Sequence[AuditEntry]) -> Table | None:
    """A row per column whose sums left; None if none did."""
    rows = dict.fromkeys((reply.client, line) for reply in entries for line in reply.told)
    table = plain_table("told before round 1")
    for head in ("client", "counts and sums"):
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table if rows else None


def audit_runs_table(entries: Sequence[AuditEntry]) -> Table:
    """A row per client and run: what the run asked for; empty in logs of earlier versions."""
    table = plain_table("runs")
    for head in ("run", "client", "method", "sharing", "data", "run config"):
        table.add_column(head, overflow="fold")
    asked = (
        (reply.run[:8], reply.client, reply.method, reply.sharing, reply.data, reply.run_config)
        for reply in entries
    )
    for row in dict.fromkeys(asked):
        table.add_row(*row)
    return table


def metrics_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """A row per client: all metrics on test data, with those of a constant in brackets."""
    first = next(iter(evaluations.values()))
    of_constant = "the most frequent class" if first.classes else "a constant"
    table = plain_table(f"test, and in brackets {of_constant}")
    table.add_column("client", overflow="fold")
    calibrated = ("ECE %", "Brier") if first.brier is not None else ()
    heads = [f"{name}{scale.suffix}" for name, scale in first.scales.items()]
    for head in ("samples", *heads, *calibrated):
        table.add_column(head, justify="right")
    for client, found in evaluations.items():
        scores = [
            f"{scale.shown(found.metrics.get(name), 1)} "
            f"({scale.shown(found.constant.get(name), 1)})"
            for name, scale in found.scales.items()
        ]
        if found.brier is not None and found.calibration_error is not None:
            scores += [f"{100 * found.calibration_error:.1f}", f"{found.brier:.3f}"]
        table.add_row(client, f"{found.samples:,}", *scores)
    return table


def outputs_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """A row per client and target or label."""
    scales = next(iter(evaluations.values())).scales
    table = plain_table("test, by target")
    for head in ("client", "target"):
        table.add_column(head, overflow="fold")
    for name, scale in scales.items():
        table.add_column(f"{name}{scale.suffix}", justify="right")
    for client, found in evaluations.items():
        for output, scores in found.outputs.items():
            cells = (scale.shown(scores.get(name), 1) for name, scale in scales.items())
            table.add_row(client, output, *cells)
    return table


def classes_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """A row per client and class: how well the class is found, and what it is taken for."""
    table = plain_table("test %, by class")
    for head in ("client", "class"):
        table.add_column(head, overflow="fold")
    for head in ("samples", "precision", "recall", "F1", "predicted as"):
        table.add_column(head, justify="right")
    for client, found in evaluations.items():
        names = [one.name for one in found.classes]
        for one, row in zip(found.classes, found.confusion, strict=True):
            taken = ", ".join(f"{name} {n}" for name, n in zip(names, row, strict=True) if n)
            scores = (f"{100 * score:.1f}" for score in (one.precision, one.recall, one.f1))
            table.add_row(client, one.name, f"{one.samples:,}", *scores, taken)
    return table
