"""The summary of a finished run, from its rounds and the sizes of its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ramet.experiment.experiment import Experiment
from ramet.experiment.noise_share import noise_share
from ramet.metrics import Record, Summary
from ramet.metrics.summary import (
    Baseline,
    ModelSize,
    Privacy,
    cpu_seconds,
    flops,
    merging,
    sample_interval,
    scores,
    sent,
    traffic,
)
from ramet.options import without_folder
from ramet.training.local import LocalTraining, Training


def summarise(
    experiment: Experiment,
    records: Sequence[Record],
    sha256: str,
    baselines: Mapping[str, Baseline],
    simulated: bool = True,
) -> Summary:
    """The summary; ``simulated`` says whether the noise of private runs follows from the seed."""
    settings = experiment.settings
    scale = experiment.scored_method.task.scale
    final, asked = scores(records, scale), experiment.final_clients
    clients = {client: final.clients.get(client) for client in asked}
    total = len(experiment.clients)
    sampled = [score for score in final.clients.values() if score is not None]
    interval = sample_interval(sampled, total) if len(asked) < total else None
    return Summary(
        method=experiment.method.name,
        network=settings.network and without_folder(settings.network),
        activation=settings.rules.get("activation"),
        merge=settings.rules.get("merge"),
        setting=settings.shown_setting,
        seed=settings.seed,
        rounds=records[-1].round,
        stopped_early=records[-1].round < settings.rounds,
        epochs=_epochs(experiment.method.training, records[-1].round),
        engine=settings.engine,
        metric=experiment.scored_method.task.metric,
        scale=scale,
        scores=final.model_copy(update={"clients": clients, "interval": interval}),
        baselines=dict(baselines),
        traffic=traffic(records),
        sent=sent(records),
        model=ModelSize(
            scalars=experiment.sizes.scalars(),
            shared_scalars=experiment.sizes.shared_scalars(),
        ),
        flops=flops(records),
        privacy=_privacy(experiment, simulated),
        merging=merging(records),
        sha256=sha256,
        seconds=round(sum(record.seconds for record in records), 3),
        cpu_seconds=cpu_seconds(records),
        peak_memory=max(record.memory for record in records),
    )


def _privacy(experiment: Experiment, simulated: bool) -> Privacy | None:
    budget, share = experiment.settings.budget, noise_share(experiment)
    if budget is None:
        return None
    facts = asdict(budget)
    if share is not None and experiment.settings.secure:
        facts |= asdict(share)
    return Privacy(**facts, simulated=simulated)


def _epochs(training: Training, rounds: int) -> int | None:
    """Passes of a client over its samples; None if a kind of training does not count them."""
    return rounds * training.epochs if type(training) is LocalTraining else None
