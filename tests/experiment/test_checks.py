"""Every method is accepted on every setting of its task or of all, and refused on the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.methods import METHODS
from ramet.options import allow_code
from ramet.partition import SETTINGS

BUILT_IN = {name: factory().task for name, factory in SETTINGS.items() if factory().task}


GENERIC = [name for name, factory in METHODS.items() if factory().task is None]
ON_ALL = [name for name in GENERIC if name not in ("fedproto", "fedtgp")]  # need common classes


@pytest.mark.parametrize("method", ON_ALL)
def test_a_method_without_a_task_runs_on_every_setting(method: str, tmp_path: Path) -> None:
    for setting in BUILT_IN:
        assert checked_settings(method=method, setting=setting, data=tmp_path).rounds > 0


@pytest.mark.parametrize("method", ["fedproto", "fedtgp"])
def test_prototypes_need_common_classes(method: str, tmp_path: Path) -> None:
    assert checked_settings(method=method, setting="cora", data=tmp_path).rounds > 0
    with pytest.raises(RametError, match=r"'prototypes', whose size depends on.*of single"):
        checked_settings(method=method, setting="single", data=tmp_path)
    with pytest.raises(RametError, match="has no `embedding_size`"):
        checked_settings(method=method, setting="acm-hetero", data=tmp_path)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in GENERIC])
def test_a_method_runs_on_every_setting_of_its_task_and_no_other(
    method: str, tmp_path: Path
) -> None:
    own = METHODS[method]().task
    assert own is not None
    task = own.name
    fitting = [setting for setting, data_task in BUILT_IN.items() if data_task == task]
    assert fitting
    for setting in fitting:
        assert checked_settings(method=method, setting=setting, data=tmp_path).rounds > 0
    for setting in BUILT_IN.keys() - set(fitting):
        with pytest.raises(RametError, match=f"is for {task}, but the data of {setting}") as error:
            checked_settings(method=method, setting=setting, data=tmp_path)
        assert ", ".join(fitting) in str(error.value)


def test_the_error_lists_methods_for_the_task_of_the_setting(tmp_path: Path) -> None:
    methods = (
        "local, fedavg, fedprox, fedper, scaffold, moon, ditto, fedadam, fedyogi, fedbuff, "
        "fedproto, fedtgp, gcfl, gcfl+, fedda, fed-mgcn, fedlit, fedsage+, fedgcn, fedgta, fedpub, "
        "fgssl, fedtad, fedspray, o-pfgl, adafgl"
    )
    with pytest.raises(RametError) as error:
        checked_settings(method="fedstar", setting="cora", data=tmp_path)
    assert f"Use a method for node-classification ({methods})" in str(error.value)


@pytest.mark.parametrize("rule", ["median", "krum"])
def test_a_robust_rule_is_refused_if_extras_are_summed(rule: str, tmp_path: Path) -> None:
    given = {"method": "fedproto", "setting": "planted", "data": tmp_path}
    with pytest.raises(RametError, match="shares nothing"):
        checked_settings(**given, merge=rule)
    with pytest.raises(RametError, match="but not the extras of scaffold"):
        checked_settings(**{**given, "method": "scaffold"}, merge=rule)


def test_replies_are_taken_as_they_arrive_only_over_a_superlink(tmp_path: Path) -> None:
    given = {"method": "fedbuff", "setting": "tiny", "data": tmp_path}
    options = {"simulated": "false", "count": "2"}
    assert checked_settings(**given, options=options, engine="superlink").quorum == 1
    with pytest.raises(RametError, match="only a SuperLink has clients"):
        checked_settings(**given, options=options)
    with pytest.raises(RametError, match="below the quorum of 3"):
        checked_settings(**given, options=options, engine="superlink", quorum=3)


WRONG_PARTS = """
from dataclasses import replace

from ramet import Method, fedavg
from ramet.rules.eight_bit import EightBit
from ramet.rules.robust import Median


class NoArrival:
    def leave(self, reply, exit): ...
    def form(self, reply, sent): ...


def alone() -> Method:
    return replace(fedavg(), release=EightBit())


def uncalled() -> Method:
    return replace(fedavg(), release=(EightBit,))


def unfinished() -> Method:
    return replace(fedavg(), release=(NoArrival(),))


def rule() -> Method:
    return replace(fedavg(), merging=Median)
"""


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("alone", r"release of fedavg is EightBit, not a tuple\. Write `release=\(…,\)`"),
        ("uncalled", r"release of fedavg has the class EightBit.*Write `EightBit\(…\)`"),
        ("unfinished", r"release of fedavg has NoArrival, which has no method `arrive`"),
        ("rule", r"merging of fedavg is the class Median.*Write `Median\(…\)`"),
    ],
)
def test_parts_of_a_method_of_your_own_are_checked(
    method: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "parts.py").write_text(WRONG_PARTS)
    allow_code(f"{tmp_path}/parts.py:{method}")
    with pytest.raises(RametError, match=message):
        checked_settings(method=f"{tmp_path}/parts.py:{method}", setting="tiny", data=tmp_path)
