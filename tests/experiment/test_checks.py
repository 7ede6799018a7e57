"""Every method is accepted on every setting of its task or of all, and refused on the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.methods import METHODS
from ramet.partition import SETTINGS

BUILT_IN = {name: factory().task for name, factory in SETTINGS.items() if factory().task}


GENERIC = [name for name, factory in METHODS.items() if factory().task is None]


@pytest.mark.parametrize("method", GENERIC)
def test_a_method_without_a_task_runs_on_every_setting(method: str, tmp_path: Path) -> None:
    for setting in BUILT_IN:
        assert checked_settings(method=method, setting=setting, data=tmp_path).rounds > 0


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
    methods = "local, fedavg, fedprox, fedper, gcfl, gcfl+, fedda, fed-mgcn, fedlit, fedsage+"
    with pytest.raises(RametError) as error:
        checked_settings(method="fedstar", setting="cora", data=tmp_path)
    assert f"Use a method for node-classification ({methods})" in str(error.value)
