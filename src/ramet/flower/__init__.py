"""Rounds over Flower. The only package that imports `flwr`."""

from pathlib import Path

THIN_APP = Path(__file__).parent / "app"
"""The Flower app: a pyproject.toml that names modules of this package."""
