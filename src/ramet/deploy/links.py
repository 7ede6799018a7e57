"""A site's links with others: files to send, the shared ids, and when there was an exchange."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ramet.deploy.party import private_files
from ramet.deploy.site import MEMBERS, NODE_KEY, STATE, Site
from ramet.disk import remove_file, write_atomically
from ramet.errors import RametError
from ramet.experiment import output_folder
from ramet.secure import linking
from ramet.secure.identity import Identity, Peers
from ramet.secure.link_messages import LinkMessage
from ramet.secure.linking import MOST, Side, spelled

FOLDER = "links"
"""The folder at a site, below its state, with its links."""
SHARED, EXCHANGES = "shared.csv", "exchanges.json"
WAIT = timedelta(days=7)
"""Between two exchanges with the same site."""


@dataclass(frozen=True)
class Links:
    """The links of one site.

    An exchange is entered in a list before a message leaves that lets another site test ids. A
    second one with that site is refused while the list of ids is the same, and for some days.
    """

    site: Site

    @staticmethod
    def open(folder: Path) -> Links:
        return Links(Site.open(folder.absolute()))

    @property
    def folder(self) -> Path:
        return self.site.folder / STATE / FOLDER

    @property
    def shared(self) -> Path:
        """The table of shared ids, with a row for each id and site that has it, too."""
        return self.folder / SHARED

    @property
    def name(self) -> str:
        return self.site.settings.site

    def start(self, peer: str, ids: Sequence[str]) -> Path:
        """Begin an exchange, and return the file to send; one that has not ended is dropped."""
        if peer not in self._peers.fingerprints:
            raise RametError(
                f"{peer} is not among this site's members. Add it with `ramet deploy member`."
            )
        message, side = linking.start(self.name, peer, ids, self._identity)
        with self._writing():
            return self._written(message, side)

    def answer(
        self, given: Path, ids: Sequence[str], most: int = MOST, again: bool = False
    ) -> Path:
        """Answer a site that has begun, and return the file to send."""
        received = self._read(given)
        message, side = linking.answer(received, ids, self._identity, most)
        with self._writing():
            self._enter(side, again)
            return self._written(message, side)

    def finish(self, given: Path, most: int = MOST, again: bool = False) -> tuple[str, Path | None]:
        """Read an answer, or the message after it; return the peer, and a file to send, if any."""
        received = self._read(given)
        if received.kind == "start":
            raise RametError(f"{given} begins an exchange. Use `ramet link answer`.")
        side = self._open_side(received.sender)
        with self._writing():
            sent = None
            if received.kind == "answer":
                message, shared = linking.finish(side, received, self._identity, most)
                self._enter(side, again)
                sent = self._message_file(message)
                write_atomically(sent, message.text)
            else:
                shared = linking.close(side, received)
            self._keep(side.peer, shared)
            remove_file(self._side_file(side.peer))
        return side.peer, sent

    def rows(self) -> list[tuple[str, str]]:
        """The shared ids, each with a site that has it, too."""
        if not self.shared.exists():
            return []
        with self.shared.open(newline="") as file:
            return [(row["id"], row["site"]) for row in csv.DictReader(file)]

    def counts(self) -> dict[str, int]:
        """How many ids are shared with each site."""
        return dict(sorted(Counter(site for _, site in self.rows()).items()))

    def in_all(self) -> int:
        """How many ids are shared with each of the sites with which there was an exchange."""
        peers = {exchange["peer"] for exchange in self._exchanges()}
        return sum(
            count == len(peers) for count in Counter(name for name, _ in self.rows()).values()
        )

    @property
    def _identity(self) -> Identity:
        return Identity.read(self.site.folder / NODE_KEY)

    @property
    def _peers(self) -> Peers:
        return Peers.read(self.site.folder / MEMBERS)

    def _read(self, path: Path) -> LinkMessage:
        try:
            message = LinkMessage.parse(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise RametError(f"{path} cannot be read ({error}).") from error
        message.check(self.name, self._peers)
        return message

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write all of a command's files, which only their owner can read, or none."""
        with private_files(), output_folder(self.folder):
            yield

    def _written(self, message: LinkMessage, side: Side) -> Path:
        path = self._message_file(message)
        write_atomically(self._side_file(side.peer), json.dumps(side.kept()))
        write_atomically(path, message.text)
        return path

    def _message_file(self, message: LinkMessage) -> Path:
        return self.folder / f"{message.sender}-to-{message.receiver}.{message.kind}.json"

    def _side_file(self, peer: str) -> Path:
        return self.folder / f"{peer}.open.json"

    def _open_side(self, peer: str) -> Side:
        path = self._side_file(peer)
        if not path.exists():
            raise RametError(
                f"no exchange with {peer} is open: it has ended, or never begun. Begin with "
                f"`ramet link start {peer}`."
            )
        return Side.restored(json.loads(path.read_text()))

    def _exchanges(self) -> list[dict[str, Any]]:
        path = self.folder / EXCHANGES
        found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        return found

    def _enter(self, side: Side, again: bool) -> None:
        """Enter an exchange in the list, or refuse it."""
        ids = hashlib.sha256(json.dumps(sorted(side.ids)).encode()).hexdigest()
        now, before = datetime.now(UTC), self._exchanges()
        for past in () if again else (one for one in before if one["peer"] == side.peer):
            when = datetime.fromisoformat(past["when"])
            if past["ids_sha256"] == ids:
                raise _refused(side.peer, when, "about the same list of ids")
            if now - when < WAIT:
                raise _refused(side.peer, when, f"less than {WAIT.days} days ago")
        entry = {"peer": side.peer, "when": now.isoformat(), "ids_sha256": ids}
        write_atomically(
            self.folder / EXCHANGES, json.dumps([*before, entry], indent=1), mode=0o600
        )

    def _keep(self, peer: str, shared: Iterable[str]) -> None:
        """Replace what is known of a peer in the table of shared ids."""
        kept = [row for row in self.rows() if row[1] != peer] + [(name, peer) for name in shared]
        text = io.StringIO()
        csv.writer(text).writerows([("id", "site"), *sorted(kept)])
        write_atomically(self.shared, text.getvalue())


def _refused(peer: str, when: datetime, why: str) -> RametError:
    return RametError(
        f"there was an exchange with {peer} on {when:%-d %B %Y}, {why}. Each one lets {peer} test "
        "other ids than before. If it is needed, --again allows it."
    )


def read_ids(path: Path, column: str) -> list[str]:
    """The ids in a column of a CSV file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or ()
            if column not in names:
                raise RametError(
                    f"{path} has no column '{column}', only {', '.join(names) or 'nothing'}. Name "
                    "one with --column."
                )
            ids = [row[column] or "" for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RametError(f"{path} cannot be read ({error}).") from error
    for number, name in enumerate(ids, start=2):
        if not spelled(name):
            raise RametError(f"{path} has no id in row {number}. Fill it in, or remove the row.")
    return ids
