"""Every pair of capabilities works, or is refused for the reason in the table.

Refused pairs are tried one by one. For pairs that work, runs have as many capabilities as go
together, until each pair was in one of them; the thorough tests try them one by one too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import capable_method
import ramet
from capable_method import CHANGES, capable
from capable_options import OPTIONS
from own_sites import graph_site, node_site
from ramet.errors import RametError
from ramet.experiment.capabilities import CAPABILITIES, Can
from ramet.experiment.compatibility import REFUSED, Refusal, refusals
from ramet.run_options import RUN_OPTIONS

FILE = capable_method.__file__
GIVEN: dict[Can, dict[str, Any]] = {
    **OPTIONS,
    Can.BUFFERS: {"network": f"{FILE}:Counting"},
    Can.FROM: {},
    Can.LOCAL: {},
    Can.RAY: {"engine": "ray"},
    Can.SUPERLINK: {"engine": "superlink"},
    Can.OBJECT: {},
    Can.OWN_DATA: {},
    Can.TASK: {"task": f"{FILE}:smoothed"},
    Can.OWN_SETTING: {},
}
WITH_ALL = "--rounds --seed --device --threads --deadline --split-seed --set --data"
"""Options that work with everything."""


def named(cans: Collection[Can]) -> str:
    return " and ".join(sorted(cans))


def pairs() -> Iterator[tuple[Can, Can]]:
    """All pairs of capabilities that are not alternatives."""
    for one, other in combinations(Can, 2):
        group = CAPABILITIES[one].group
        if not group or group != CAPABILITIES[other].group:
            yield one, other


def works(capabilities: Collection[Can]) -> bool:
    """Whether nothing is refused, and no two are alternatives."""
    alternatives = [group for can in capabilities if (group := CAPABILITIES[can].group)]
    return len({*alternatives}) == len(alternatives) and not any(refusals(capabilities))


def groups(of: Collection[tuple[Can, Can]], *start: Can) -> list[frozenset[Can]]:
    """Capabilities that go together, each time those of ``start``, until all pairs were there."""
    left, made = {frozenset(pair) for pair in of}, []
    among = [can for can in Can if any(can in pair for pair in left)]
    while left:
        group = {*start, *min(left, key=named)}
        while True:
            new = {
                can: sum({can, own} in left for own in group)
                for can in among
                if can not in group and works({*group, can})
            }
            if not any(new.values()):
                break
            group.add(max(new, key=new.__getitem__))
        left -= {frozenset(pair) for pair in combinations(group, 2)}
        made.append(frozenset(group))
    return made


WORKING = [pair for pair in pairs() if works(pair) and Can.CONSORTIUM not in pair]
ELSEWHERE = {
    Can.WORKERS: (Can.WORKERS,),
    Can.RAY: (Can.RAY,),
    Can.SUPERLINK: (Can.SUPERLINK,),
    Can.ARRIVAL: (Can.ARRIVAL, Can.SUPERLINK),
}
"""What starts other processes, and what it comes with."""
HERE = [pair for pair in WORKING if not {*pair} & {*ELSEWHERE}]
GROUPS_HERE = groups(HERE, Can.LOCAL)
GROUPS_ELSEWHERE = [
    group
    for can, start in ELSEWHERE.items()
    for group in groups([pair for pair in WORKING if can in pair], *start)
]
IN_CI = {
    max((group for group in GROUPS_ELSEWHERE if {*ELSEWHERE[can]} <= group), key=len)
    for can in (Can.WORKERS, Can.ARRIVAL)
}
"""The runs with most capabilities in worker processes, and over a SuperLink at a real pace."""


class Federation:
    """Runs with given capabilities on `tiny`, or where links are protected on a graph of nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graphs = [graph_site(folder / f"graphs-{number}") for number in range(3)]
        self.nodes = [node_site(folder / f"nodes-{number}", seed=number) for number in range(3)]
        self.earlier: Path | None = None

    def run(self, capabilities: Collection[Can], out: Path) -> ramet.Result:
        return ramet.run(**self.given({*capabilities}, out))

    def given(self, capabilities: set[Can], out: Path) -> dict[str, Any]:
        """The arguments of `ramet.run`."""
        if Can.ARRIVAL in capabilities and not capabilities & {Can.LOCAL, Can.RAY, Can.WORKERS}:
            capabilities.add(Can.SUPERLINK)
        of_method = {can for can in capabilities if can in CHANGES}
        if Can.FIXED_POINT not in capabilities:
            of_method -= {Can.ROBUST}  # given by its option
        names = "+".join(can.name for can in of_method)
        links = Can.PRIVATE_LINKS in capabilities
        given: dict[str, Any] = {"rounds": 2, "out": out, "observe": lambda record: None}
        if Can.OBJECT in capabilities:
            given |= {"method": capable(names, links)}
        else:
            given |= {"method": f"{FILE}:capable", "capabilities": names, "on_nodes": links}
        if Can.OWN_DATA in capabilities:
            given |= {"setting": "own", "sites": self.nodes if links else self.graphs}
            given |= {"same_schema": True}
        elif Can.OWN_SETTING in capabilities:
            given |= {"setting": f"{FILE}:Shops", "on_nodes": links}
        elif links:
            given |= {"setting": "planted", "nodes": 300, "links": 600}
        if Can.TASK in capabilities and Can.OBJECT in capabilities:
            given |= {"on_nodes": links}
        for can in CAPABILITIES:
            given |= GIVEN.get(can, {}) if can in capabilities else {}
        if Can.FROM in capabilities:
            given |= {"start_from": self._earlier()}
        if Can.METRIC in capabilities and Can.NUMBERS in capabilities:
            given |= {"metric": "rmse"}
        if links and Can.BUFFERS in capabilities:
            given |= {"network": f"{FILE}:CountingHops"}
        elif links and Can.OWN_NETWORK not in capabilities:
            given |= {"network": "hops"}
        return {"workers": 1, **given} if given.get("engine", "local") == "local" else given

    def _earlier(self) -> Path:
        if self.earlier is None:
            self.earlier = ramet.run("fedavg", rounds=1, out=self.folder / "earlier").folder
        return self.earlier


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"))


