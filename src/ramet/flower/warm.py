"""A SuperExec that hides its tokens, and whose client apps start with PyTorch already imported.

Everything else is Flower's `flower-superexec` (see :mod:`ramet.flower.patches`).
"""

from __future__ import annotations

from ramet.flower.guard import flowers_program, is_consortium
from ramet.flower.patches import applied


def main() -> None:
    """Run `flower-superexec` with executors of our own."""
    applied("hidden-tokens", needed=is_consortium())
    applied("forked-apps")
    flowers_program("flower-superexec")()


if __name__ == "__main__":
    main()
