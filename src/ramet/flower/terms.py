"""What a site allows runs to do: its own settings, which a run config can only narrow.

`site.toml` in the site's folder holds what the invitation said (method, network, setting, sharing,
rounds, options) and a table ``[allow]`` with the changes that the site's owner made. Its path is in
the SuperNode's node config, which the coordinator cannot change.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ramet.errors import RametError
from ramet.options import is_user_defined
from ramet.policy import Policy, read_policy

SETTINGS = "settings"
"""The key of the node config with the path of the site's settings."""
MEMBERS = "members"
"""The key of the node config with the path of the site's list of members."""
POLICY = "policy"
"""The key of the node config with the path of the site's policy."""
AUTHORITY = "authority"
"""The key of the node config with the path of the authority's certificates."""
FILES = ".folder"
"""The coordinator's file beside the public key of a site: the folder of messages to the site."""
COORDINATOR = "Ramet coordinator"
"""The name in the certificate of the key that signs requests; no server can have it."""


class Allow(BaseModel):
    """The owner's changes to what the invitation said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[str, ...] = ()
    """Methods that runs may use as well as the invitation's."""
    networks: tuple[str, ...] = ()
    """Networks that runs may use as well as the invitation's."""
    share: tuple[str, ...] | None = None
    """Patterns of the arrays that may leave; None for the invitation's, or the method's own."""
    rounds: int | None = Field(None, ge=1)
    """The largest number of rounds; None for the invitation's."""
    options: tuple[str, ...] | None = None
    """Options that runs may choose; None for all that the invitation leaves open."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    threads: int = Field(1, ge=1)
    """The largest number of threads."""


class AgreedRun(BaseModel):
    """What an invitation says about runs."""

    method: str
    network: str | None = None
    setting: str
    share: tuple[str, ...] | None = None
    release: str | None = None
    rounds: int | None = None
    secure: bool = False
    verified: bool = False
    dp: str | None = None
    options: dict[str, str] = {}

    @field_validator("setting")
    @classmethod
    def _check_built_in(cls, setting: str) -> str:
        """A coordinator must not choose code that reads a site's data."""
        if is_user_defined(setting):
            raise ValueError(
                "a coordinator cannot name code that reads a site's data; each site brings its "
                "own graphs. Leave out `setting`, or use a name from `ramet list settings`"
            )
        return setting


class SiteTerms(AgreedRun):
    """What a run may do at a site: the invitation's words and the owner's changes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    site: str
    data: Path
    """The data folder or, for the site's own graphs, the TOML that describes them."""
    allow: Allow = Allow()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.method, *self.allow.methods)))

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of networks; an empty one stands for the method's own or the task's default."""
        return tuple(dict.fromkeys((self.network or "", *self.allow.networks)))

    @property
    def patterns(self) -> tuple[str, ...] | None:
        """Patterns of the arrays that may leave; None for the method's own sharing."""
        return self.share if self.allow.share is None else self.allow.share

    @property
    def largest_rounds(self) -> int | None:
        """The largest number of rounds; None for the setting's default."""
        return self.allow.rounds or self.rounds

    def lines(self) -> list[str]:
        """A summary for the site's owner."""
        networks = [name or "the default" for name in self.networks]
        sharing = "what the method shares"
        if self.patterns is not None:
            sharing = ", ".join(self.patterns) or "no parameters"
        stated = ", ".join(f"{name}={value}" for name, value in self.options.items())
        options = f"all but {stated}" if stated else "all"
        if self.allow.options is not None:
            options = ", ".join(self.allow.options) or "none"
        release = [f"release: {self.release}"] if self.release else []
        return [
            f"data: {self.data}",
            f"methods: {', '.join(self.methods)}",
            f"networks: {', '.join(networks)}",
            f"arrays that may leave: {sharing}",
            *release,
            *([f"differential privacy: {self.dp}"] if self.dp else []),
            f"rounds per run: at most {self.largest_rounds or 'the default of ' + self.setting}",
            f"options that a run may choose: {options}",
            f"device and threads: {self.allow.device}, at most {self.allow.threads}",
        ]


def site_policy(node_config: Mapping[str, Any]) -> Policy:
    """The policy of the site whose SuperNode has this config; one without rules if it names none.

    A policy that is named but missing is an error: removing the file must not open the site.
    """
    path = node_config.get(POLICY)
    return read_policy(Path(str(path))) if path else Policy()


def site_terms(node_config: Mapping[str, Any]) -> SiteTerms | None:
    """The terms of the site whose SuperNode has this config; None if it has no settings."""
    path = node_config.get(SETTINGS)
    if not path:
        return None
    try:
        return SiteTerms.model_validate(tomllib.loads(Path(str(path)).read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise RametError(
            "the site's settings cannot be read, so it takes part in no run. Ask the site to run "
            "`ramet doctor`."
        ) from error
