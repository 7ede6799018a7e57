"""What the files of a run's folder show, a sentence at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ramet.data.own.schema import Schema, level_of
from ramet.dossier.evidence import Evidence, Line, Missing, Sentence
from ramet.engine.site.audit import INTRODUCTIONS, AuditEntry
from ramet.engine.site.audit import NAME as AUDIT
from ramet.experiment import RunFolder
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import BASELINES, DATA_SHA256, PREPARATION, SCHEMAS, SPLIT, VERSIONS
from ramet.experiment.run_folder import RESULT
from ramet.experiment.start_from import START_FILE
from ramet.experiment.superseded import FILE as SUPERSEDED
from ramet.leak import ATTACKS, VIEWS, Audit, Finding
from ramet.leak import NAME as LEAK
from ramet.metrics import Summary
from ramet.report.text import plural, size

_SETTINGS, _CHARTER, _CHAIN = "settings.json", "charter.json", "server/chain.jsonl"
_ROUNDS, _INTRODUCTIONS = "rounds.jsonl", f"{INTRODUCTIONS}/{AUDIT}"


@dataclass(frozen=True)
class Facts:
    """Sentences about a finished run."""

    folder: RunFolder
    summary: Summary

    def _file(self, name: str) -> Evidence:
        return Evidence.of(self.folder.path, self.folder.path / name)

    def _says(self, text: str, *files: str) -> Sentence:
        return Sentence(text, tuple(map(self._file, files)))

    def _has(self, name: str) -> bool:
        return (self.folder.path / name).exists()

    def _read(self, name: str) -> dict[str, Any]:
        return read_json(self.folder.path / name)

    @cached_property
    def _about(self) -> dict[str, Any]:
        return self._read(VERSIONS)

    @cached_property
    def _run(self) -> str:
        return str(self.folder.path.name)

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        """What is known of each site's samples, by site."""
        return dict(self._read(SPLIT)["clients"])

    @property
    def _simulated(self) -> bool:
        return all(DATA_SHA256 in facts for facts in self._known.values())

    def purpose(self) -> Iterator[Line]:
        """What was trained, by whom and when."""
        settings, sites = self.folder.experiment().settings, self.folder.experiment().clients
        if self._has(SUPERSEDED):
            note = self._read(SUPERSEDED)
            yield self._says(
                f"Do not use it: {note['forgotten']} was forgotten, and the run {note['by']} "
                "replaces it.",
                SUPERSEDED,
            )
        if self._simulated:
            yield self._says(
                "The machine that wrote this folder read the data of all sites: it is a simulation "
                "of sites that keep theirs.",
                SPLIT,
            )
        yield self._says(
            f"The method is {settings.label.replace(',', ', ')}, for "
            f"{plural(self.summary.rounds, 'round')} from {self._about['started'][:10]}, with "
            f"{plural(len(sites), 'site')}: {', '.join(sites)}.",
            _SETTINGS,
            RESULT,
            VERSIONS,
        )
        for site in sites:
            if without := [one.round for one in self.folder.records() if site in one.failed]:
                yield self._says(
                    f"{site} was asked in vain in {plural(len(without), 'round')}.", _ROUNDS
                )
        yield from self._predicted()
        yield self._says(
            f"The arrays that were learnt have the SHA-256 {self.summary.sha256}.", RESULT
        )
        if self._has(START_FILE):
            origin = self._read(START_FILE)
            yield self._says(
                f"It started with the models of the run {origin['folder']} ({origin['sha256']}).",
                START_FILE,
            )

    def _predicted(self) -> Iterator[Line]:
        """What is predicted, and from what."""
        experiment = self.folder.experiment()
        task = experiment.method.task.name
        if not self._has(SCHEMAS):
            setting = experiment.settings.shown_setting
            yield self._says(f"The setting is {setting}, for {task}.", _SETTINGS, VERSIONS)
            return
        schemas = [Schema.model_validate(one) for one in self._read(SCHEMAS).values()]
        tables = {name: own for one in schemas for name, own in one.nodes.items()}
        columns = "; ".join(f"{name} ({', '.join(own)})" for name, own in tables.items())
        links = ", ".join(dict.fromkeys(name for one in schemas for name in one.edges))
        answers = ", ".join(dict.fromkeys(name for one in schemas for name in one.classes))
        yield self._says(
            f"The task is {task}{f' ({answers})' if answers else ''}, from {columns}, with the "
            f"links {links}.",
            SCHEMAS,
        )

    def software(self) -> Iterator[Line]:
        about = self._about
        names = ("ramet", "torch", "torch_geometric", "numpy", "flwr", "python")
        listed = ", ".join(f"{name} {about[name]}" for name in names if name in about)
        yield self._says(f"It was computed with {listed}.", VERSIONS)
        if "commit" in about:
            yield self._says(f"The commit of Ramet is {about['commit']}.", VERSIONS)
        yield Missing(
            "a bill of materials of all packages, and their known vulnerabilities",
            "`pip-audit --format cyclonedx-json` writes it on the machine that computed.",
        )

    def data(self) -> Iterator[Line]:
        """Which samples, and what sites agreed on before round 1."""
        baselines = self._read(BASELINES)
        for site, facts in self._known.items():
            if DATA_SHA256 not in facts:
                yield Missing(f"how much data {site} has, and its digest", f"{site} knows.")
                continue
            counts = {kind: _total(facts[kind]) for kind in _COUNTED if kind in facts}
            sizes = {use: len(facts[part]) for part, use in _USES.items() if part in facts}
            sizes |= {_USES[p]: n for p, n in baselines.get(site, {}).items() if p in _USES}
            listed = ", ".join(f"{n:,} {name}" for name, n in (counts | sizes).items())
            yield self._says(
                f"{site} has {listed}. The SHA-256 of its features, links, labels and split is "
                f"{facts[DATA_SHA256]}.",
                SPLIT,
                BASELINES,
            )
        yield Missing(
            "where the data come from, how many people they concern, whom they leave out, and on "
            "what legal ground they are used",
            "Each site knows; nothing in the folder says it.",
        )

    def left(self) -> Iterator[Line]:
        """What left each site."""
        traffic, shared = self.summary.traffic, self.summary.model.shared_scalars
        yield self._says(
            f"{shared:,} parameters are shared; messages in both directions have "
            f"{size(traffic.total)}.",
            RESULT,
        )
        if self._has(_INTRODUCTIONS):
            yield self._says(
                "Before round 1, sites told counts and sums of columns, and names of categories. "
                f"{self._told()}",
                _INTRODUCTIONS,
            )
        if self._has(PREPARATION) and any(self._read(PREPARATION)["types"].values()):
            yield self._says(
                "All sites received the means, spreads and categories of columns over all sites.",
                PREPARATION,
            )
        logs = sorted(self.folder.clients.glob(f"*/{AUDIT}"))
        for log in logs:
            entries = [*_entries(log)]
            tensors = [tensor for entry in entries for tensor in entry.tensors]
            numbers = dict.fromkeys(name for entry in entries for name in entry.numbers)
            yield Sentence(
                f"{log.parent.name} sent {plural(len(entries), 'message')}: "
                f"{plural(len({one.name for one in tensors}), 'tensor')} with "
                f"{size(sum(one.bytes for one in tensors))}, and numbers called "
                f"{', '.join(numbers)}.",
                (Evidence.of(self.folder.path, log),),
            )
        if not logs:
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

    def protection(self) -> Iterator[Line]:
        settings, weak = self.folder.experiment().settings, self._simulated
        if not settings.secure:
            yield self._says("The coordinator saw the reply of each site.", _SETTINGS)
        elif weak:
            yield self._says(
                "Secure sums were simulated with keys that follow from the seed: they hid nothing.",
                _SETTINGS,
                SPLIT,
                VERSIONS,
            )
        else:
            yield self._says(
                "It was set up with secure sums, in which masks hide each reply, but not the sum.",
                _SETTINGS,
            )
        if self.summary.privacy is not None:
            yield self._says(
                f"Differential privacy: {self.summary.privacy.sentence}.", _SETTINGS, RESULT
            )
        else:
            yield self._says("The run has no differential privacy.", _SETTINGS)
        if not settings.verified:
            yield self._says("Its sites did not verify what the coordinator computed.", _SETTINGS)
        elif weak:
            yield self._says(
                "Signatures were simulated with keys that follow from the seed: no proof of "
                "anything.",
                _SETTINGS,
                SPLIT,
                VERSIONS,
            )
        else:
            links = len((self.folder.path / _CHAIN).read_text().splitlines())
            yield self._says(
                f"It has a charter, and a chain with {plural(links, 'link')}.", _CHARTER, _CHAIN
            )
            yield Missing(
                "a check of the signatures",
                f"`ramet charter verify {self._run}`, and `ramet audit verify` with sites' copies.",
            )

    def attacks(self) -> Iterator[Line]:
        """What attacks found in the run."""
        if not self._has(LEAK):
            if level_of(self.folder.experiment().method.task.name) in ("link", "edge"):
                how = "Ramet has no attacks for this task."
            elif self._simulated:
                how = f"`ramet leak {self._run}` attacks the run."
            else:
                how = "`ramet leak` attacks a simulation with similar data."
            yield Missing("what attackers learn", how)
            return
        audit = Audit.from_json(self._read(LEAK))
        if audit.sha256 != self.summary.sha256:
            yield Missing(
                "an audit of this model: the one in the folder is of another",
                f"`ramet leak {self._run}` repeats it.",
            )
            return
        for one in sorted(audit.findings, key=lambda one: _ORDER.index(_verdict(one))):
            value, interval, chance = one.cells
            found = (
                one.note
                if one.value is None
                else f"{value}, 95 % interval {interval}, by chance {chance}"
            )
            yield self._says(
                f"{_verdict(one)}. {one.attack}: {ATTACKS[one.attack]}. Attacker: "
                f"{VIEWS[one.view]}. Result: {found}.",
                LEAK,
            )
        yield Missing("what better attacks would find", "Nobody knows; repeat the audit with time.")

    def performance(self) -> Iterator[Line]:
        scale, scores = self.summary.scale, self.summary.scores
        unit = scale.suffix
        yield self._says(
            f"After the last round, the mean test {self.summary.metric} over sites is "
            f"{scale.shown(scores.test)}{unit}; validation was best after round "
            f"{scores.best_val_round}.",
            RESULT,
        )
        for site, score in scores.clients.items():
            if score is None:
                continue
            known = self.summary.baselines.get(site)
            tested = "" if known is None else f" on {plural(known.test, 'test sample')}"
            constant = None if known is None else known.constant
            beside = (
                "" if constant is None else f"; a constant answer has {scale.shown(constant)}{unit}"
            )
            yield self._says(f"{site}: {scale.shown(score)}{unit}{tested}{beside}.", RESULT)
        if not any(score is not None for score in scores.clients.values()):
            yield Missing("scores of single sites", "Sites have them: `ramet evaluate` there.")
        yield Missing(
            "intervals, calibration, and scores by group of people",
            f"`ramet evaluate {self._run} --json` has the first two; groups, somebody has to "
            "compare.",
        )


_COUNTED = ("graphs", "nodes", "links")
_USES = {"train": "samples for training", "val": "for validation", "test": "for the test"}
_NOTHING, _MASKED = ": nothing", "in a sum under masks"
_ORDER = ("Leaks", "No leak shown", "Says nothing, as the attack has no power here", "Not measured")


def _total(count: int | Mapping[str, int]) -> int:
    """A number of links; those of link prediction are counted by relation."""
    return count if isinstance(count, int) else sum(count.values())


def _entries(log: Path) -> Iterator[AuditEntry]:
    return map(AuditEntry.parse, log.read_text().splitlines())


def _verdict(finding: Finding) -> str:
    if finding.value is None:
        return _ORDER[3]
    if finding.leaks:
        return _ORDER[0]
    return _ORDER[1] if finding.has_power else _ORDER[2]


def facts_of(path: Path) -> Facts | None:
    """The facts of a finished run; None if it is not finished."""
    folder = RunFolder.open(path.absolute())
    summary = folder.summary()
    return None if summary is None else Facts(folder, summary)
