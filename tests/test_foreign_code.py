"""A run, an invitation or a kept result that names code does not make a command load it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomli_w

import ramet
from command_line import Done
from command_line import ramet as command
from own_sites import node_site
from ramet.deploy.init import init
from ramet.deploy.site import join
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.code import code_sha256
from ramet.experiment.named import NamedParts
from ramet.user_code import LIST_VARIABLE

HARMLESS = """
from dataclasses import replace
from ramet import Method, fedavg

def mine(lr: float = 0.01) -> Method:
    return replace(fedavg(), name="mine")
"""
MARKING = HARMLESS + "\nfrom pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


class Sent:
    """A run that somebody else has sent: its method's file would leave a mark when it is loaded."""

    def __init__(self, root: Path) -> None:
        self.root, self.run, self.kept = root, root / "run", root / "kept"
        self.file = root / "mine.py"
        self.file.write_text(HARMLESS)
        self.name = f"{self.file}:mine"
        self.site_data = node_site(root / "graphs" / "north")
        ramet.run(self.name, "own", rounds=1, out=self.run, sites=str(self.site_data))
        words = f"compare {self.name} --site {self.site_data} --seeds 1 --rounds 1"
        done = command(*words.split(), "--out", root / "sweep", "--keep", self.kept)
        assert done.code == 0, done.stderr
        self.file.write_text(MARKING)
        settings = RunFolder(self.run).experiment().settings
        changed = settings.model_copy(update={"code": code_sha256(settings)})
        for copy in (self.run / "settings.json", *self.run.rglob("site.json")):
            facts = json.loads(copy.read_text())
            facts = {**facts, "settings": changed.model_dump(mode="json")}
            if copy.name == "settings.json":
                facts = facts["settings"]
            copy.write_text(json.dumps(facts))
        (self.run / "method.py").write_text(MARKING)

    @property
    def ran(self) -> bool:
        return (self.root / "ran").exists()


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Sent:
    return Sent(tmp_path_factory.mktemp("sent"))


@pytest.fixture(autouse=True)
def _inside(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept results name the file without its folder, so it is looked for here."""
    monkeypatch.chdir(sent.root)


NEEDS_CODE = (
    "evaluate RUN",
    "resume RUN --rounds 2",
    "predict RUN --site DATA",
    "explain RUN --id 0 --site DATA",
    "export RUN exported --site north",
    "leak RUN",
    "run fedavg --from RUN --site DATA --rounds 1 --out from",
)
READS_ONLY = (
    "resume RUN",
    "audit show RUN",
    "audit export RUN",
    "report RUN --out page",
    "report KEPT --out kept-page",
    "board KEPT --out board",
)


def called(sent: Sent, words: str) -> Done:
    paths = {"RUN": sent.run, "DATA": sent.site_data, "KEPT": sent.kept}
    return command(*(paths.get(word, word) for word in words.split()))


@pytest.mark.parametrize("words", NEEDS_CODE)
def test_a_command_that_needs_the_code_says_whose_it_is(sent: Sent, words: str) -> None:
    done = called(sent, words)
    assert not sent.ran
    assert done.code == 2, done.stdout
    sha256 = RunFolder(sent.run).experiment().settings.code
    assert "not loaded: its code would run with your rights" in done.stderr
    assert f"If you trust whoever wrote {sent.file}, allow it: echo {sha256} >> " in done.stderr


@pytest.mark.parametrize("words", READS_ONLY)
def test_a_command_that_only_reads_works_without_the_code(sent: Sent, words: str) -> None:
    done = called(sent, words)
    assert not sent.ran
    assert done.code == 0, done.stderr


def test_checking_a_run_or_an_invitation_loads_no_code(sent: Sent, tmp_path: Path) -> None:
    consortium = {
        "name": "test",
        "address": "localhost",
        "sites": ["north"],
        "method": "fedavg",
        "rounds": 1,
        "options": {"task": "node-classification"},
    }
    (tmp_path / "consortium.toml").write_text(tomli_w.dumps(consortium))
    coordinator = init(tmp_path / "consortium.toml", tmp_path / "test", lambda _: None)
    invitation = coordinator.folder / "invitations" / "north.toml"
    hostile = tmp_path / "hostile.toml"
    hostile.write_text(invitation.read_text().replace('"fedavg"', f'"{sent.name}"'))
    site, _ = join(invitation, sent.site_data, tmp_path / "site", 9094, lambda _: None)
    for run in (hostile, sent.run):
        done = command("policy", "check", run, site.folder)
        assert not sent.ran
        assert (done.code, "not loaded" in done.stderr) == (2, True)
    join(hostile, sent.site_data, site.folder, 9094, lambda _: None)
    done = command("doctor", site.folder)
    assert not sent.ran
    assert "not loaded" in done.stdout


def test_a_result_in_python_loads_no_code_either(sent: Sent) -> None:
    assert len(ramet.results(sent.kept, sent.run))
    with pytest.raises(RametError, match="not loaded"):
        ramet.resume(sent.run).model("north")
    assert not sent.ran


@pytest.mark.parametrize("module", ["evil", "evil.inside"])
def test_a_module_is_found_without_importing_its_package(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "evil"
    package.mkdir()
    (package / "__init__.py").write_text(MARKING)
    (package / "inside.py").write_text(MARKING)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RametError, match="not loaded: its code would run"):
        _ = NamedParts(f"{module}:mine", "tiny", None, {}, tmp_path).bare_method
    assert not (package / "ran").exists()
    with pytest.raises(RametError, match="no module os"):
        _ = NamedParts("os:system", "tiny", None, {"command": "true"}, tmp_path).bare_method


def test_code_that_was_named_once_or_is_listed_stays_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, allowed = tmp_path / "mine.py", tmp_path / "list" / "allowed.txt"
    file.write_text(HARMLESS.replace("0.01", "0.02"))
    parts = NamedParts(f"{file}:mine", "tiny", None, {}, tmp_path)
    monkeypatch.setenv(LIST_VARIABLE, str(allowed))
    with pytest.raises(RametError, match=f">> {allowed}") as refused:
        _ = parts.bare_method
    assert command("list", "methods", f"{file}:mine").code == 0
    monkeypatch.delenv("RAMET_ALLOWED_SHA256")  # as in a later session
    assert parts.bare_method.name == "mine"
    (line,) = allowed.read_text().splitlines()
    sha256 = line.partition(" ")[0]
    assert sha256 in str(refused.value)
    allowed.write_text("")
    with pytest.raises(RametError, match="not loaded"):
        _ = NamedParts(f"{file}:mine", "tiny", None, {}, tmp_path).bare_method
    allowed.write_text(f"{sha256}\n")
    assert NamedParts(f"{file}:mine", "tiny", None, {}, tmp_path).bare_method.name == "mine"
