"""The same rounds over Flower. The only room that imports `flwr`."""

from pathlib import Path

THIN_APP = Path(__file__).parent / "app"
"""The Flower app: a pyproject.toml that names the modules of this room."""
