"""The SHA-256 of user-defined code, its copies in the run folder, and the check on resuming."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from time import process_time

import pytest

import ramet
from ramet.errors import RametError
from ramet.experiment import RunSettings
from ramet.experiment.code import check_code, code_sha256, user_files

ALONE = """
from dataclasses import replace

import torch

from ramet import Method, fedstar


def mine(lr: float = 0.001) -> Method:
    return replace(fedstar(), name="mine")
"""
FILES = {
    "mine.py": f"from parts.deep.rule import NAME\nimport helper\n{ALONE}",
    "helper.py": "import absent\ndef late():\n    try: import os\n    except: from lazy import x\n",
    "lazy.py": "from ramet import fedavg\nx = 1\n",
    "parts/deep/rule.py": "from ..other import NAME\nfrom . import near\n",  # without __init__.py
    "parts/deep/near.py": "",
    "parts/other.py": "NAME = 'mine'\n",
    "unused.py": "",
    "logging/run.log": "",  # a folder that shares its name with a module
}
IMPORTED = ["helper.py", "lazy.py", "parts/deep/near.py", "parts/deep/rule.py", "parts/other.py"]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def settings(folder: Path, code: str | None = None, **named: str) -> RunSettings:
    named = {"method": f"{folder}/mine.py:mine", **named}
    given = {"setting": "tiny", "rounds": 1, "data": folder, "code": code, **named}
    return RunSettings.model_validate(given)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    write(tmp_path / "own", FILES)
    return tmp_path / "own"


def test_a_file_that_imports_nothing_beside_it_has_its_own_sha256(tmp_path: Path) -> None:
    write(tmp_path, {"mine.py": ALONE, "torch.txt": "", "rule.py": "import json\n"})
    own, rule = (
        hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("mine.py", "rule.py")
    )
    assert code_sha256(settings(tmp_path)) == own
    both = settings(tmp_path, merge=f"{tmp_path}/rule.py:Rule,x=1")
    assert code_sha256(both) == hashlib.sha256((own + rule).encode()).hexdigest()
    assert code_sha256(settings(tmp_path, method="fedstar", merge="median")) is None


def test_what_a_file_imports_is_part_of_its_sha256(several: Path) -> None:
    copies = {f"imports/method/{name}": several / name for name in IMPORTED}
    assert user_files(settings(several)) == {"method.py": several / "mine.py", **copies}
    before = code_sha256(settings(several))
    for name in IMPORTED:
        (several / name).write_text(FILES[name] + "# changed\n")
        assert code_sha256(settings(several)) != before
        (several / name).write_text(FILES[name])
    (several / "unused.py").write_text("# changed\n")
    assert code_sha256(settings(several)) == before


def test_the_sha256_does_not_depend_on_the_place_of_the_folder(
    several: Path, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere", FILES)
    assert code_sha256(settings(several)) == code_sha256(settings(tmp_path / "elsewhere"))
    (several / "helper.py").rename(several / "lazy.py")
    assert code_sha256(settings(several)) != code_sha256(settings(tmp_path / "elsewhere"))


def test_code_in_two_folders_may_import_files_of_the_same_name(
    several: Path, tmp_path: Path
) -> None:
    write(tmp_path / "rules", {"rule.py": "import helper\n", "helper.py": "import rule\n"})
    rules = tmp_path / "rules"
    text = f"{rules}/rule.py:Rule"
    files = user_files(settings(several, activation=f"{text},x=1", network=text, merge=text))
    assert files["imports/method/helper.py"] == several / "helper.py"
    for kind in ("activation", "network", "merge"):
        assert files[f"{kind}.py"] == rules / "rule.py"
        assert files[f"imports/{kind}/helper.py"] == rules / "helper.py"


def test_a_module_stands_for_its_own_package_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = {f"grown/leaf{n}.py": "import torch\nfrom . import leaf0\n" for n in range(30)}
    package |= {"grown/__init__.py": "from grown import leaf1\n"}
    package |= {"grown/method.py": f"import beside\nfrom .leaf2 import x\n{ALONE}", "beside.py": ""}
    write(tmp_path, package)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "grown", None)  # restored, so that other tests see no such one
    del sys.modules["grown"]
    (tmp_path / "grown/leaf1.py").write_text("")
    named = settings(tmp_path, method="grown.method:mine")
    start = process_time()
    files = user_files(named)
    assert process_time() - start < 0.2
    leaves = [f"imports/method/grown/leaf{n}.py" for n in (0, 1, 2)]
    assert [*files] == ["method.py", "imports/method/grown/__init__.py", *leaves]
    assert (
        code_sha256(settings(tmp_path, method="ramet.methods.fedavg:fedavg"))
        == (
            hashlib.sha256(Path(sys.modules["ramet.methods.fedavg"].__file__ or "").read_bytes())
        ).hexdigest()
    )
    with pytest.raises(RametError, match=r"no module absent\.part is installed"):
        user_files(settings(tmp_path, method="absent.part:mine"))


@pytest.mark.parametrize("name", ["mine.py", "lazy.py"])
@pytest.mark.parametrize("content", ["# changed\n", "def broken(:\n", "\0", None])
def test_a_run_names_the_file_that_has_changed(
    name: str, content: str | None, several: Path, tmp_path: Path
) -> None:
    write(several, {"lazy.py": "x = 1\n", "helper.py": "from lazy import x\n"})
    run = ramet.run(f"{several}/mine.py:mine", rounds=1, out=tmp_path / "run")
    kept = run.folder / "imports" / "method" / "parts" / "other.py"
    assert kept.read_text() == FILES["parts/other.py"]
    (run.folder / "result.json").unlink()
    original = (several / name).read_text()
    if content is None:
        (several / name).unlink()
    else:
        (several / name).write_text(content)
    with pytest.raises(RametError, match=rf"^{several}/{name} has changed since this run"):
        ramet.resume(run.folder)
    (several / name).write_text(original)
    assert ramet.resume(run.folder).summary.sha256 == run.summary.sha256


def test_without_a_run_folder_all_files_are_named(several: Path) -> None:
    started = settings(several, code_sha256(settings(several)))
    check_code(started)
    (several / "lazy.py").write_text("x = 2\n")
    with pytest.raises(RametError, match=r"at least one of \S+/mine\.py, .*/lazy\.py, .* changed"):
        check_code(started)


def test_every_load_reads_the_modules_beside_the_file_again(tmp_path: Path) -> None:
    """Two folders have modules of the same names, and one changes between two runs."""
    method = ALONE.replace('"mine"', "NAME") + "\nfrom parts.deep.rule import NAME\n"
    for folder in ("a", "b"):
        write(tmp_path / folder, {"mine.py": method, "parts/deep/rule.py": f"NAME = '{folder}'"})

    def name(folder: str) -> str:
        out = tmp_path / f"run-{len([*tmp_path.iterdir()])}"
        return ramet.run(f"{tmp_path}/{folder}/mine.py:mine", rounds=1, out=out).summary.method

    assert [name("a"), name("b"), name("a")] == ["a", "b", "a"]
    write(tmp_path, {"a/parts/deep/rule.py": "NAME = 'changed'"})
    assert name("a") == "changed"
