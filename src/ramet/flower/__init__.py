"""Rounds over Flower. The only package that imports `flwr`."""

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
}
"""Environment variables for all of Flower's programs."""
