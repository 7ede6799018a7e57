"""Everything that decides a run's numbers, as one frozen object."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ramet.experiment.method_spec import MethodSpec
from ramet.options import relative_file, without_folder
from ramet.partition.own import ENDING, SITES
from ramet.privacy.budget import Budget
from ramet.run_options import RUN_OPTIONS, Declared, RunOptions

_ALWAYS = ("setting", "rounds", "seed")
"""Options that a run's command has even if they are the defaults."""


def default_data() -> Path:
    """The folder of datasets if --data is not given."""
    return Path(os.environ.get("RAMET_DATA") or Path.home() / ".cache" / "ramet")


class RunSettings(RunOptions, BaseModel):
    """The options of a run, checked, with all defaults filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def budget(self) -> Budget | None:
        """The budget of differential privacy; None without it."""
        return Budget.parse(self.dp) if self.dp else None

    @property
    def spec(self) -> MethodSpec:
        """The method with its options, without the paths of the sites' files."""
        options = {key: value for key, value in self.options.items() if key != SITES}
        spec = MethodSpec(
            self.method,
            options,
            self.network,
            self.share,
            self.release,
            self.merge,
            self.activation,
        )
        return spec.seen_from_here()

    @property
    def label(self) -> str:
        """The method with its options, as `ramet compare` takes it."""
        return str(self.spec)

    @property
    def shown_setting(self) -> str:
        """The setting's name; of a user's file, without the folder."""
        return without_folder(self.setting)

    @property
    def rules(self) -> dict[str, str]:
        """The rules that replace the method's own, or are added to it."""
        given = {"activation": self.activation, "merge": self.merge, "release": self.release}
        return {kind: without_folder(text) for kind, text in given.items() if text}

    @property
    def command(self) -> str:
        """The command that repeats this run in the current folder.

        Of files elsewhere it has the names only, because other folders are machine-specific.
        """
        words = ["ramet", "run", relative_file(self.method)]
        for name, declared in RUN_OPTIONS.items():
            value = getattr(self, name)
            if name in _ALWAYS or (declared.in_command and value != declared.default):
                words += _words(declared, value)
        return shlex.join(words)


def _words(declared: Declared, value: Any) -> list[str]:
    """An option of a command."""
    if declared.name == "options":
        pairs = value.items()
        return [word for key, text in pairs for word in _option(declared.flag, key, text)]
    if declared.is_repeatable:
        return [word for one in value or ("",) for word in (declared.flag, one)]
    if value is True:
        return [declared.flag]
    if declared.name == "start_from":
        value = value.rpartition("@")[0]
    return [declared.flag, relative_file(value) if declared.option.is_code else str(value)]


def _option(flag: str, key: str, value: str) -> list[str]:
    """An option of a part of the run; of each site's file, with its parent folder only."""
    sites = shlex.split(value) if key == SITES else []
    if not sites or not all(site.endswith(ENDING) for site in sites):
        return [flag, f"{key}={value}"]
    files = ("/".join(Path(site).parts[1:][-2:]) for site in sites)
    return [word for file in files for word in ("--site", file)]
