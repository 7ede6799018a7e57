"""The examples of docs/your-own-setting.md, and mistakes in user-defined settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import ramet
from command_line import ramet as command
from own_settings import documented, people, shapes
from ramet.engine.store.client_state import model_arrays
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.named import setting_named
from ramet.options import allow_code
from ramet.payload import digest
from ramet.user_code import LIST_VARIABLE, UserCode

MARKING = "\nfrom pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


def resumed_sha256(run: ramet.Result, rounds: int) -> str:
    return ramet.resume(run.folder, rounds=rounds, workers=2).summary.sha256


@pytest.mark.parametrize("write", [documented, shapes])
def test_every_way_of_running_gives_the_same_numbers(
    write: Callable[[Path], str], tmp_path: Path
) -> None:
    name = write(tmp_path)
    first = ramet.run("fedavg", name, rounds=3, out=tmp_path / "first")
    workers = ramet.run("fedavg", name, rounds=3, workers=2, out=tmp_path / "workers")
    short = ramet.run("fedavg", name, rounds=1, out=tmp_path / "short")
    assert {workers.summary.sha256, resumed_sha256(short, 3)} == {first.summary.sha256}
    client = next(iter(first.summary.scores.clients))
    frame = first.predict(client)
    assert len(frame) == len({*frame["id"]})
    assert first.summary.setting == name.rpartition("/")[2]
    assert first.export(client, tmp_path / "exported", programs=False).folder.is_dir()


def test_its_file_is_in_the_run_folder_and_may_not_change(tmp_path: Path) -> None:
    name = documented(tmp_path)
    run = ramet.run("fedavg", name, rounds=1, out=tmp_path / "run", customers=30)
    file = tmp_path / "shops.py"
    assert (run.folder / "setting.py").read_text() == file.read_text()
    settings = RunFolder(run.folder).experiment().settings
    assert f"--setting {name.rpartition('/')[2]}" in settings.command
    file.write_text(file.read_text() + "# changed\n")
    with pytest.raises(RametError, match=r"shops\.py has changed since this run started"):
        ramet.resume(run.folder, rounds=2)


def test_data_that_differs_each_time_is_refused(tmp_path: Path) -> None:
    name = documented(tmp_path)
    file = tmp_path / "shops.py"
    file.write_text(file.read_text().replace("self.clients.index(client)", "torch.seed()"))
    with pytest.raises(RametError, match=r"Shops returned other data for shop-0 when it was asked"):
        ramet.run("fedavg", name, rounds=1, out=tmp_path / "run")


def test_data_that_has_changed_since_the_run_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        BODY.replace("people(1)", "torch.load(reading.data / 'a', weights_only=False)")
    )
    torch.save(people(1), tmp_path / "a")
    name = f"{tmp_path}/mine.py:Mine"
    run = ramet.run("fedavg", name, rounds=1, out=tmp_path / "run", data=tmp_path)
    torch.save(people(2), tmp_path / "a")
    with pytest.raises(RametError, match="the data of a, b has changed since the run started"):
        ramet.resume(run.folder, rounds=2)


def test_the_commands_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from another folder; default folders do not contain its path."""
    (tmp_path / "code").mkdir()
    name = documented(tmp_path / "code")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    small = ("--setting", name, "--set", "customers=30")
    for words in (
        ("run", "fedavg", *small, "--rounds", "1"),
        ("compare", "fedavg", *small, "--rounds", "1", "--seeds", "1", "--keep", "kept"),
        ("tune", "fedavg", *small, "--rounds", "1", "--trials", "1"),
        ("data", "inspect", *small),
        ("report", "sweeps", "--out", "page"),
    ):
        done = command(*words)
        assert done.code == 0, done.stderr
        assert str(tmp_path / "code") not in done.stdout
    assert [path.name for path in Path("sweeps").iterdir()] == ["shops.py_Shops"]
    assert [path.name for path in Path("tune").iterdir()] == ["shops.py_Shops"]
    (run,) = Path("runs").iterdir()
    assert run.name.startswith("fedavg-shops.py_Shops-seed0-")
    assert len([*(tmp_path / "code").iterdir()]) == 2  # the file and Python's cache
    (kept,) = Path("kept").iterdir()
    row = json.loads(kept.read_text())
    assert row["result"]["setting"] == "shops.py:Shops"


def test_it_is_tried_in_the_promises_of_a_method(tmp_path: Path) -> None:
    done = command(
        *("try", "fedavg", "--setting", documented(tmp_path), "--set", "customers=30"),
        *("--rounds", "2", "--engine", "local"),
    )
    assert done.code == 0, done.stdout
    assert "fedavg keeps Ramet's promises in 2 rounds on shops.py:Shops" in done.stdout


