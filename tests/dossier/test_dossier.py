"""Every sentence of a dossier cites files that exist and have the SHA-256 that it says."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import ramet
from command_line import ramet as command
from own_sites import node_site
from ramet.dossier import PURPOSES, Evidence, Sentence, Table, dossier
from ramet.engine.site.audit import AuditLog
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.leak import NAME, Effort, audit
from ramet.payload import Payload

NAMES = ("north", "south", "east")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    sites = [node_site(folder / name, number) for number, name in enumerate(NAMES)]
    options = {"secure": True, "verified": True, "rounds": 2}
    return ramet.run("fedavg", "own", sites=sites, out=folder / "together", **options).folder  # type: ignore[arg-type]


def _one_round(folder: Path) -> Path:
    sites = [node_site(folder / name, number) for number, name in enumerate(NAMES)]
    return ramet.run("fedavg", "own", sites=sites, rounds=1, out=folder / "run").folder


def test_there_is_no_sentence_without_evidence(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="no file shows this"):
        Sentence("The model is safe.", ())
    with pytest.raises(RametError, match="no file shows this: north, safe"):
        Table(("site", "model"), ((("north", "safe"), ()),))
    with pytest.raises(RametError, match="cannot be read"):
        Evidence.of(tmp_path, tmp_path / "nothing.json")


@pytest.mark.parametrize("purpose", PURPOSES)
def test_what_is_cited_exists_and_has_this_sha256(run: Path, purpose: str) -> None:
    found = dossier(run, purpose)
    assert len([*found.sentences()]) > 8
    assert [*found.missing()]
    for sentence in found.sentences():
        for one in sentence.evidence:
            content = (run / one.path).read_bytes()
            assert hashlib.sha256(content).hexdigest() == one.sha256
    text = found.markdown().partition("## Evidence")[0]
    bullets = re.findall(r"^- (.+)$", text, re.MULTILINE)
    assert all("Missing:" in line or re.search(r"\[`.+` [0-9a-f]{12}\]$", line) for line in bullets)
    tables = re.findall(r"^\| .+\n\|[-|]+\n((?:\| .+\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert rows
    assert all(re.search(r" \[`.+` [0-9a-f]{12}\] \|$", row) for row in rows)
    assert len(rows) + sum("Missing:" not in line for line in bullets) == len([*found.sentences()])


def test_what_it_says_is_what_the_files_have(run: Path) -> None:
    text = dossier(run, "annex-iv").markdown()
    result = json.loads((run / "result.json").read_text())
    assert result["sha256"] in text
    assert f"{100 * result['scores']['test']:.2f}" in text
    for name in NAMES:
        site = json.loads((run / "split.json").read_text())["clients"][name]
        parts = (f"{len(site[part])}" for part in ("train", "val", "test"))
        assert f"| {' | '.join(parts)} | {site['data_sha256']} | [`split.json`" in text
    assert "complian" not in text.lower()


def test_a_simulation_claims_no_protection(run: Path) -> None:
    text = dossier(run, "dpia").markdown()
    assert "it is a simulation" in text
    assert "Secure sums were simulated with keys that follow from the seed: they hid" in text
    assert "Signatures were simulated with keys that follow from the seed: no proof" in text


def test_what_sites_tell_before_round_1_is_listed_without_its_values(tmp_path: Path) -> None:
    folder = _one_round(tmp_path)
    assert "Before round 1" not in dossier(folder, "egress").markdown()
    log = AuditLog(folder / "introductions" / "audit.jsonl", run="run", client="north")
    told = ("patient.age: count 91, sum 4711, squared deviations 9", "patient.smoker: nothing")
    log.add(0, Payload(), "introduction", told)
    text = dossier(folder, "egress").markdown()
    assert "Openly: patient.age." in text
    assert "4711" not in text
    assert "smoker" not in text


def test_a_run_with_less_evidence_shows_the_gaps_and_what_happened_since(tmp_path: Path) -> None:
    folder = _one_round(tmp_path)
    before = dossier(folder, "dpia")
    assert not any("in vain" in one.text or "forgotten" in one.text for one in before.sentences())
    for log in folder.glob("clients/*/*/audit.jsonl"):
        log.unlink()
    split = json.loads((folder / "split.json").read_text())
    split["clients"]["north"] = {"source": "own:north"}
    (folder / "split.json").write_text(json.dumps(split))
    (folder / "superseded.json").write_text(json.dumps({"by": "new", "forgotten": "north"}))
    record = json.loads((folder / "rounds.jsonl").read_text())
    (folder / "rounds.jsonl").write_text(json.dumps(record | {"failed": {"south": "late"}}) + "\n")
    after = dossier(folder, "dpia")
    added = {one.what for one in after.missing()} - {one.what for one in before.missing()}
    assert added == {"how much data there is at north, and its digest", "a log of each message"}
    told = after.markdown()
    assert "Do not use it: the run new replaces it, without north." in told
    assert "Asked in vain: south in 1 round." in told
    assert "it is a simulation" not in told


def test_an_audit_is_cited_if_it_is_of_this_model(tmp_path: Path) -> None:
    folder = _one_round(tmp_path)
    assert "`ramet leak run` attacks the run" in dossier(folder, "egress").markdown()
    found = audit(RunFolder(folder), Effort(references=0, canaries=0))
    (folder / NAME).write_text(json.dumps(found.to_json()))
    told = dossier(folder, "egress").markdown()
    assert re.search(r"^- (Leaks|No leak shown|Says nothing.*)\. membership: ", told, re.MULTILINE)
    assert "Attacker: whoever receives a site's final model. Result: " in told
    assert "`leak.json`" in told
    other = {**found.to_json(), "sha256": "0" * 64}
    (folder / NAME).write_text(json.dumps(other))
    assert "the one in the folder is of another" in dossier(folder, "egress").markdown()


def test_what_differs_by_site_is_a_row(tmp_path: Path) -> None:
    found = dossier(_one_round(tmp_path), "egress")
    rows = [one for one in found.sentences() if one.text.startswith("site: ")]
    (log,) = (one for one in rows if "messages that it sent: " in one.text)
    assert len(rows) == len(NAMES) + 1  # all logs have the same, each in a file of its own
    assert log.text.startswith(f"site: {', '.join(sorted(NAMES))}; ")
    assert {Path(one.path).parent.name for one in log.evidence} == {*NAMES}
    page = found.html()
    assert page.count("<tr>") == 3 + len(rows) + len(found.evidence)
    assert page.count("<li>") == page.count("</li>")


def test_a_run_that_is_not_finished_has_no_dossier(tmp_path: Path) -> None:
    def stop(record: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ramet.run("fedavg", "tiny", rounds=2, out=tmp_path / "run", observe=stop)
    with pytest.raises(RametError, match="not finished"):
        dossier(tmp_path / "run", "card")


def test_the_command_writes_markdown_or_html(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "card.html"
    done = command("dossier", run, "--for", "card", "--out", page)
    assert done.code == 0, done.stderr
    assert "<h1>Model card: together</h1>" in page.read_text()
    assert command("dossier", run, "--for", "card", "--out", tmp_path / "card.txt").code == 2
