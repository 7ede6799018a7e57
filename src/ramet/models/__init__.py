"""Plain PyTorch modules; what a method shares is a pattern over their parameter names."""

from ramet.models.dual_channel import DualChannel
from ramet.models.gin import GIN
from ramet.models.layers import Chance
from ramet.models.shape import GraphShape

__all__ = ["GIN", "Chance", "DualChannel", "GraphShape"]
