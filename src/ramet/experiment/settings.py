"""Everything that decides a run's numbers, as one frozen object."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ramet.experiment.method_spec import MethodSpec
from ramet.options import relative_file, without_folder
from ramet.partition.base import SPLIT_SEED
from ramet.partition.own import ENDING, SITES
from ramet.privacy.budget import Budget

Engine = Literal["local", "ray", "superlink"]
Device = Literal["cpu", "cuda", "mps"]
_FLAGS = (
    *("patience", "metric", "engine", "device", "threads", "quorum", "deadline", "norm_bound"),
    "split_seed",
    "final_clients",
    "regions",
)


def default_data() -> Path:
    """The folder of datasets if --data is not given."""
    return Path(os.environ.get("RAMET_DATA") or Path.home() / ".cache" / "ramet")


class RunSettings(BaseModel):
    """Everything that decides a run's numbers, and the folder of its datasets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    setting: str
    rounds: int = Field(ge=1)
    patience: int | None = Field(None, ge=1)
    """Stop after this many rounds without a better mean validation score; None for no early stop.
    """
    seed: int = Field(0, ge=0)
    engine: Engine = "local"
    device: Device = "cpu"
    data: Path
    options: dict[str, str] = {}
    """Arguments of the method, the setting, the network, the training and the task."""
    network: str | None = None
    """A name from `ramet networks` or file.py:network; None for the default of the task."""
    share: tuple[str, ...] | None = None
    activation: str | None = None
    """Replaces the method's rule: a name from `ramet activations` or file.py:rule, followed by its
    options."""
    merge: str | None = None
    """Replaces the weighted mean: a name from `ramet merges` or file.py:rule, followed by its
    options."""
    release: str | None = None
    """Applied to replies before they leave a site: a name from `ramet releases` or file.py:release,
    followed by its options."""
    metric: str | None = None
    """By which rounds are chosen: None for the default of the task."""
    quorum: int = Field(1, ge=1)
    deadline: float = Field(600.0, gt=0)
    norm_bound: float | None = Field(None, gt=0)
    split_seed: int = Field(SPLIT_SEED, ge=0)
    final_clients: int | None = Field(None, ge=1)
    """How many clients, drawn at random, get the final model at the end; None for all."""
    regions: int | None = Field(None, ge=1)
    """How many regional coordinators ask the clients and pass on sums; None for none."""
    secure: bool = False
    """Whether the server learns sums of replies only."""
    dp: str | None = None
    """The budget of differential privacy: `unit=graph,epsilon=4,delta=1e-5`, and perhaps `clip`."""
    threads: int = Field(1, ge=1)
    start_from: str | None = None
    """The folder and the SHA-256 of the run whose models this one starts with: `name@sha256`."""
    code: str | None = None
    """SHA-256 of the user-defined method, network and rules; None if all are built in."""

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
    def rules(self) -> dict[str, str]:
        """The rules that replace the method's own, or are added to it."""
        given = {"activation": self.activation, "merge": self.merge, "release": self.release}
        return {kind: without_folder(text) for kind, text in given.items() if text}

    @property
    def command(self) -> str:
        """The command that repeats this run in the current folder.

        Of files elsewhere it has the names only, because other folders are machine-specific.
        """
        words = ["ramet", "run", relative_file(self.method), "--setting", self.setting]
        words += ["--network", relative_file(self.network)] if self.network else []
        words += ["--rounds", str(self.rounds), "--seed", str(self.seed)]
        for name in _FLAGS:
            if getattr(self, name) != type(self).model_fields[name].default:
                words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        words += ["--from", self.start_from.rpartition("@")[0]] if self.start_from else []
        for key, value in self.options.items():
            words += _sites(value) if key == SITES else ["--set", f"{key}={value}"]
        if self.share is not None:
            for pattern in self.share or ("",):
                words += ["--share", pattern]
        for kind in self.rules:
            words += [f"--{kind}", relative_file(getattr(self, kind))]
        words += ["--secure"] if self.secure else []
        words += ["--dp", self.dp] if self.dp else []
        return shlex.join(words)


def _sites(value: str) -> list[str]:
    """Options for the sites: each file with its parent folder only, or the names unchanged."""
    sites = shlex.split(value)
    if not all(site.endswith(ENDING) for site in sites):
        return ["--set", f"{SITES}={value}"]
    files = ("/".join(Path(site).parts[1:][-2:]) for site in sites)
    return [word for file in files for word in ("--site", file)]
