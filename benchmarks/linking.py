"""Two sites of one process that link lists of ids: seconds per step, sizes of files, memory.

python benchmarks/linking.py [20000 [30000]]
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import TypeVar

from harness import given

from ramet.secure import linking
from ramet.secure.identity import Identity

_Result = TypeVar("_Result")


def timed(name: str, step: Callable[[], _Result]) -> _Result:
    before = time.process_time(), time.perf_counter()
    result = step()
    seconds, wall = time.process_time() - before[0], time.perf_counter() - before[1]
    print(f"{name:8} {seconds:6.1f} s of CPU, {wall:6.1f} s")
    return result


def main() -> None:
    sizes = given(1, 20_000), given(2, 30_000)
    first, second = (Identity.simulated(0, site) for site in "ab")
    half = sizes[0] // 2
    lists = (
        [f"account-{n}" for n in range(sizes[0])],
        [f"account-{n}" for n in range(half, half + sizes[1])],
    )
    begun, one = timed("start", lambda: linking.start("a", "b", lists[0], first))
    answer, other = timed("answer", lambda: linking.answer(begun, lists[1], second))
    last, found = timed("finish", lambda: linking.finish(one, answer, first))
    same = timed("close", lambda: linking.close(other, last))
    assert {*found} == {*same} == {*lists[0]} & {*lists[1]}
    files = ", ".join(f"{len(message.text) / 1e6:.2f} MB" for message in (begun, answer, last))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(found):,} of {sizes[0]:,} and {sizes[1]:,} ids shared; {files}; {memory:.0f} MB")


if __name__ == "__main__":
    main()
