"""What the files of a run's folder show, a sentence at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ramet.data.own.schema import Schema
from ramet.dossier.evidence import Evidence, Line, Missing, Sentence, Table
from ramet.engine.site.audit import INTRODUCTIONS, AuditEntry
from ramet.engine.site.audit import NAME as AUDIT
from ramet.experiment import RunFolder
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import BASELINES, DATA_SHA256, PREPARATION, SCHEMAS, SPLIT, VERSIONS
from ramet.experiment.run_folder import RESULT
from ramet.experiment.start_from import START_FILE
from ramet.experiment.superseded import FILE as SUPERSEDED
from ramet.metrics import Summary
from ramet.report.text import plural, size

SETTINGS = "settings.json"
_ROUNDS, _INTRODUCTIONS = "rounds.jsonl", f"{INTRODUCTIONS}/{AUDIT}"


@dataclass(frozen=True)
class Facts:
    """Sentences about a finished run."""

    folder: RunFolder
    summary: Summary

    def _file(self, name: str) -> Evidence:
        return Evidence.of(self.folder.path, self.folder.path / name)

    def says(self, text: str, *files: str) -> Sentence:
        return Sentence(text, tuple(map(self._file, files)))

    def table(
        self, heads: tuple[str, ...], rows: Mapping[str, tuple[str, ...]], *files: str
    ) -> Table:
        """A row for each site, which the same files show."""
        evidence = tuple(map(self._file, files))
        return Table(heads, tuple(((site, *cells), evidence) for site, cells in rows.items()))

    def has(self, name: str) -> bool:
        return (self.folder.path / name).exists()

    def read(self, name: str) -> dict[str, Any]:
        return read_json(self.folder.path / name)

    @cached_property
    def _about(self) -> dict[str, Any]:
        return self.read(VERSIONS)

    @cached_property
    def run(self) -> str:
        return str(self.folder.path.name)

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        """What is known of each site's samples, by site."""
        return dict(self.read(SPLIT)["clients"])

    @property
    def simulated(self) -> bool:
        return all(DATA_SHA256 in facts for facts in self._known.values())

    def purpose(self) -> Iterator[Line]:
        """What was trained, by whom and when."""
        settings, sites = self.folder.experiment().settings, self.folder.experiment().clients
        if self.has(SUPERSEDED):
            note = self.read(SUPERSEDED)
            yield self.says(
                f"Do not use it: the run {note['by']} replaces it, without {note['forgotten']}.",
                SUPERSEDED,
            )
        if self.simulated:
            yield self.says(
                "The machine that wrote this folder read the data of all sites: it is a simulation "
                "of sites that keep theirs.",
                SPLIT,
            )
        yield self.says(
            f"The method is {settings.label.replace(',', ', ')}, for "
            f"{plural(self.summary.rounds, 'round')} from {self._about['started'][:10]}, with "
            f"{plural(len(sites), 'site')}: {', '.join(sites)}.",
            SETTINGS,
            RESULT,
            VERSIONS,
        )
        failed = Counter(site for one in self.folder.records() for site in one.failed)
        if failed:
            listed = ", ".join(f"{site} in {plural(n, 'round')}" for site, n in failed.items())
            yield self.says(f"Asked in vain: {listed}.", _ROUNDS)
        yield from self._predicted()
        yield self.says(
            f"The arrays that were learnt have the SHA-256 {self.summary.sha256}.", RESULT
        )
        if self.has(START_FILE):
            origin = self.read(START_FILE)
            yield self.says(
                f"It started with the models of the run {origin['folder']} ({origin['sha256']}).",
                START_FILE,
            )

    def _predicted(self) -> Iterator[Line]:
        """What is predicted, and from what."""
        experiment = self.folder.experiment()
        task = experiment.method.task.name
        if not self.has(SCHEMAS):
            setting = experiment.settings.shown_setting
            yield self.says(f"The setting is {setting}, for {task}.", SETTINGS, VERSIONS)
            return
        schemas = [Schema.model_validate(one) for one in self.read(SCHEMAS).values()]
        tables = {name: own for one in schemas for name, own in one.nodes.items()}
        columns = "; ".join(f"{name} ({', '.join(own)})" for name, own in tables.items())
        links = ", ".join(dict.fromkeys(name for one in schemas for name in one.edges))
        answers = ", ".join(dict.fromkeys(name for one in schemas for name in one.classes))
        yield self.says(
            f"The task is {task}{f' ({answers})' if answers else ''}, from {columns}, with the "
            f"links {links}.",
            SCHEMAS,
        )

    def software(self) -> Iterator[Line]:
        about = self._about
        names = ("ramet", "torch", "torch_geometric", "numpy", "flwr", "python")
        listed = ", ".join(f"{name} {about[name]}" for name in names if name in about)
        yield self.says(f"It was computed with {listed}.", VERSIONS)
        if "commit" in about:
            yield self.says(f"The commit of Ramet is {about['commit']}.", VERSIONS)
        yield Missing(
            "a bill of materials of all packages, and their known vulnerabilities",
            "`pip-audit --format cyclonedx-json` writes it on the machine that computed.",
        )

    def data(self) -> Iterator[Line]:
        """Which samples, and what sites agreed on before round 1."""
        known = {site: facts for site, facts in self._known.items() if DATA_SHA256 in facts}
        if known:
            counts = {site: self._counts(site) for site in known}
            kinds = [*dict.fromkeys(kind for own in counts.values() for kind in own)]
            yield self.table(
                ("site", *kinds, "SHA-256 of its features, links, labels and split"),
                {
                    site: (*(f"{own.get(kind, 0):,}" for kind in kinds), known[site][DATA_SHA256])
                    for site, own in counts.items()
                },
                SPLIT,
                BASELINES,
            )
        if unknown := [site for site in self._known if site not in known]:
            listed = ", ".join(unknown)
            yield Missing(f"how much data there is at {listed}, and its digest", "The site knows.")
        yield Missing(
            "where the data come from, how many people they concern, whom they leave out, and on "
            "what legal ground they are used",
            "Each site knows; nothing in the folder says it.",
        )

    def _counts(self, site: str) -> dict[str, int]:
        """How much of what a site has, and what for."""
        facts, baselines = self._known[site], self.read(BASELINES).get(site, {})
        counts = {kind: _total(facts[kind]) for kind in _COUNTED if kind in facts}
        sizes = {use: len(facts[part]) for part, use in _USES.items() if part in facts}
        return counts | sizes | {_USES[p]: n for p, n in baselines.items() if p in _USES}

    def left(self) -> Iterator[Line]:
        """What left each site."""
        traffic, shared = self.summary.traffic, self.summary.model.shared_scalars
        yield self.says(
            f"{shared:,} parameters are shared; messages in both directions have "
            f"{size(traffic.total)}.",
            RESULT,
        )
        if self.has(_INTRODUCTIONS):
            yield self.says(
                "Before round 1, sites told counts and sums of columns, and names of categories. "
                f"{self._told()}",
                _INTRODUCTIONS,
            )
        if self.has(PREPARATION) and any(self.read(PREPARATION)["types"].values()):
            yield self.says(
                "All sites received the means, spreads and categories of columns over all sites.",
                PREPARATION,
            )
        logs = sorted(self.folder.clients.glob(f"*/{AUDIT}"))
        if logs:
            rows = ((_sent(log), (Evidence.of(self.folder.path, log),)) for log in logs)
            heads = ("site", "messages that it sent", "tensors", "bytes in them", "numbers called")
            yield Table.folded(heads, rows)
        else:
            yield Missing(
                "a log of each message",
                "Sites with data of their own keep one: `ramet audit show` at the site.",
            )

    def _told(self) -> str:
        entries = _entries(self.folder.path / _INTRODUCTIONS)
        told = [one for entry in entries for one in entry.told if not one.endswith(_NOTHING)]
        names = {one.partition(":")[0]: one.endswith(_MASKED) for one in told}
        kinds = {"Openly": [name for name, masked in names.items() if not masked]}
        kinds["In sums under masks"] = [name for name, masked in names.items() if masked]
        return " ".join(f"{how}: {', '.join(own)}." for how, own in kinds.items() if own)


_COUNTED = ("graphs", "nodes", "links")
_USES = {"train": "samples for training", "val": "for validation", "test": "for the test"}
_NOTHING, _MASKED = ": nothing", "in a sum under masks"


def _sent(log: Path) -> tuple[str, ...]:
    """What a site has sent, by its log of messages."""
    entries = [*_entries(log)]
    tensors = [tensor for entry in entries for tensor in entry.tensors]
    numbers = dict.fromkeys(name for entry in entries for name in entry.numbers)
    kinds, total = len({one.name for one in tensors}), sum(one.bytes for one in tensors)
    return log.parent.name, f"{len(entries):,}", f"{kinds:,}", size(total), ", ".join(numbers)


def _total(count: int | Mapping[str, int]) -> int:
    """A number of links; those of link prediction are counted by relation."""
    return count if isinstance(count, int) else sum(count.values())


def _entries(log: Path) -> Iterator[AuditEntry]:
    return map(AuditEntry.parse, log.read_text().splitlines())


def facts_of(path: Path) -> Facts | None:
    """The facts of a finished run; None if it is not finished."""
    folder = RunFolder.open(path.absolute())
    summary = folder.summary()
    return None if summary is None else Facts(folder, summary)
