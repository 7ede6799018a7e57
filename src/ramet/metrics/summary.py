"""From the rounds of a run to the numbers that are reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ramet.metrics.record import Record
from ramet.metrics.work import WORK, total

_DIGITS = 5


def scores(records: Sequence[Record]) -> dict[str, Any]:
    """Test score of the last round, and of the round whose mean validation score is best.

    Rounds that judged other clients than the last one did are not compared: a mean without the
    hardest client is no better.
    """
    final = records[-1]
    alike = [record for record in records if record.judged.keys() == final.judged.keys()]
    best = max(alike, key=lambda record: record.mean("val"))
    return {
        "test": final.mean("test"),
        "test_at_best_val": best.mean("test"),
        "best_val_round": best.round,
        "clients": {client: numbers["test"] for client, numbers in final.judged.items()},
        **({"besides": besides} if (besides := _besides(final)) else {}),
        **({"overview": _overview(records)} if final.overview else {}),
    }


def measure(result: Mapping[str, Any]) -> str:
    """What a result's scores are, as people call it; older results do not say it themselves."""
    if "measure" in result:
        return str(result["measure"])
    return "ROC-AUC" if "mrr" in result["scores"].get("besides", {}) else "accuracy"


def common_measure(measures: Iterable[str]) -> str:
    """The measure of all; if they differ, or there is none, just a score."""
    found = set(measures)
    return found.pop() if len(found) == 1 else "score"


def _overview(records: Sequence[Record]) -> dict[str, float]:
    """The server's model on all data: last, and at the round that is best there in validation."""
    best = max(records, key=lambda record: record.overview["val"])
    return {
        **records[-1].overview,
        "test_at_best_val": best.overview["test"],
        "best_val_round": best.round,
    }


def merging(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """What the server's rule told: in the first and the last round, and on average."""
    names = sorted({name for record in records for name in record.merging})
    told = {
        "first": records[0].merging,
        "last": records[-1].merging,
        "mean": {
            name: fmean(record.merging[name] for record in records if name in record.merging)
            for name in names
        },
    }
    return {
        when: {name: round(value, _DIGITS) for name, value in numbers.items()}
        for when, numbers in told.items()
        if numbers
    }


def _besides(final: Record) -> dict[str, float]:
    """Means over the clients of the scores that a task gives beside its main one."""
    first = next(iter(final.judged.values()), {})
    return {name: final.mean(name) for name in first if name not in ("val", "test")}


def traffic(records: Sequence[Record]) -> dict[str, float]:
    """Bytes of arrays sent, by direction."""
    up = sum(record.bytes_up for record in records)
    down = sum(record.bytes_down for record in records)
    return {
        "up_per_client_round": _each(up, [record.trained for record in records]),
        "down_per_client_round": _each(down, [record.down for record in records]),
        "total": up + down,
    }


def sent(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    """Tensors, scalars and bytes of the whole run, by direction."""

    def up(kind: str) -> int:
        return int(sum(told.get(kind, 0) for r in records for told in r.trained.values()))

    return {
        "tensors": {"up": up("tensors"), "down": sum(r.tensors_down for r in records)},
        "scalars": {"up": up("scalars"), "down": sum(r.scalars_down for r in records)},
        "bytes": {"up": up("up"), "down": sum(r.bytes_down for r in records)},
    }


def flops(records: Sequence[Record]) -> dict[str, Any]:
    """Operations of each client in one round of training, and their mean over the clients."""
    clients = {
        client: {name: int(numbers[name]) for name in WORK}
        for record in records
        for client, numbers in record.trained.items()
        if WORK[0] in numbers
    }
    totals = [total(work) for work in clients.values()]
    return {"per_client_round": fmean(totals) if totals else None, "clients": clients}


def _each(total: int, rounds: Sequence[Mapping[str, Any]]) -> float:
    """Per client and round; a whole number stays one."""
    count = sum(len(clients) for clients in rounds)
    return total // count if total % count == 0 else total / count
