"""Names of user-defined factories are split from their files, folders and options."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.options import absolute_file, name_and_options, without_folder
from ramet.user_code import code_file


@pytest.mark.parametrize("folder", ["plain", "a.py:b", "with,comma=1"])
def test_a_folder_may_have_any_name(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"{folder}/rule.py:Rule,share=0.3"
    whole = absolute_file(text)
    assert whole == f"{tmp_path}/{text}"
    assert name_and_options(whole) == (f"{tmp_path}/{folder}/rule.py:Rule", {"share": "0.3"})
    assert code_file(name_and_options(whole)[0]) == tmp_path / folder / "rule.py"
    assert without_folder(whole) == "rule.py:Rule,share=0.3"


def test_other_names_stay_unchanged() -> None:
    for name in ("fedstar", "package.module:factory", "restart,alpha=0.3"):
        assert absolute_file(name) == without_folder(name) == name