def reason(refusal: Refusal) -> str:
    """A pattern of the reason, in which any name of a method's part may stand."""
    return re.sub(r"\\\{\w+\\\}", r".+", re.escape(refusal.why))


def test_every_pair_is_tried() -> None:
    assert CAPABILITIES.keys() == {*Can} == {*GIVEN, *CHANGES, Can.CONSORTIUM}
    refused = [refusal.pair for refusal in REFUSED]
    assert {*map(frozenset, pairs())} >= {*refused}
    assert len({*refused}) == len(refused)
    tried = [*GROUPS_HERE, *GROUPS_ELSEWHERE]
    assert all(any({*pair} <= group for group in tried) for pair in WORKING)


def test_an_option_is_a_capability_or_works_with_everything() -> None:
    """A new one that is neither might be ignored by some kinds of runs."""
    capabilities = {one.option.partition(" ")[0] for one in CAPABILITIES.values()}
    assert {one.flag for one in RUN_OPTIONS.values()} - capabilities - {""} == {*WITH_ALL.split()}


@pytest.mark.parametrize(
    "refusal",
    [one for one in REFUSED if Can.CONSORTIUM not in one.pair],
    ids=lambda refusal: named(refusal.pair),
)
def test_what_is_refused_is_refused_for_its_reason(
    refusal: Refusal, federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(RametError, match=f"does not work with .*: {reason(refusal)}"):
        federation.run(refusal.pair, tmp_path / "run")
    assert not [*tmp_path.iterdir()]


@pytest.mark.filterwarnings("ignore:.* starts with new values")
@pytest.mark.parametrize("group", GROUPS_HERE, ids=len)
def test_what_works_in_pairs_works_together(
    group: frozenset[Can], federation: Federation, tmp_path: Path
) -> None:
    assert federation.run(group, tmp_path / "run").summary.rounds == 2


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.* starts with new values")
@pytest.mark.parametrize("pair", HERE, ids=named)
def test_a_pair_that_is_not_refused_works(
    pair: tuple[Can, Can], federation: Federation, tmp_path: Path
) -> None:
    assert federation.run(pair, tmp_path / "run").summary.rounds == 2


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore:.* starts with new values")
@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, marks=() if group in IN_CI else pytest.mark.thorough)
        for group in GROUPS_ELSEWHERE
    ],
    ids=len,
)
def test_what_works_in_pairs_works_in_other_processes(
    group: frozenset[Can], federation: Federation, tmp_path: Path
) -> None:
    assert federation.run(group, tmp_path / "run").summary.rounds == 2
