"""FedStar: CPU time of a training round, relative to its bare matrix products.

The products are those that a step of training calls, dense and sparse, of its forward and its
backward pass, with the operands that it gave them. A step is first taken once to note them, then
taken again and timed, and then its products alone are computed and timed, each into a tensor of its
own; so both sides alternate from batch to batch. What a step does besides is cutting the batch,
everything that works element by element, the loss, the optimiser and the overhead of each call.
One process and one thread. Prints the ratio last.

    RAMET_DATA=DIR python benchmarks/floor.py [TRIALS] [SETTING]      default: 5 single
"""

from __future__ import annotations

from typing import Any

import torch
from harness import Clock, Site, given, print_ratio, settings, sites
from torch.utils._python_dispatch import TorchDispatchMode

from ramet.experiment import Experiment
from ramet.training.local import LocalTraining

_PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.addmm)


class Products(TorchDispatchMode):
    """Notes the matrix products that are called, with their operands."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in _PRODUCTS:
            self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def train(site: Site, batch_size: int, number: int, steps: Clock, products: Clock) -> None:
    """A round: each step is taken to note its products, and again; then come its products alone."""
    noted, timed = (
        site.task.batches(site.samples, batch_size, torch.Generator().manual_seed(number))
        for _ in range(2)
    )
    for batch in noted:
        with Products() as called:
            site.step(batch)
        with steps.running():
            site.step(next(timed))
        with products.running(), torch.no_grad():
            for func, args, kwargs in called.calls:
                func(*args, **kwargs)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    experiment = Experiment(settings("fedstar", given(2, "single")))
    clients, training = sites(experiment), experiment.method.training
    assert isinstance(training, LocalTraining)

    def trial(number: int) -> tuple[float, float]:
        steps, products = Clock(), Clock()
        for site in clients:
            train(site, training.batch_size, number, steps, products)
        return steps.seconds, products.seconds

    print_ratio(given(1, 5), trial, "training", "its products")


if __name__ == "__main__":
    main()
