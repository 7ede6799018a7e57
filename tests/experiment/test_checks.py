"""Every method starts on every setting of its task, and is refused on the others by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.methods import METHODS
from ramet.partition import SETTINGS

BUILT_IN = {name: factory().task for name, factory in SETTINGS.items() if factory().task}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_fits_every_setting_of_its_task_and_no_other(method: str, tmp_path: Path) -> None:
    task = METHODS[method]().task.name
    fitting = [setting for setting, held in BUILT_IN.items() if held == task]
    assert fitting
    for setting in fitting:
        assert checked_settings(method=method, setting=setting, data=tmp_path).rounds > 0
    for setting in BUILT_IN.keys() - set(fitting):
        with pytest.raises(
            RametError, match=f"is for {task}, and the data of {setting}"
        ) as refused:
            checked_settings(method=method, setting=setting, data=tmp_path)
        assert ", ".join(fitting) in str(refused.value)


def test_the_refusal_lists_methods_for_the_settings_task(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="local-gcn, fed-gcn, fed-mgcn, fedlit") as refused:
        checked_settings(method="fedstar", setting="cora", data=tmp_path)
    assert "fedda" not in str(refused.value)
