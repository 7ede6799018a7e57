"""The summary of a run, computed from its rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import fmean, stdev
from typing import Any, TypeAlias

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from ramet.metrics.best import Evaluated, best_of
from ramet.metrics.record import Record
from ramet.metrics.work import WORK, total
from ramet.privacy.budget import NoiseShare, guarantee
from ramet.scale import SHARE, Scale

Number: TypeAlias = int | float
"""Integers stay integers in JSON."""
_DIGITS = 5
_CURVE_DIGITS = 6
_MAIN_SCORES = ("val", "test")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Scores(_Frozen):
    """Test scores after the last round, and at the round whose mean validation score is best."""

    test: float
    test_at_best_val: float
    best_val_round: int
    clients: dict[str, float | None]
    """None for a client without a valid reply in the last round, or without test samples."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the mean test score over all clients, if only a sample evaluated."""
    besides: dict[str, float] = {}
    """Means over the clients of the task's other metrics, such as MRR."""
    overview: dict[str, Number] = {}
    """The server's model evaluated on all clients' data at once: every metric after the last round,
    and ``test_at_best_val`` with its ``best_val_round``."""


class Baseline(_Frozen):
    """A client's numbers of samples, and the score of the best constant prediction."""

    train: int
    test: int
    constant: float | None = Field(
        default=None, validation_alias=AliasChoices("constant", "majority")
    )
    """Test score of always predicting what the training samples say, such as their most frequent
    class; None for links. Older runs call it `majority`."""


class Traffic(_Frozen):
    """Bytes of arrays sent."""

    up_per_client_round: Number
    down_per_client_round: Number
    total: int


class Directions(_Frozen):
    """Totals of a run: sent by the clients, and to them."""

    up: int
    down: int


class Sent(_Frozen):
    """What crossed the wire in a run."""

    tensors: Directions
    scalars: Directions
    bytes: Directions


class ModelSize(_Frozen):
    """The scalars of each client's model, and how many of them are shared; both with buffers."""

    scalars: dict[str, int]
    shared_scalars: int


class Flops(_Frozen):
    """Floating-point operations of a client's training in one round, on average over its rounds."""

    per_client_round: float | None = None
    clients: dict[str, dict[str, int]] = {}


class Privacy(_Frozen):
    """The differential privacy of a run: what it reveals of one unit at most."""

    unit: str
    """`graph`: one training graph; `site`: all data of a site; `link`: one link."""
    epsilon: float
    delta: float
    clip: float
    survivors: int | None = None
    """The smallest number of sites in a secure sum, if these share its noise."""
    colluders: int | None = None
    """How many of them may collude."""
    simulated: bool = False
    """Whether the noise follows from the run's seed, so that nothing is guaranteed."""

    @property
    def promise(self) -> str:
        share = None
        if self.survivors is not None and self.colluders is not None:
            share = NoiseShare(self.survivors, self.colluders)
        return guarantee(self.unit, self.epsilon, self.delta, share)

    @property
    def sentence(self) -> str:
        promised = self.promise
        return f"{promised} (simulated: no guarantee)" if self.simulated else promised


class Summary(_Frozen):
    """The numbers of a finished run, stored in `result.json`. Older runs lack some of them."""

    method: str
    network: str | None = None
    activation: str | None = None
    merge: str | None = None
    setting: str
    seed: int
    rounds: int
    """The number of rounds that were run."""
    stopped_early: bool = False
    """Whether ``patience`` ended the run before the number of rounds that it was started with."""
    epochs: int | None = None
    """Passes of a client over its samples in all rounds that it is asked in; None if the method
    trains in its own way, and in older runs."""
    engine: str
    metric: str
    """The name of the metric, such as accuracy or ROC-AUC."""
    scale: Scale = SHARE
    scores: Scores
    baselines: dict[str, Baseline] = {}
    """By client; empty if the clients' data is on other machines, and in older runs."""
    traffic: Traffic
    sent: Sent | None = None
    model: ModelSize
    flops: Flops = Flops()
    privacy: Privacy | None = None
    """The budget of differential privacy; None without it."""
    merging: dict[str, dict[str, float]] = {}
    """What the merging rule reported in the first and the last round, and on average."""
    sha256: str
    """Hash of everything that was learned, including the arrays of the merging rule."""
    seconds: float
    cpu_seconds: float | None = None
    """Of all processes; None if they are not all on one machine, and in older runs."""
    peak_memory: int = 0

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)


@dataclass(frozen=True)
class Round:
    """One point of a run's curves: means over the clients that took part."""

    number: int
    val: float
    test: float
    loss: float | None = None
    overview: float | None = None
    """Test score of the server's model on all clients' data at once."""

    @staticmethod
    def of(record: Record) -> Round:
        losses = [numbers["loss"] for numbers in record.trained.values() if "loss" in numbers]
        unknown = record.trained_mean.get("loss", nan)  # or late replies only, or withheld
        loss = fmean(losses) if losses else unknown
        overview = record.overview.get("test")
        return Round(
            record.round,
            round(record.mean("val"), _CURVE_DIGITS),
            round(record.mean("test"), _CURVE_DIGITS),
            round(loss, _CURVE_DIGITS),
            None if overview is None else round(overview, _CURVE_DIGITS),
        )

    def row(self) -> list[float]:
        """As a row of a kept run; fields that older runs lack come last."""
        values = (self.number, self.val, self.test, self.loss, self.overview)
        return [value for value in values if value is not None]


