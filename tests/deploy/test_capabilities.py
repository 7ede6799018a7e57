"""Every capability in the settings of a consortium: its run has it, or says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from capable_method import capable
from capable_options import OPTIONS
from ramet.deploy.consortium import Consortium
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.capabilities import CAPABILITIES, Can, chosen
from ramet.experiment.compatibility import ANY_NAMES, refusals
from ramet.experiment.objects import method_name
from ramet.partition import SETTINGS

PLANTED = {"setting": "planted", "options": {"nodes": "300", "links": "600"}}
GIVEN: dict[Can, dict[str, Any]] = {
    **OPTIONS,
    Can.OWN_SUM: {"method": "fedadam"},
    Can.COMPARING: {"method": "gcfl"},
    Can.WHOLE: {"method": "gcfl"},
    Can.SUMMED_EXTRAS: {"method": "scaffold"},
    Can.COMPARED_EXTRAS: {"method": "fedtgp", **PLANTED},
    Can.READ_EXTRAS: {"method": "fedgta", **PLANTED},
    Can.SUMMED_STAGES: {"method": "o-pfgl", **PLANTED},
    Can.PACE: {"method": "fedbuff"},
    Can.ARRIVAL: {"method": "fedbuff", "options": {"simulated": "false"}},
    Can.PENALTY: {"method": "fedprox"},
    Can.AFTER: {"method": "ditto"},
    Can.PERSONAL: {"method": "ditto"},
    Can.OWN_TRAINING: {"method": "adafgl", **PLANTED},
    Can.STOPPED_TRAINING: {"options": {"stop_after": "1"}},
    Can.NOTHING: {"method": "local"},
    Can.EXTRAS_ONLY: {"method": "fedproto", **PLANTED},
    Can.CLASSES: {"method": "fedproto", **PLANTED},
    Can.OWN_NETWORK: {"method": "fedstar"},
    Can.BUFFERS: {"method": "fedlit", **PLANTED},
    Can.PRIVATE_LINKS: {**OPTIONS[Can.PRIVATE_LINKS], "network": "hops", **PLANTED},
    Can.FROM: {},
    Can.LOCAL: {"engine": "local"},
    Can.RAY: {"engine": "ray"},
    Can.SUPERLINK: {},
    Can.OBJECT: {},
    Can.OWN_SETTING: {"setting": "shops.py:Shops"},
    Can.OWN_DATA: {"setting": "own", "options": {"task": "graph-classification"}},
}
NOT_BUILT_IN = {Can.COMPARED_STAGES, Can.NUMBERS, Can.TASK}


def settings(given: dict[str, Any], folder: Path) -> set[Can]:
    """The capabilities of a consortium's run."""
    setting = given.get("setting", "tiny")
    sites = (SETTINGS[setting]().clients if setting in SETTINGS else ()) or (
        "north",
        "east",
        "south",
    )
    base = {"name": "all", "address": "fl.example.org", "sites": sites, "method": "fedavg"}
    found = Consortium(**{**base, "setting": setting, "rounds": 2, **given}).settings(folder)
    return chosen(Experiment(found).method, found)


def test_every_capability_is_tried() -> None:
    assert {*GIVEN} | NOT_BUILT_IN | {Can.CONSORTIUM} == {*Can}


@pytest.mark.parametrize("can", GIVEN)
def test_a_consortium_has_it_or_says_why_not(can: Can, tmp_path: Path) -> None:
    given = GIVEN[can]
    if can is Can.OBJECT:
        given = {"method": method_name(capable())}
    refused = [*refusals({Can.CONSORTIUM, can})]
    if not refused:
        found = settings(given, tmp_path)
        one = CAPABILITIES[can]
        of_the_command = can is Can.FROM
        assert can in found or of_the_command or (one.method is None and one.settings is None)
        return
    why = refused[0].why.format_map({**ANY_NAMES, "method": "capable"})
    with pytest.raises((RametError, ValidationError)) as error:
        settings(given, tmp_path)
    assert why in str(error.value)
