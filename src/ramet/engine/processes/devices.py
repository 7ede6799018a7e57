"""The device on which this process computes."""

from __future__ import annotations

import os

import torch

WORKER = "RAMET_WORKER"
"""The number of a worker process, counted from 0, in its environment."""


def compute_device(name: str) -> torch.device:
    """A device with its index, as tensors there name it.

    Each worker process has a GPU of its own; if there are fewer GPUs, some share one. On CUDA,
    PyTorch is set to use deterministic kernels, and to warn where it has none.
    """
    if name == "cpu":
        return torch.device(name)
    if name != "cuda":
        return torch.device(name, 0)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.use_deterministic_algorithms(True, warn_only=True)
    return torch.device(name, int(os.environ.get(WORKER, "0")) % max(torch.cuda.device_count(), 1))


def places(name: str, cores: int) -> int:
    """How many processes can compute at the same time: one for each core, or for each GPU."""
    if name == "cpu":
        return cores
    return torch.cuda.device_count() if name == "cuda" else 1
