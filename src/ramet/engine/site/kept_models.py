"""The models that a client keeps: the final one, and those of the best rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import nn

from ramet.engine.start import new_model
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.engine.store.client_state import load_arrays, model_arrays
from ramet.errors import RametError
from ramet.payload import Arrays
from ramet.rules.method import AssembledMethod
from ramet.tasks import Shape

FINAL, FINAL_MODEL = "final", 0
"""The folder and the step of the final model."""
_EVALUATED = "evaluated"
"""The folder with models of rounds that may be the best."""


def save_final(state: Path, model: nn.Module) -> None:
    Snapshots(state / FINAL, keep=1).save(Snapshot(FINAL_MODEL, model_arrays(model)))


def save_evaluated(state: Path, models: Mapping[int, Arrays], best: Sequence[int]) -> None:
    """Save models of rounds which may turn out to be the best.

    Those of earlier rounds are deleted, unless they are among the ``best``.
    """
    kept = Snapshots(state / _EVALUATED, keep=1)
    for number in sorted(models):
        kept.save(Snapshot(number, models[number]), pinned={*best, *models})


def has_final_model(state: Path) -> bool:
    return Snapshots(state / FINAL).latest_valid() is not None


def final_model(
    method: AssembledMethod, shape: Shape, seed: int, client: str, state: Path
) -> nn.Module:
    """A client's final model, loaded from its state folder, in evaluation mode."""
    saved = Snapshots(state / FINAL).latest_valid()
    if saved is None:
        raise RametError(f"{state} has no final model: its run is not finished.")
    return _loaded(saved.arrays, method, shape, seed, client)


def evaluated_model(
    method: AssembledMethod, shape: Shape, seed: int, client: str, state: Path, number: int
) -> nn.Module:
    """A client's model of a round that was evaluated, in evaluation mode, if it was kept."""
    kept = Snapshots(state / _EVALUATED)
    if number in kept.steps():
        return _loaded(kept.load(number).arrays, method, shape, seed, client)
    raise RametError(
        f"client {client} has not kept its model of round {number}: it did not evaluate that "
        "round. Use the final model."
    )


def _loaded(
    arrays: Arrays, method: AssembledMethod, shape: Shape, seed: int, client: str
) -> nn.Module:
    model = new_model(method, shape, seed, client)
    load_arrays(model, arrays)
    return model.eval()
