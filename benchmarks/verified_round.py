"""CPU time and bytes of a verified round over those of a plain round, and a long chain.

    python benchmarks/verified_round.py             # 5, 20 and 100 sites
    python benchmarks/verified_round.py 5 20        # these numbers of sites

FedStar on equal parts of NCI1 in the local engine, one thread, rounds 2 to 6, plain and verified in
turns. Sites and server are in one process. The bytes are those of arrays, in both directions. Then
a chain of 500 rounds and 20 sites is signed, and two copies of it are compared, as by `ramet audit
verify`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from harness import print_ratio

import ramet
from ramet.engine.chain import Answer, Link, statement
from ramet.engine.chain_audit import COORDINATOR, Copy, compare
from ramet.secure.charter import simulated_charter

ROUNDS, TRIALS = 6, 3


def main() -> None:
    for sites in [int(given) for given in sys.argv[1:]] or [5, 20, 100]:
        print(f"{sites} sites", flush=True)
        traffic: dict[bool, float] = {}

        def trial(
            number: int, sites: int = sites, traffic: dict[bool, float] = traffic
        ) -> tuple[float, float]:
            seconds = {}
            for verified in (True, False) if number % 2 else (False, True):
                seconds[verified], traffic[verified] = round_of(sites, verified)
            return seconds[True], seconds[False]

        print_ratio(TRIALS, trial, "verified", "plain")
        print(f"bytes of a round: {traffic[True] / traffic[False]:.2f} times those of a plain one")
    long_chain(500, 20)


def round_of(sites: int, verified: bool) -> tuple[float, float]:
    """CPU-seconds and bytes of a round, without the first and the closing one."""
    with tempfile.TemporaryDirectory(prefix="ramet-") as folder:
        times: list[float] = []
        result = ramet.run(
            "fedstar",
            "at-random",
            clients=sites,
            rounds=ROUNDS,
            verified=verified,
            out=Path(folder) / "run",
            workers=1,
            observe=lambda _: times.append(time.process_time()),
        )
        return (times[-2] - times[0]) / (len(times) - 2), result.summary.traffic.total / ROUNDS


def long_chain(rounds: int, sites: int) -> None:
    names = tuple(f"site-{number}" for number in range(sites))
    simulated = simulated_charter("{}", sites, 0, names, "run")
    charter, lines, before = simulated.charter, [], simulated.charter.identity
    start = time.process_time()
    for index in range(1, rounds + 1):
        state, answers = f"{index:064x}", {}
        for site in names:
            facts = f"{index:064x}", f"{index:032x}"
            begun = Link(index, index, "training", before, state, {}, "")
            signature = simulated.pledges[site].signing_key.sign(statement(charter, begun, *facts))
            answers[site] = Answer(*facts, signature.hex())
        link = Link(index, index, "training", before, state, answers, f"{index:064x}")
        lines.append(link.text)
        before = link.digest
    signed = time.process_time() - start
    size = sum(len(line) + 1 for line in lines)
    copies = [Copy(who, simulated.signed(), tuple(lines)) for who in (COORDINATOR, names[0])]
    start = time.process_time()
    states = {finding.state for finding in compare(copies)}
    verified = time.process_time() - start
    print(f"chain of {rounds} rounds and {sites} sites: {size / 1e6:.2f} MB, {states}")
    print(f"signed in {signed:.1f} CPU-seconds, two copies verified in {verified:.1f}")


if __name__ == "__main__":
    main()
