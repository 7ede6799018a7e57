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

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ramet.experiment import Experiment, checked_settings, default_data
from ramet.tasks import GraphSamples, Task
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


@dataclass
class Site:
    """A client's network, as it trains."""

    task: Task
    samples: GraphSamples
    model: nn.Module
    optimiser: torch.optim.Optimizer
    batch_size: int
    order: torch.Generator = field(default_factory=torch.Generator)

    def rounds(self) -> Iterator[tuple[float, float]]:
        """Seconds of each step of a round, and of its products alone."""
        state = self.order.get_state()
        noted = self.task.batches(self.samples, self.batch_size, self.order)
        again = torch.Generator()
        again.set_state(state)
        timed = self.task.batches(self.samples, self.batch_size, again)
        for batch in noted:
            with Products() as products:
                self._step(batch)
            start = time.process_time()
            self._step(next(timed))
            middle = time.process_time()
            with torch.no_grad():
                for func, args, kwargs in products.calls:
                    func(*args, **kwargs)
            yield middle - start, time.process_time() - middle

    def _step(self, batch: Any) -> None:
        loss = self.task.loss(self.task.output(self.model, batch), batch)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()


def sites(experiment: Experiment) -> list[Site]:
    method = experiment.method
    training = method.training
    assert isinstance(training, LocalTraining)
    found = []
    for client in experiment.clients:
        samples = experiment.samples(client)
        model = method.model(method.task.shape(samples)).train()
        optimiser = training.optimiser(model)
        found.append(Site(method.task, samples, model, optimiser, training.batch_size))
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    setting = sys.argv[2] if len(sys.argv) > 2 else "single"
    settings = checked_settings(method="fedstar", setting=setting, data=default_data())
    clients = sites(Experiment(settings))
    ratios = []
    for trial in range(trials + 1):
        steps = [seconds for site in clients for seconds in site.rounds()]
        training, products = (sum(part) for part in zip(*steps, strict=True))
        if not trial:
            continue  # a warm-up
        ratios.append(training / products)
        print(
            f"trial {trial}: training {training:.2f} s, its products {products:.2f} s (CPU time, "
            f"{len(steps)} steps): ratio {ratios[-1]:.3f}"
        )
    print(f"median of all trials: ratio {median(ratios):.3f}")


if __name__ == "__main__":
    main()
