"""Whether a run can be computed and tracked on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch

from ramet.errors import RametError
from ramet.experiment import RunSettings
from ramet.experiment.capabilities import Can, chosen_by
from ramet.experiment.compatibility import ANY_NAMES, check_together
from ramet.run_options import Computing
from ramet.tracking import check_trackers


def check_computing(settings: RunSettings, computing: Computing) -> None:
    """Check that a run can be computed and tracked on this machine in this way."""
    check_device(settings.device)
    check_engine(settings.engine)
    check_processes(settings, computing.workers)
    check_ray_address(computing.ray_address, settings.engine)
    check_trackers(computing.track)


def check_device(device: str) -> None:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": _has_mps()}
    if not available[device]:
        usable = ", ".join(name for name, present in available.items() if present)
        raise RametError(f"this machine has no {device}. Use --device {usable}.")


def check_engine(engine: str) -> None:
    if engine != "local" and not (find_spec("flwr") and find_spec("ray")):
        raise RametError(
            f"the engine {engine} needs Flower. Install it: pip install 'ramet[flower]'"
        )


def check_processes(settings: RunSettings, workers: int | None) -> None:
    """Check that the clients can be computed in this number of processes."""
    if workers is not None and workers < 1:
        raise RametError(f"a run needs at least one worker, not {workers}.")
    several = workers is not None and (workers > 1 or settings.engine != "local")
    names = {**ANY_NAMES, "method": settings.method.partition(":")[2]}
    check_together(chosen_by(settings) | ({Can.WORKERS} if several else set()), names)


def check_ray_address(address: str | None, engine: str) -> None:
    if address is None:
        return
    if engine != "ray":
        raise RametError(f"the engine {engine} does not use Ray. Leave out --ray-address.")
    from ramet.flower.programs import check_ray

    check_ray(address)


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with this number of PyTorch threads; another may change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