def scores(records: Sequence[Record], scale: Scale = SHARE) -> Scores:
    """Test scores after the last round and at the round with the best validation score."""
    final = records[-1]
    best_round = best_of([Evaluated.of(record) for record in records], scale).round
    best = next(record for record in records if record.round == best_round)
    return Scores(
        test=final.mean("test"),
        test_at_best_val=best.mean("test"),
        best_val_round=best.round,
        clients={client: numbers.get("test") for client, numbers in final.evaluated.items()},
        besides=_besides(final),
        overview=_overview(records, scale) if final.overview else {},
    )


def sample_interval(values: Sequence[float], clients: int) -> tuple[float, float] | None:
    """The 95 % t-interval of a mean over all clients, from a random sample of at least two."""
    if len(values) < 2:
        return None
    from scipy.stats import t  # slow to import

    unseen = 1 - len(values) / clients  # the correction for a finite population
    error = stdev(values) * sqrt(unseen / len(values))
    margin = float(t.ppf(0.975, len(values) - 1)) * error
    return fmean(values) - margin, fmean(values) + margin


def common_metric(metrics: Iterable[str]) -> str:
    """The metric that all have in common; "score" if they differ or there are none."""
    distinct = set(metrics)
    return distinct.pop() if len(distinct) == 1 else "score"


def _overview(records: Sequence[Record], scale: Scale) -> dict[str, Number]:
    """The server's model on all data: last scores, and test at its best validation score."""
    best = scale.best(records, lambda record: record.overview["val"])
    return {
        **records[-1].overview,
        "test_at_best_val": best.overview["test"],
        "best_val_round": best.round,
    }


def _besides(final: Record) -> dict[str, float]:
    """Means over clients of the further scores that all clients with test samples report."""
    first, *others = [one for one in final.evaluated.values() if "test" in one] or [{}]
    common = [name for name in first if all(name in scores for scores in others)]
    return {name: final.mean(name) for name in common if name not in _MAIN_SCORES}


def merging(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """What the merging rule reported in the first and the last round, and on average."""
    names = sorted({name for record in records for name in record.merging})
    reported = {
        "first": records[0].merging,
        "last": records[-1].merging,
        "mean": {
            name: fmean(record.merging[name] for record in records if name in record.merging)
            for name in names
        },
    }
    return {
        when: {name: round(value, _DIGITS) for name, value in numbers.items()}
        for when, numbers in reported.items()
        if numbers
    }


def cpu_seconds(records: Sequence[Record]) -> float | None:
    known = [one.cpu_seconds for one in records if one.cpu_seconds is not None]
    return round(sum(known), 3) if len(known) == len(records) else None


def traffic(records: Sequence[Record]) -> Traffic:
    up = sum(record.bytes_up for record in records)
    down = sum(record.bytes_down for record in records)
    return Traffic(
        up_per_client_round=_per_client_round(up, [record.trained for record in records]),
        down_per_client_round=_per_client_round(down, [record.down for record in records]),
        total=up + down,
    )


def sent(records: Sequence[Record]) -> Sent:
    def up(kind: str) -> int:
        return int(sum(sent.get(kind, 0) for r in records for sent in r.trained.values()))

    return Sent(
        tensors=Directions(up=up("tensors"), down=sum(r.tensors_down for r in records)),
        scalars=Directions(up=up("scalars"), down=sum(r.scalars_down for r in records)),
        bytes=Directions(up=up("up"), down=sum(r.bytes_down for r in records)),
    )


def tensors_sent(records: Sequence[Record], clients: Sequence[str]) -> list[list[int]]:
    """The number of tensors that each client sent, by round; 0 if it took no part."""
    return [
        [int(record.trained.get(client, {}).get("tensors", 0)) for client in clients]
        for record in records
    ]


def flops(records: Sequence[Record]) -> Flops:
    """Operations of each client's training in one round, and their mean over the clients.

    A round that was not counted costs what the client's last counted one did.
    """
    counted: dict[str, list[Mapping[str, float]]] = {}
    for record in records:
        for client, numbers in record.trained.items():
            rounds = counted.setdefault(client, [])
            known = [numbers] if all(name in numbers for name in WORK) else rounds[-1:]
            rounds += known
    clients = {
        client: {name: round(fmean(work[name] for work in rounds)) for name in WORK}
        for client, rounds in counted.items()
        if rounds
    }
    totals = [total(work) for work in clients.values()]
    return Flops(per_client_round=fmean(totals) if totals else None, clients=clients)


def _per_client_round(total: int, rounds: Sequence[Mapping[str, Any]]) -> Number:
    count = sum(len(clients) for clients in rounds)
    return total // count if total % count == 0 else total / count
