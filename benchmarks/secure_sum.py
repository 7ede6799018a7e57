"""The cost of secure sums: CPU seconds and bytes of a run over those of the plain run.

python benchmarks/secure_sum.py METHOD SETTING ROUNDS [OPTION=VALUE ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ramet

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fixed point": {"merge": "fixed-point"},
    "secure": {"secure": True},
}


def measured(folder: Path, name: str, setting: str, rounds: int, given: Any) -> tuple[Any, float]:
    before = time.process_time()
    result = ramet.run(name, setting, rounds=rounds, out=folder, workers=1, **given)
    return result.summary, time.process_time() - before


def main() -> None:
    method, setting, rounds, *options = sys.argv[1:]
    given = dict(option.split("=", 1) for option in options)
    with tempfile.TemporaryDirectory() as root:
        measured(Path(root) / "warm", method, setting, 1, given)
        base = None
        for name, variant in VARIANTS.items():
            folder = Path(root) / name.replace(" ", "-")
            both = {**given, **variant}
            summary, seconds = measured(folder, method, setting, int(rounds), both)
            base = base or (seconds, summary.traffic.total)
            print(
                f"{name}: {seconds:.2f} CPU s ({seconds / base[0]:.2f} times), "
                f"{summary.traffic.total} bytes ({summary.traffic.total / base[1]:.2f} times), "
                f"test {100 * summary.scores.test:.2f}, sha256 {summary.sha256[:16]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
