"""What benchmarks share: arguments, sites as they train, and trials of two sides in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import torch
from torch import nn

from ramet.experiment import Experiment, RunSettings, checked_settings, default_data
from ramet.tasks import Task

CPU = torch.device("cpu")
_Given = TypeVar("_Given", int, str)


def given(place: int, default: _Given) -> _Given:
    """The argument at a place of the command line, counted from 1."""
    return type(default)(sys.argv[place]) if len(sys.argv) > place else default


def settings(method: str, setting: str, **more: Any) -> RunSettings:
    return checked_settings(method=method, setting=setting, seed=1, data=default_data(), **more)


@dataclass
class Site:
    """A client's network, as it trains."""

    client: str
    samples: Any
    task: Task
    model: nn.Module
    optimiser: torch.optim.Optimizer

    def step(self, batch: Any) -> None:
        loss = self.task.loss(self.task.output(self.model, batch), batch)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()


def sites(
    experiment: Experiment, model: Callable[[Any, str], nn.Module] | None = None
) -> list[Site]:
    """All clients of an experiment; ``model`` makes a client's network from its shape and name."""
    method, found = experiment.method, []
    for client in experiment.clients:
        samples = experiment.samples(client)
        shape = method.task.shape(samples)
        network = (model(shape, client) if model else method.model(shape)).train()
        optimiser = method.training.optimiser(network)
        found.append(Site(client, samples, method.task, network, optimiser))
    return found


@dataclass
class Clock:
    """CPU-seconds of this process, added up."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds += time.process_time() - start


def print_ratio(
    trials: int,
    trial: Callable[[int], tuple[float, float]],
    ours: str,
    theirs: str,
    unit: str = "CPU time",
    warm_ups: int = 1,
) -> None:
    """Print the seconds of both sides of each trial, and the median of their ratios.

    Args:
        trials: their number.
        trial: gives the seconds of both sides of a trial by its number, from 1 on.
        ours: what the first side is.
        theirs: what it is compared with.
        unit: what the seconds are.
        warm_ups: trials before the first one that counts.
    """
    ratios = []
    for number in range(1 - warm_ups, trials + 1):
        own, other = trial(number)
        if number > 0:
            ratios.append(own / other)
            print(
                f"trial {number}: {ours} {own:.3f} s, {theirs} {other:.3f} s ({unit}): "
                f"ratio {ratios[-1]:.3f}",
                flush=True,
            )
    print(f"median of all trials: ratio {median(ratios):.3f}")
