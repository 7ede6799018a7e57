"""How often a method that is compared with itself is said to help or to hurt a site.

For each pair, three sites are drawn, and FedAvg is run with two disjoint sets of seeds. One set is
compared with the other as if it were another method. Nothing is gained, so "helps" and "hurts" are
wrong. Whether runs have converged is ignored, which makes it harder.

Usage: python benchmarks/equal_methods.py [--pairs 100] [--seeds 3] [--rounds 12]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import ramet
from ramet.experiment import RunFolder
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.sites import site_standings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from own_sites import NODES_TOML, write_csv, write_toml

SITES = ("north", "south", "east")


def site(folder: Path, draw: random.Random, patients: int) -> Path:
    """Two features, of which each tells a little about the state."""
    rows = []
    for number in range(patients):
        ill = draw.randrange(2)
        age, dose = (round(draw.gauss(ill, 1.0), 2) for _ in range(2))
        rows.append((f"p{number}", age, dose, ("healthy", "ill")[ill]))
    write_csv(folder / "patients.csv", "id,age,dose,state", rows)
    pairs = [draw.sample(range(patients), 2) for _ in range(patients)]
    links = [(f"p{one}", f"p{other}") for one, other in pairs]
    write_csv(folder / "contacts.csv", "source,target", links)
    return write_toml(folder, NODES_TOML.format(site=folder.name))


def finished(sites: str, seeds: range, rounds: int, out: Path) -> dict[Draw, FinishedRun]:
    """Runs by their place among the seeds, so that two sets of seeds are paired."""
    found = {}
    for place, seed in enumerate(seeds):
        folder = out / str(seed)
        ramet.run("fedavg", "own", sites=sites, rounds=rounds, seed=seed, out=folder, workers=1)
        run = FinishedRun.of(RunFolder(folder))
        assert run
        found[Draw(run.split_seed, place)] = run
    return found


def verdicts(pair: int, seeds: int, rounds: int, patients: int) -> list[str]:
    draw = random.Random(pair)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sites = " ".join(str(site(folder / one, draw, patients)) for one in SITES)
        first, second = range(seeds), range(seeds, 2 * seeds)
        runs = {
            "local": finished(sites, first, rounds, folder / "runs"),
            "fedavg": finished(sites, second, rounds, folder / "runs"),
        }
        (found,) = site_standings(runs)
        return [one.gain.verdict if one.decides else "undecided" for one in found.sites]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--patients", type=int, default=60)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    for pair in range(given.pairs):
        counts.update(verdicts(pair, given.seeds, given.rounds, given.patients))
    wrong, total = counts["helps"] + counts["hurts"], counts.total()
    print(f"{wrong} of {total} sites ({100 * wrong / total:.1f} %), {dict(counts)}")


if __name__ == "__main__":
    main()
