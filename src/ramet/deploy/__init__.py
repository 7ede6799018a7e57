"""A consortium on real machines: a coordinator behind a proxy, and sites that connect to it."""

from pathlib import Path

MONITORING = Path(__file__).parent / "monitoring"
"""The folder with alerts, Prometheus's configuration and the Grafana dashboard."""
