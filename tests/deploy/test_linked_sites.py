"""`ramet link` between sites that have joined a consortium: files, tables and what is refused."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from command_line import ramet
from joined_consortium import joined_consortium
from own_sites import write_csv
from ramet.deploy.links import Links
from ramet.deploy.site import MEMBERS

NAMES = ("north", "south", "east")
IDS = {
    "north": ["DE1", "DE2", "DE3", "DE4"],
    "south": ["DE2", "DE3", "DE5"],
    "east": ["DE3", "DE4", "DE5"],
}


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Folders of sites, each of which has a file with ids."""
    joined = joined_consortium(tmp_path, monkeypatch, NAMES)
    folders = {name: site.folder for name, site in joined.sites.items()}
    for name, folder in folders.items():
        _write_ids(folder, IDS[name])
    return folders


def _write_ids(folder: Path, ids: Iterable[str]) -> Path:
    return write_csv(folder / "ids.csv", "iban,city", [(name, "x") for name in ids])


def _do(line: str) -> str:
    done = ramet(*f"link {line}".split())
    assert done.code == 0, done.stderr
    return done.stdout


def _refused(line: str, why: str) -> None:
    done = ramet(*f"link {line}".split())
    assert done.code == 2
    assert why in done.stderr


def _file(site: Path, kind: str, sender: str, receiver: str) -> Path:
    return site / "state" / "links" / f"{sender}-to-{receiver}.{kind}.json"


def _link(sites: dict[str, Path], one: str, other: str) -> list[str]:
    """Do a whole exchange, and return what the two sites print at its end."""
    at, to = sites[one], sites[other]
    _do(f"start {other} {at}/ids.csv {at} --column iban")
    _do(f"answer {_file(at, 'start', one, other)} {to}/ids.csv {to} --column iban")
    printed = [_do(f"finish {_file(to, 'answer', other, one)} {at}")]
    return [*printed, _do(f"finish {_file(at, 'finish', one, other)} {to}")]


def test_three_sites_find_who_shares_which_ids(sites: dict[str, Path]) -> None:
    for one, other in (("north", "south"), ("east", "north"), ("south", "east")):
        printed = _link(sites, one, other)
    assert "2 ids shared with east\n2 ids shared with north\n1 ids shared with all" in printed[0]
    tables = {name: Links.open(folder).rows() for name, folder in sites.items()}
    assert tables == {
        "north": [("DE2", "south"), ("DE3", "east"), ("DE3", "south"), ("DE4", "east")],
        "south": [("DE2", "north"), ("DE3", "east"), ("DE3", "north"), ("DE5", "east")],
        "east": [("DE3", "north"), ("DE3", "south"), ("DE4", "north"), ("DE5", "south")],
    }
    for folder in sites.values():
        kept = [*(folder / "state" / "links").iterdir()]
        assert not [path for path in kept if path.name.endswith(".open.json")]
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)


def test_a_message_is_read_once(sites: dict[str, Path]) -> None:
    _link(sites, "north", "south")
    north, south = sites["north"], sites["south"]
    answered = _file(south, "answer", "south", "north")
    _refused(f"finish {answered} {north}", "no exchange with south is open")
    _refused(f"finish {_file(north, 'finish', 'north', 'south')} {south}", "is open: it has ended")
    started = _file(north, "start", "north", "south")
    again = f"answer {started} {south}/ids.csv {south} --column iban"
    _refused(again, "about the same list of ids")
    _do(f"{again} --again")
    _refused(f"finish {answered} {south}", "is for north, but this site is south")


def test_another_list_is_answered_after_a_week(sites: dict[str, Path]) -> None:
    _link(sites, "north", "south")
    north, south = sites["north"], sites["south"]
    _write_ids(south, ["DE1", "DE2"])
    _do(f"start south {north}/ids.csv {north} --column iban")
    started = _file(north, "start", "north", "south")
    answer = f"answer {started} {south}/ids.csv {south} --column iban"
    _refused(answer, "less than 7 days ago")
    entries = south / "state" / "links" / "exchanges.json"
    (entry,) = json.loads(entries.read_text())
    earlier = (datetime.now(UTC) - timedelta(days=7, minutes=1)).isoformat()
    entries.write_text(json.dumps([{**entry, "when": earlier}]))
    _do(answer)
    finish = f"finish {_file(south, 'answer', 'south', 'north')} {north}"
    _refused(finish, "about the same list of ids")  # north's own list has not changed
    assert "2 ids shared with south" in _do(f"{finish} --again")
    assert Links.open(north).rows() == [("DE1", "south"), ("DE2", "south")]


def test_sites_that_are_no_members_are_refused(sites: dict[str, Path]) -> None:
    north, south = sites["north"], sites["south"]
    _refused(f"start west {north}/ids.csv {north} --column iban", "west is not among this site's")
    _do(f"start south {north}/ids.csv {north} --column iban")
    members = south / MEMBERS
    lines = members.read_text().splitlines()
    members.write_text("\n".join(line for line in lines if not line.startswith("north")))
    answer = f"answer {_file(north, 'start', 'north', 'south')} {south}/ids.csv {south}"
    _refused(f"{answer} --column iban", "is not among this site's members")


def test_mistakes_say_what_to_do(sites: dict[str, Path]) -> None:
    north, south = sites["north"], sites["south"]
    _refused(f"start south {north}/ids.csv {north}", "has no column 'id', only iban, city")
    _refused(f"start south {north}/none.csv {north}", "none.csv cannot be read")
    _refused(f"answer {north}/ids.csv {south}/ids.csv {south} --column iban", "not a message of")
    _refused(f"finish {north}/none.json {south}", "none.json cannot be read")
    write_csv(north / "ids.csv", "iban,city", [("DE1", "x"), ("", "y")])
    _refused(f"start south {north}/ids.csv {north} --column iban", "has no id in row 3")
    _write_ids(north, ["DE1"])
    _do(f"start south {north}/ids.csv {north} --column iban")
    started = _file(north, "start", "north", "south")
    _refused(f"finish {started} {south}", "begins an exchange. Use `ramet link answer`")
    _do(f"answer {started} {south}/ids.csv {south} --column iban")
    answered = _file(south, "answer", "south", "north")
    _refused(f"answer {answered} {north}/ids.csv {north} --column iban", "Use `ramet link finish`")
