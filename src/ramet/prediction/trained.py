"""A finished run with the models that this machine has: those of all clients, or of one site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from ramet.data.own.preparation import Preparation
from ramet.data.own.ranges import Ranges
from ramet.data.own.schema import Schema
from ramet.engine.site.kept_models import FINAL
from ramet.engine.store.client_state import model_arrays
from ramet.errors import RametError, unknown
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.accepted import accepted_run
from ramet.experiment.run_models import best_round, saved_model_of
from ramet.experiment.site_record import NAME as RECORD
from ramet.experiment.site_record import SiteRecord
from ramet.experiment.superseded import warn_if_superseded
from ramet.payload import digest

_STATES = ("state/clients/*/*", "clients/*/*", "*")
"""Where a site's states are: in its folder, its state folder, or the folder of one run in it."""


@dataclass(frozen=True)
class Trained:
    """The run, and the folder with the state folders of its clients."""

    experiment: Experiment
    states: Path
    best_round: int | None = None
    """The round whose models are used instead of the last one's."""
    run: RunFolder | None = None
    """The folder of the run; None in a site's own folder."""

    @staticmethod
    def open(path: Path, best: bool = False) -> Trained:
        """Open the folder of a run, or a site's own folder, with its accepted or its last run.

        With ``best``, the models are those of the round with the best mean validation score.
        """
        folder = RunFolder(path.absolute())
        if not folder.started:
            if best:
                raise RametError(
                    f"{path} is not the folder of a run: a site does not know which round was best "
                    "over all sites. Use the final model, without --best."
                )
            return _run_of_site(folder.path)
        if folder.summary() is None:
            raise RametError(f"{path} is not finished. Continue it with `ramet resume {path}`.")
        warn_if_superseded(folder.path)
        number = best_round(folder) if best else None
        return Trained(folder.experiment(), folder.clients, number, folder)

    @property
    def clients(self) -> list[str]:
        """The clients whose models are on this machine."""
        return [name for name in self.experiment.clients if (self.states / name / FINAL).is_dir()]

    def client_of(self, site: str | None, given: str | None) -> str:
        """The client whose model is used: the given one, or the one with the site's name.

        A site that did not take part can use a model that all clients share.
        """
        name = given or site
        if name in self.clients:
            return name
        if given is not None:
            raise unknown("client", given, self.clients)
        if site is None and len(self.clients) == 1:
            return self.clients[0]
        if site is None:
            raise RametError(f"whose model? Add --client: {', '.join(self.clients)}.")
        if len(self.clients) > 1 and len({*map(self._digest, self.clients)}) == 1:
            return self.clients[0]
        raise RametError(
            f"{site} did not take part in this run, and its clients have models of their own. "
            f"Choose one with --client: {', '.join(self.clients)}. To get a model of its own, "
            f"{site} has to take part in a run."
        )

    def model(self, client: str) -> nn.Module:
        """The client's final or best model, in evaluation mode."""
        return saved_model_of(self.experiment, client, self.states, self.best_round)

    def schema(self, client: str) -> Schema:
        """The schema of the client's own data, with columns as declared."""
        schemas = self.experiment.raw_schemas
        if client not in schemas:
            raise RametError(
                f"{client} was trained on graphs without a site's file, so it cannot read one. "
                "Leave out --site to predict for the client's own data."
            )
        return schemas[client]

    def data_of(self, client: str) -> Path:
        """The TOML file of the data that a client was trained on."""
        experiment = self.experiment
        if not experiment.setting.user_defined:
            raise RametError(
                f"{client} was trained on built-in data, which new rows cannot continue. Leave out "
                "--new to predict for that data."
            )
        path = experiment.setting.data_of(client, experiment.settings.data)
        if path is None:
            raise RametError(
                f"the data of {client} is on another machine. Name its TOML file with --site, or "
                "with --context if there is --new."
            )
        return path

    @property
    def preparation(self) -> Preparation:
        return self.experiment.preparation

    def ranges(self, client: str) -> Ranges:
        """The ranges of the columns that the client was trained on."""
        return SiteRecord.load(self.states / client).ranges

    def _digest(self, client: str) -> str:
        return digest(model_arrays(self.model(client)))


def _run_of_site(folder: Path) -> Trained:
    """The accepted run at a site; without one, the run that has finished last."""
    found = [state for pattern in _STATES for state in folder.glob(pattern)]
    finished = [state for state in found if (state / RECORD).exists() and (state / FINAL).is_dir()]
    if not finished:
        raise RametError(
            f"{folder} has neither a run nor a site's final model. Give the folder that `ramet "
            "run` printed or, after a finished run, the one that `ramet deploy join` made."
        )
    state = max(finished, key=lambda state: (state / FINAL).stat().st_mtime)
    named = accepted_run(folder / "state") or accepted_run(folder)
    state = next((one for one in finished if one.parent.name == named), state)
    record = SiteRecord.load(state)
    reported = {state.name: record.site_schema}
    states = state.parent
    return Trained(Experiment(record.settings, reported, record.preparation, states), states)
