"""Whether a run can be computed and tracked on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch

from ramet.errors import RametError
from ramet.experiment import RunSettings
from ramet.experiment.objects import is_object
from ramet.run_options import Computing
from ramet.tracking import check_trackers


def check_computing(settings: RunSettings, computing: Computing) -> None:
    """Check that a run can be computed and tracked on this machine in this way."""
    check_device(settings.device)
    check_engine(settings.engine)
    check_workers(computing.workers, settings.engine)
    check_object(settings, computing.workers)
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


def check_workers(workers: int | None, engine: str) -> None:
    if workers is None:
        return
    if workers < 1:
        raise RametError(f"a run needs at least one worker, not {workers}.")
    if engine != "local":
        raise RametError(
            f"the engine {engine} has its own processes. Leave out --workers, or use --engine "
            "local."
        )


def check_object(settings: RunSettings, workers: int | None) -> None:
    """Refuse a method that only this process has where other processes would need it."""
    if is_object(settings.method) and (settings.engine != "local" or (workers or 1) > 1):
        raise RametError(
            f"{settings.method.partition(':')[2]} is an object that only this process has. Use the "
            "engine local without workers, or put a function that returns the method into a file, "
            "and name it: file.py:FACTORY."
        )


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
