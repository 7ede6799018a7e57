"""The server's side of a run, built from its components."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from ramet.engine.processes.devices import compute_device
from ramet.engine.server.rounds import Rounds, ServerEvaluation
from ramet.engine.start import START, new_model, start_model, state_names
from ramet.engine.store.checkpoint import KEPT, Snapshots
from ramet.engine.store.client_state import load_arrays
from ramet.errors import RametError
from ramet.experiment.digests import agreed_digest
from ramet.experiment.experiment import Experiment
from ramet.experiment.noise_share import smallest_sum
from ramet.payload import Arrays
from ramet.randomness import EVERYONE
from ramet.rules.method import AssembledMethod
from ramet.run_options import Engine

if TYPE_CHECKING:
    from ramet.secure.charter import Charter  # needs an extra

RETRY_DELAYS: dict[Engine, tuple[float, ...]] = {
    "local": (),  # in the same process a retry would end the same way
    "ray": (0.0, 0.0),
    "superlink": (5.0, 65.0),  # a restarted SuperNode is refused for up to a minute
}


def rounds_of(experiment: Experiment, snapshots: Path, regional: bool = False) -> Rounds:
    """The server's side of the run; a ``regional`` coordinator evaluates nothing itself."""
    settings, sizes = experiment.settings, experiment.sizes
    charter = _charter(snapshots.parent) if settings.verified else None
    signed = charter.quorum if charter else 1
    return Rounds(
        method=experiment.scored_method,
        clients=experiment.clients,
        rounds=settings.rounds,
        seed=settings.seed,
        start=_shared_start(experiment, snapshots),
        snapshots=Snapshots(snapshots, keep=KEPT * (len(experiment.method.stages) + 1)),
        evaluate_server=None if regional else _server_evaluation(experiment),
        quorum=max(settings.quorum, smallest_sum(experiment), signed),
        retry_delays=RETRY_DELAYS[settings.engine],
        patience=settings.patience,
        norm_bound=settings.norm_bound,
        extras=sizes.start_extras(),
        buffers=sizes.buffers(),
        network=lambda: _server_network(experiment),
        shape=sizes.server_shape,
        device=compute_device(settings.device),
        secure=settings.secure,
        config=agreed_digest(experiment),
        charter=charter,
        final_clients=experiment.final_clients,
    )


def _charter(folder: Path) -> Charter:
    from ramet.experiment.chain_parts import read_charter  # needs an extra

    return read_charter(folder).charter


def _shared_start(experiment: Experiment, snapshots: Path) -> Arrays:
    """The shared arrays before round 1, taken from another run or drawn from the seed."""
    taken = Snapshots(snapshots / START).latest_valid()
    return taken.arrays if taken else experiment.sizes.shared_start()


def _server_network(experiment: Experiment) -> nn.Module:
    """A network with the arrays that all clients start with."""
    method, settings = experiment.method, experiment.settings
    model = start_model(method, experiment.sizes.server_shape, settings.seed, EVERYONE)
    private = [name for name in state_names(model) if not _is_common(method, name)]
    if private:
        raise RametError(
            f"the server has no network: '{private[0]}' is private. A rule that trains at the "
            "server needs a method that shares all arrays in both directions."
        )
    return model.to(compute_device(settings.device))


def _server_evaluation(experiment: Experiment) -> ServerEvaluation | None:
    """None unless the whole model is shared and the setting provides the pooled data.

    None also if links are protected: the pooled graph has all of them, without noise.
    """
    method, settings = experiment.method, experiment.settings
    data, budget = experiment.setting.overview(experiment.reading), settings.budget
    if data is None or (budget is not None and budget.unit == "link"):
        return None
    task, device = method.task, compute_device(settings.device)
    samples = task.samples(data)
    model = new_model(method, task.shape(samples), settings.seed).to(device)
    if not all(_is_common(method, name) for name in state_names(model)):
        return None

    def evaluate(arrays: Arrays) -> Mapping[str, float]:
        load_arrays(model, arrays)
        scores = {
            **task.evaluate(model, samples, device),
            **task.extra_scores(model, samples, device),
        }
        return {name: score for name, score in scores.items() if score is not None}

    return evaluate


def _is_common(method: AssembledMethod, name: str) -> bool:
    """Whether the server has the array."""
    return name in method.shared and name in method.down
