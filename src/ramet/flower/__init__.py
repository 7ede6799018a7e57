"""Rounds over Flower. The only package that imports `flwr`."""

from pathlib import Path

THIN_APP = Path(__file__).parent / "app"
"""The Flower app: a pyproject.toml that names modules of this package."""
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
}
"""Environment variables for all of Flower's programs."""