def test_it_goes_with_what_protects_a_run(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="the extra `secure` is not installed")
    name = documented(tmp_path)
    plain = ramet.run("fedavg", name, rounds=2, merge="fixed-point", out=tmp_path / "plain")
    secure = ramet.run("fedavg", name, rounds=2, secure=True, out=tmp_path / "secure")
    verified = ramet.run("fedavg", name, rounds=2, verified=True, secure=True)
    assert digest(model_arrays(plain.model("shop-0"))) == digest(
        model_arrays(secure.model("shop-0"))
    )
    assert verified.summary.rounds == 2
    with pytest.raises(RametError, match="Use --network hops"):
        ramet.run("fedavg", name, rounds=1, dp="unit=link,epsilon=8,delta=1e-3")


def test_a_run_of_others_does_not_load_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have changed the file, the copy and the hash, so that nothing but the list says so."""
    name = documented(tmp_path)
    run = ramet.run("fedavg", name, rounds=1, out=tmp_path / "run", customers=30)
    kept = tmp_path / "run" / "settings.json"
    file = tmp_path / "shops.py"
    file.write_text(file.read_text() + MARKING)
    shutil.copy(file, run.folder / "setting.py")
    facts = json.loads(kept.read_text())
    monkeypatch.setenv(LIST_VARIABLE, str(tmp_path / "allowed.txt"))
    kept.write_text(json.dumps({**facts, "code": UserCode.of(name).sha256()}))
    for words in (
        ("resume", run.folder, "--rounds", "2"),
        ("predict", run.folder, "--client", "shop-0"),
        ("evaluate", run.folder),
    ):
        done = command(*words)
        assert done.code == 2
        assert "was not loaded: its code would run with your rights" in done.stderr
    assert command("audit", "show", run.folder).code in (0, 2)
    assert not (tmp_path / "ran").exists()


BODY = """
from dataclasses import dataclass
import torch
from ramet import ClientData, Setting, Split, from_pyg
from own_settings import people

class Mine(Setting):
    task = "node-classification"
    clients = ("a", "b")
    def client_data(self, client, reading):
        return from_pyg(people(1), reading)
"""
MISTAKES = {
    "no clients": (
        BODY.replace('    clients = ("a", "b")\n', ""),
        r"mine\.py:Mine lacks `clients`\. A setting says its `task` and its `clients`",
    ),
    "no task": (BODY.replace('    task = "node-classification"\n', ""), "lacks `task`"),
    "no data": (BODY.replace("client_data", "data_of"), "lacks `client_data`"),
    "one client": (BODY.replace('("a", "b")', '"ab"'), "must be a tuple of names.* It is 'ab'"),
    "a path": (BODY.replace('"b")', '"../b")'), r"must be a tuple of names.*'\.\./b'"),
    "nobody": (BODY.replace('("a", "b")', "()"), r"must be a tuple of names.* It is \(\)"),
    "twice": (BODY.replace('"b"', '"a"'), "has two clients called a. Rename one"),
    "rounds": (f"{BODY}    rounds = 0\n", "`rounds` of the setting mine.py:Mine must be 1 or more"),
    "no setting": (f"{BODY}\ndef Mine():\n    return 3\n", "returned int instead of Setting"),
    "PyG": (
        BODY.replace("from_pyg(people(1), reading)", "people(1)"),
        r"Mine\.client_data returned Data for a, .*`from_pyg\(data, reading\)`",
    ),
    "a leak": (
        f"{BODY.replace('return', 'data =')}        every = torch.arange(40)\n"
        "        return ClientData(data.content, Split(every, every[:0], every))\n",
        "sample 0 is in two parts of the split, .* says nothing",
    ),
    "no sample": (
        f"{BODY.replace('return', 'data =')}        every = torch.arange(41)\n"
        "        return ClientData(data.content, Split(every, every[:0], every[:0]))\n",
        "the split has sample 40, but there are 40, from 0 on",
    ),
    "another task": (
        BODY.replace("node-classification", "graph-classification"),
        "graph.classification",
    ),
    "an option": (
        BODY.replace("class Mine", "@dataclass\nclass Mine").replace(
            "    task", "    size: int\n    task"
        ),
        "Mine needs 'size'. Give it: --set size=",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_said_before_the_run_starts(mistake: str, tmp_path: Path) -> None:
    text, message = MISTAKES[mistake]
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(RametError, match=message):
        ramet.run("fedavg", f"{tmp_path}/mine.py:Mine", rounds=1, out=tmp_path / "run")
    assert not (tmp_path / "run" / "settings.json").exists()


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="cannot load the setting"):
        ramet.run("fedavg", f"{tmp_path}/absent.py:Mine", rounds=1)
    with pytest.raises(RametError, match="unknown setting 'shops'"):
        ramet.run("fedavg", "shops", rounds=1)


def test_what_a_setting_need_not_say_has_defaults(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BODY)
    allow_code(name := f"{tmp_path}/mine.py:Mine")
    setting = setting_named(name, {})
    assert setting.source_of == {"a": "Mine:a", "b": "Mine:b"}
    assert (setting.rounds, setting.same_schema, setting.metric) == (50, True, None)
