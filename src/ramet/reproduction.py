"""Do a paper's table again: its printed figures are data, ours come from runs."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ramet.archive import kept
from ramet.errors import RametError, unknown
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.methods import METHODS
from ramet.metrics import Printed, Verdict
from ramet.partition import SETTINGS
from ramet.sweeps import Contender, Sweep

_SCALAR_BYTES, _KB = 4, 1024


def experiments() -> Path:
    """The papers' files: inside an installed package, or beside its source."""
    here = Path(__file__).parent
    installed = here / "experiments"
    return installed if installed.exists() else here.parents[1] / "experiments"


def tables() -> dict[str, list[Printed]]:
    """Every table that can be done again, by `PAPER TABLE`."""
    found: dict[str, list[Printed]] = {}
    for path in sorted(experiments().glob("*.toml")):
        content = tomllib.loads(path.read_text())
        for cell in content.get("printed", []):
            printed = Printed.parse(content["run"]["method"], cell)
            found.setdefault(printed.table, []).append(printed)
    return {name: sorted(cells, key=_place) for name, cells in found.items()}


def _place(cell: Printed) -> tuple[int, int]:
    """Setting by setting, methods in their own order."""
    return list(SETTINGS).index(cell.setting), list(METHODS).index(cell.method)


def table(paper: str, name: str, only: Sequence[str] = ()) -> list[Printed]:
    """The cells of a table; ``only`` keeps those of the named methods and settings."""
    known, wanted = tables(), f"{paper} {name}"
    if wanted not in known:
        raise unknown("table", wanted, known)
    cells = known[wanted]
    labels = {cell.label for cell in cells} | {cell.method for cell in cells}
    settings = {cell.setting for cell in cells}
    for word in only:
        if word not in labels | settings:
            raise unknown("method or setting of this table", word, sorted(labels | settings))
    methods, places = labels & set(only), settings & set(only)
    return [
        cell
        for cell in cells
        if (not methods or {cell.label, cell.method} & methods)
        and (not places or cell.setting in places)
    ]


@dataclass(frozen=True)
class Reproduction:
    """The runs behind a table; a sweep per setting, which `ramet compare` finds and adds to."""

    cells: Sequence[Printed]
    seeds: tuple[int, ...]
    folder: Path
    rounds: int | None = None
    data: Path | None = None
    kept: Path | None = None  # a folder of kept results per setting

    def sweeps(self) -> list[Sweep]:
        """What has to be run; sizes need no run."""
        labels: dict[str, dict[str, None]] = {}
        for cell in self.cells:
            if cell.kind == "accuracy":
                labels.setdefault(cell.setting, {})[cell.label] = None
        return [
            Sweep(
                contenders=tuple(Contender.parse(label) for label in chosen),
                setting=setting,
                seeds=self.seeds,
                folder=self.folder / setting,
                rounds=self.rounds,
                data=self.data,
                kept={} if self.kept is None else kept(self.kept / setting),
            )
            for setting, chosen in labels.items()
        ]

    def verdicts(self) -> list[Verdict]:
        """Each printed figure beside what the finished runs give."""
        stories = {sweep.setting: sweep.stories() for sweep in self.sweeps()}
        return [
            Verdict(
                cell,
                [
                    100 * story.result["scores"]["test"]
                    for story in stories[cell.setting][cell.label].values()
                ]
                if cell.kind == "accuracy"
                else [self._kilobytes(cell)],
            )
            for cell in self.cells
        ]

    def _kilobytes(self, cell: Printed) -> float:
        experiment = Experiment(
            checked_settings(
                method=cell.method,
                setting=cell.setting,
                data=(self.data or default_data()).absolute(),
                options=dict(cell.options),
            )
        )
        if cell.kind == "payload_kb":
            return experiment.shared_scalars() * _SCALAR_BYTES / _KB
        if cell.client is None:
            raise RametError(f"{cell.table}: a model's size needs a client. Name it in the file.")
        return experiment.scalars_of(cell.client) * _SCALAR_BYTES / _KB
