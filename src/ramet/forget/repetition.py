"""Which runs a site has taken part in, and their repetition without it.

A run knows a site if the site was among its clients, or if it started from a run that knows it. The
earliest such run is repeated without the site, and then each that was started from it. What they
started from stays: it never had the site. So the numbers are those of somebody who has never heard
of the site, to the last bit.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ramet.errors import RametError, unknown
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.continuing import check_same
from ramet.experiment.files import read_json
from ramet.experiment.settings import RunSettings
from ramet.experiment.start_from import START_FILE
from ramet.experiment.superseded import mark_superseded
from ramet.forget.certificate import FILE, Certificate
from ramet.forget.descendants import descendants
from ramet.forget.pair import Pair, RunFacts, started_from
from ramet.forget.people import People
from ramet.metrics import Record
from ramet.partition.own import SITES, OwnSetting
from ramet.runs import resume, start


@dataclass(frozen=True)
class Repetition:
    """What is to be repeated without a site, or without people of it, the earliest run first."""

    site: str
    runs: tuple[RunFolder, ...]
    base: RunFolder | None
    """What the earliest run started from, which has never known the site."""
    out: Path | None = None
    """The folder of the last repeated run; default: beside the old one."""
    people: People | None = None
    """Who is forgotten; None for the whole site."""

    @staticmethod
    def of(
        folder: Path, site: str, out: Path | None = None, people: People | None = None
    ) -> Repetition:
        last = RunFolder.open(folder.absolute())
        line = [*_ancestry(last)][::-1]
        first = next((n for n, run in enumerate(line) if site in run.experiment().clients), None)
        if first is None:
            raise unknown("client", site, last.experiment().clients)
        for run in line[first:]:
            _check(run, site, people)
        base = line[first - 1] if first else None
        return Repetition(site, tuple(line[first:]), base, out, people)

    @cached_property
    def rounds(self) -> int:
        return sum(run.experiment().settings.rounds for run in self.runs)

    @property
    def seconds(self) -> float | None:
        """What the runs took; None if one of them is not finished."""
        summaries = [run.summary() for run in self.runs]
        return sum(one.seconds for one in summaries if one) if all(summaries) else None

    def path_of(self, run: RunFolder) -> Path:
        """The folder of a run's repetition."""
        if self.out is not None and run is self.runs[-1]:
            return self.out.absolute()
        gone = self.site if self.people is None else f"{self.people.label}-of-{self.site}"
        return run.path.parent / f"{run.path.name}-without-{gone}"

    def repeated(self, observe: Callable[[Record], None] | None = None) -> list[RunFolder]:
        """The repeated runs; those that exist are continued, if they were stopped."""
        found: list[RunFolder] = []
        before = self.base
        for run in self.runs:
            path = self.path_of(run)
            if RunFolder(path).started:
                self.check(run, RunFolder.open(path), before)
                result = resume(path, observe=observe)
            else:
                settings = self.settings_of(run)
                origin = None if before is None else before.path
                fresh = Experiment(settings.model_copy(update={"start_from": None}))
                result = start(fresh, path, start_from=origin, observe=observe)
            before = RunFolder.open(result.folder)
            found.append(before)
        return found

    def settings_of(self, run: RunFolder) -> RunSettings:
        """The settings of the run that never had them."""
        experiment = run.experiment()
        setting, settings = experiment.setting, experiment.settings
        assert isinstance(setting, OwnSetting)
        files = {**setting.files}
        if self.people is None:
            del files[self.site]
        elif (own := files.get(self.site)) is not None:
            files[self.site] = self.people.removed_from(own)
        names = [str(file or name) for name, file in files.items()]
        options = {**settings.options, SITES: shlex.join(names)}
        quorum = min(settings.quorum, len(files))
        return settings.model_copy(update={"options": options, "quorum": quorum})

    def check(self, run: RunFolder, repeated: RunFolder, before: RunFolder | None) -> None:
        """Refuse a run that is not the one without the site, started from the one ``before`` it."""
        if started_from(repeated) != (None if before is None else before.run_name):
            expected = "no other run" if before is None else str(before.path)
            raise RametError(f"{repeated.path} is no repetition: it should start from {expected}.")
        label = repeated.experiment().settings.start_from
        settings = self.settings_of(run)
        seed = repeated.experiment().settings.seed  # sites with secure sums refuse the same one
        check_same(repeated, settings.model_copy(update={"start_from": label, "seed": seed}))


def forget(
    folder: Path,
    site: str,
    out: Path | None = None,
    search: Path | None = None,
    repeated: Sequence[Path] = (),
    people: People | None = None,
    observe: Callable[[Record], None] | None = None,
) -> tuple[Certificate, Path]:
    """Repeat a run, and what it was started from, without a site; and write a certificate.

    Args:
        folder: the run.
        site: who is forgotten.
        out: folder of the repeated run; default: beside the old one.
        search: where copies of the old models may be; default: the folder that the run is in.
        repeated: folders of the repeated runs if they were made elsewhere, the earliest first.
        people: who of the site is forgotten; default: the whole site.
        observe: called with the record of each round.

    Returns:
        The certificate, and its file in the folder of the repeated run.
    """
    repetition = Repetition.of(folder, site, out, people)
    if repeated and len(repeated) != len(repetition.runs):
        raise RametError(
            f"{len(repetition.runs)} runs know {site}, but {len(repeated)} repetitions were given."
        )
    new = [RunFolder.open(path.absolute()) for path in repeated] or repetition.repeated(observe)
    for old, one, before in zip(repetition.runs, new, [repetition.base, *new], strict=False):
        repetition.check(old, one, before)
    pairs = [
        Pair(before=RunFacts.of(old), after=RunFacts.of(one))
        for old, one in zip(repetition.runs, new, strict=True)
    ]
    below = search or repetition.runs[-1].path.parent
    left = descendants(below, repetition.runs)
    certificate = Certificate.of(site, pairs, left, len(people.ids) if people else None)
    certificate.check()
    path = new[-1].path / FILE
    certificate.write(path)
    forgotten = site if people is None else f"{certificate.people} of the people of {site}"
    for old_one in (*(run.path for run in repetition.runs), *(below / one.folder for one in left)):
        mark_superseded(old_one, new[-1].run_name, forgotten)
    return certificate, path


def _check(run: RunFolder, site: str, people: People | None) -> None:
    experiment = run.experiment()
    if not isinstance(experiment.setting, OwnSetting):
        raise RametError(
            f"{run.path} is a run on {experiment.settings.shown_setting}, whose clients are made "
            "from public data. Sites with data of their own can be forgotten."
        )
    if people is not None:
        toml = experiment.setting.files[site]
        if toml is None:
            raise RametError(
                f"the tables of {site} are not on this machine. There, `ramet data without` "
                "removes people; then start the run again."
            )
        people.rows_in(toml)
    elif not {*experiment.clients} - {site}:
        raise RametError(f"{run.path} has no site but {site}. Delete it instead.")


def _ancestry(run: RunFolder) -> Iterator[RunFolder]:
    """A run, what it was started from, and so on."""
    yield run
    if not (run.path / START_FILE).exists():
        return
    origin = read_json(run.path / START_FILE)
    path = run.path.parent / origin["folder"]
    if not RunFolder(path).started or RunFolder(path).run_name != origin["run"]:
        raise RametError(
            f"{run.path} started from the run {origin['folder']}, which is not beside it, so that "
            f"nobody can say whether it knows the site. Put it at {path}."
        )
    yield from _ancestry(RunFolder(path))
