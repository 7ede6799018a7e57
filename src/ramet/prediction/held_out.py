"""What clients' models predict for the samples that they were not trained on."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from ramet.data.own.site import Site
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.run_models import check_metrics, evaluated, model_of, predictions_on
from ramet.experiment.site_record import load_parts
from ramet.metrics.evaluation import Evaluation
from ramet.partition.own import OwnSetting
from ramet.prediction.trained import Trained
from ramet.tasks import Predictions


def held_out(trained: Trained, client: str) -> dict[str, Predictions]:
    """The predictions for validation and test, which a run in progress would score."""
    experiment = trained.experiment
    if trained.run is None:
        return on_own_parts(trained, client, trained.model(client))
    best = trained.best_round is not None
    model = model_of(trained.run, client, best)
    return predictions_on(experiment, experiment.samples(client), model)


def evaluations(trained: Trained, client: str) -> dict[str, Evaluation]:
    """All metrics of a client's model, by part of its split with samples."""
    check_metrics(trained.experiment)
    return {
        part: evaluated(trained.experiment, client, given)
        for part, given in held_out(trained, client).items()
        if given.labels.size
    }


def on_own_parts(trained: Trained, client: str, model: nn.Module) -> dict[str, Predictions]:
    """The predictions for the samples that were held out in training, whatever was added since."""
    experiment, known = trained.experiment, load_parts(trained.states / client)
    if known is None:
        raise RametError(
            f"{trained.states / client} does not say which samples were held out. Train again."
        )
    path = trained.data_of(client)
    now = experiment.sample_parts(client).part_of
    if all(known.part_of.get(sample) == part for sample, part in now.items()):
        return predictions_on(experiment, experiment.samples(client), model)
    setting = experiment.setting
    assert isinstance(setting, OwnSetting)
    site = setting.site(client, path, experiment.reading.preparation)
    return predicted_on(experiment, replace(site, parts=known.parts_in(site)), model)


def predicted_on(experiment: Experiment, site: Site, model: nn.Module) -> dict[str, Predictions]:
    """What a model predicts for a site's samples of validation and test."""
    seed, inputs, setting = (
        experiment.settings.split_seed,
        experiment.method.inputs,
        experiment.setting,
    )
    assert isinstance(setting, OwnSetting)
    data = site.client_data(seed, inputs, setting.negatives)
    return predictions_on(experiment, experiment.method.task.samples(data), model)
