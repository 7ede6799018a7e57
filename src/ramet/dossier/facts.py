"""What the files of a run's folder show, a sentence at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ramet.dossier.evidence import Evidence, Line, Missing, Sentence
from ramet.engine.site.audit import NAME as AUDIT
from ramet.experiment import RunFolder
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import BASELINES, PREPARATION, SCHEMAS, SPLIT, VERSIONS
from ramet.experiment.run_folder import RESULT
from ramet.experiment.start_from import START_FILE
from ramet.leak import NAME as LEAK
from ramet.leak import Audit
from ramet.metrics import Summary
from ramet.report.text import size

_SETTINGS, _CHARTER, _CHAIN = "settings.json", "charter.json", "server/chain.jsonl"


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

    @cached_property
    def _about(self) -> dict[str, Any]:
        return read_json(self.folder.path / VERSIONS)

    @cached_property
    def _run(self) -> str:
        return str(self.folder.path.name)

    def purpose(self) -> Iterator[Line]:
        """What was trained, by whom and when."""
        settings, sites = self.folder.experiment().settings, self.folder.experiment().clients
        yield self._says(
            f"{len(sites)} sites ({', '.join(sites)}) trained a model together with the method "
            f"{settings.label}, in {self.summary.rounds} rounds, from {self._about['started']}.",
            _SETTINGS,
            SPLIT,
            RESULT,
            VERSIONS,
        )
        task = self.folder.experiment().method.task.name
        said = SCHEMAS if self._has(SCHEMAS) else _SETTINGS
        yield self._says(f"Its task is {task}.", said)
        yield self._says(f"What was learnt has the SHA-256 {self.summary.sha256}.", RESULT)
        if self._has(START_FILE):
            origin = read_json(self.folder.path / START_FILE)
            yield self._says(
                f"It started with the models of the run {origin['folder']} ({origin['sha256']}).",
                START_FILE,
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
        known = read_json(self.folder.path / SPLIT)["clients"]
        baselines = read_json(self.folder.path / BASELINES)
        for site, facts in known.items():
            if "data_sha256" not in facts:
                yield Missing(f"the data of {site}", "It is on another machine, as its SHA-256.")
                continue
            sizes = baselines.get(site, {})
            yield self._says(
                f"{site} trained with {sizes.get('train', len(facts.get('train', [])))} samples "
                f"and tested with {sizes.get('test', len(facts.get('test', [])))}; its data have "
                f"the SHA-256 {facts['data_sha256']}.",
                SPLIT,
                BASELINES,
            )
        if self._has(PREPARATION):
            types = read_json(self.folder.path / PREPARATION)["types"]
            columns = [f"{kind}: {', '.join(own)}" for kind, own in types.items() if own]
            text = "; ".join(columns) or "none"
            yield self._says(
                f"Columns on whose means and categories sites agreed: {text}.", PREPARATION
            )
        yield Missing(
            "where the data come from, on what legal ground, and whom they leave out",
            "Each site knows; nothing in the folder says it.",
        )

    def left(self) -> Iterator[Line]:
        """What left each site."""
        traffic, shared = self.summary.traffic, self.summary.model.shared_scalars
        yield self._says(
            f"Sites share {shared:,} parameters; {size(traffic.total)} were sent in the whole run.",
            RESULT,
        )
        logs = sorted(self.folder.clients.glob(f"*/{AUDIT}"))
        for log in logs:
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            names = sorted({tensor["name"] for line in lines for tensor in line["tensors"]})
            sent = sum(tensor["bytes"] for line in lines for tensor in line["tensors"])
            some = ", ".join(names[:_MOST]) + (" …" if len(names) > _MOST else "")
            text = f"{log.parent.name} sent {len(lines)} replies with {size(sent)} in tensors"
            yield Sentence(f"{text}: {some}.", (Evidence.of(self.folder.path, log),))
        if not logs:
            yield Missing(
                "a log of each reply",
                "Sites with data of their own write one: `ramet audit show` at the site.",
            )

    def protection(self) -> Iterator[Line]:
        settings = self.folder.experiment().settings
        if settings.secure:
            yield self._says(
                "The coordinator received sums of replies under masks, and no single reply.",
                _SETTINGS,
            )
        else:
            yield self._says("The coordinator saw the reply of each site.", _SETTINGS)
        if self.summary.privacy is not None:
            yield self._says(
                f"Differential privacy: {self.summary.privacy.sentence}.", _SETTINGS, RESULT
            )
        else:
            yield self._says("The run has no differential privacy.", _SETTINGS)
        if self._has(_CHARTER) and self._has(_CHAIN):
            links = len((self.folder.path / _CHAIN).read_text().splitlines())
            yield self._says(
                f"All sites signed its charter, and its chain has {links} links with their "
                "signatures.",
                _CHARTER,
                _CHAIN,
            )
        else:
            yield self._says("Its sites did not verify what the coordinator computed.", _SETTINGS)

    def attacks(self) -> Iterator[Line]:
        """What attacks found in the run."""
        if not self._has(LEAK):
            yield Missing("what attackers learn", f"`ramet leak {self._run}` attacks the run.")
            return
        audit = Audit.from_json(read_json(self.folder.path / LEAK))
        if audit.sha256 != self.summary.sha256:
            yield Missing(
                "an audit of this model: the one in the folder is of another",
                f"`ramet leak {self._run}` repeats it.",
            )
            return
        for one in audit.findings:
            if one.value is None or one.low is None:
                continue
            end = "" if one.high is None else f" to {one.high:.3f}"
            verdict = "beyond chance" if one.leaks else "not beyond chance"
            power = "" if one.has_power else ", where the attack has no power"
            yield self._says(
                f"The attack {one.attack}, by {one.view}: {one.value:.3f} ({one.low:.3f}{end}), "
                f"{verdict}{power}.",
                LEAK,
            )
        yield Missing("what better attacks would find", "Nobody knows; repeat the audit with time.")

    def performance(self) -> Iterator[Line]:
        scale, scores = self.summary.scale, self.summary.scores
        unit = scale.suffix
        yield self._says(
            f"Its mean test {self.summary.metric} over sites is {scale.shown(scores.test)}{unit}.",
            RESULT,
        )
        for site, score in scores.clients.items():
            if score is None:
                continue
            constant = self.summary.baselines.get(site)
            beside = (
                ""
                if constant is None or constant.constant is None
                else f"; a constant answer has {scale.shown(constant.constant)}{unit}"
            )
            yield self._says(f"{site}: {scale.shown(score)}{unit}{beside}.", RESULT)
        if not any(score is not None for score in scores.clients.values()):
            yield Missing("scores of single sites", "They were withheld in this run.")
        yield Missing(
            "intervals, calibration, and scores by group of people",
            f"`ramet evaluate {self._run} --json`, and `ramet compare … --splits 10` for splits.",
        )


_MOST = 6
"""How many names of tensors are listed."""


def facts_of(path: Path) -> Facts | None:
    """The facts of a finished run; None if it is not finished."""
    folder = RunFolder.open(path.absolute())
    summary = folder.summary()
    return None if summary is None else Facts(folder, summary)
