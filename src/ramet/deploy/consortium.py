"""A consortium's settings, and the two small public files that its members exchange.

The coordinator writes ``consortium.toml`` and sends each site an `Invitation`. The site sends back
an `Application`, which contains its public key. Neither file is secret, but both must arrive
unaltered: compare the fingerprints that the commands print.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ramet.deploy.schedule import Schedule
from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.flower.terms import AgreedRun
from ramet.run_options import RUN_OPTIONS

if TYPE_CHECKING:
    from ramet.experiment import RunSettings

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")


def _host(text: str) -> str:
    """Check a host name or an address; IPv6 addresses are returned in their shortest form."""
    if _HOST_NAME.fullmatch(text):
        return text
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError(
            "expected a host name, an IPv4 address, or an IPv6 address without brackets"
        ) from None
    if address.scope_id:
        raise ValueError("an IPv6 address must be valid on all machines, so without %")
    return str(address)


def endpoint(address: str, port: int) -> str:
    """The form that URLs and listening programs use, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


Host = Annotated[str, AfterValidator(_host)]
Port = Annotated[int, Field(ge=1, le=65535)]
Model = TypeVar("Model", bound=BaseModel)
OWN = "own"
"""The setting in which sites bring their own graphs."""
_FILES = {
    "sites": "a consortium's settings, which the coordinator writes for `ramet deploy init`",
    "authority": "an invitation, which the coordinator sends from invitations/",
    "public_key": "a site's application, SITE.application.toml, which `ramet deploy join` writes",
    "runtime_port": "the settings of a site that has joined",
    "task": "a description of a site's graphs, for --data",
}
"""A description of each kind of file, by a key that only this kind has."""


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Consortium(AgreedRun, _File):
    """The members of a consortium, the coordinator's address, and what they run."""

    name: Name
    address: Host
    """Where sites reach the coordinator: a host name, an IPv4 or an IPv6 address."""
    port: Port = 8443
    listen: IPv4Address | IPv6Address = IPv4Address("0.0.0.0")
    """The address that the proxy binds to, `::` for IPv6 and IPv4; the SuperLink always binds to
    loopback."""
    link_port: Port = 8000
    metrics_port: Port | None = None
    """The loopback port of the coordinator's metrics for Prometheus; None disables them."""
    sites: tuple[Name, ...] = Field(min_length=1)
    by_files: dict[Name, Path] = {}
    """Sites that exchange files with the coordinator instead of connecting, and in which folder."""
    setting: str = OWN
    rounds: int | None = Field(None, ge=1)
    seed: int = 0
    quorum: int | None = Field(None, ge=1)
    """Minimum number of valid replies per round; see `needed`."""
    deadline: float = Field(600.0, gt=0, allow_inf_nan=False)
    """Seconds that a round waits for the next reply."""
    # As for `ramet run`:
    patience: int | None = Field(None, ge=1)
    norm_bound: float | None = None
    merge: str | None = None
    activation: str | None = None
    metric: str | None = None
    schedule: Schedule | None = None
    """When `ramet deploy due` trains again."""

    @model_validator(mode="before")
    @classmethod
    def _check_offered(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Say why a consortium's run does not have what other runs have."""
        unknown = given.keys() - cls.model_fields.keys()
        if unknown:
            from ramet.experiment.capabilities import CAPABILITIES, Can
            from ramet.experiment.compatibility import refusals

            for can, capability in CAPABILITIES.items():
                key = capability.option.partition(" ")[0].removeprefix("--").replace("-", "_")
                if key in unknown:
                    for refusal in refusals({Can.CONSORTIUM, can}):
                        raise ValueError(f"{capability.option}: {refusal.why}")
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if unknown := self.by_files.keys() - {*self.sites}:
            raise ValueError(f"by_files names {', '.join(sorted(unknown))}, which is not in sites")
        if len(set(self.sites)) < len(self.sites):
            raise ValueError("a site is named twice")
        if self.needed > len(self.sites):
            raise ValueError(
                f"a quorum of {self.needed} exceeds the number of sites, {len(self.sites)}"
            )
        if self.schedule is not None:
            protected = self.secure, self.verified, self.dp is not None, self.merge or ""
            if flaw := self.schedule.flaw(len(self.sites), self.needed, *protected):
                raise ValueError(flaw)
        if ".py:" in self.method:
            raise ValueError(
                "sites do not have the method's file; choose one of `ramet list methods`"
            )
        if ".py:" in f"{self.network} {self.activation} {self.merge} {self.release}":
            raise ValueError(
                "sites do not have the file of a network or rule; see `ramet list networks`, "
                "`activations`, `merges`, `releases`"
            )
        return self

    @property
    def needed_to_begin(self) -> int:
        """How many sites a run begins with: all, if their own data have to be compared."""
        return len(self.sites) if self.setting == OWN else self.needed

    @property
    def needed(self) -> int:
        """The quorum; by default one, but all in secure sums, from which sites leave nobody out."""
        return self.quorum or (len(self.sites) if self.secure else 1)

    def settings(self, data: Path) -> RunSettings:
        """The settings of the consortium's run."""
        from ramet.experiment import Experiment, checked_settings

        settings = checked_settings(
            **{
                **self.model_dump(include={*RUN_OPTIONS}),
                "engine": "superlink",
                "quorum": self.needed,
                "data": data,
                "options": {**self.options, **site_options(self.setting, self.sites)},
            }
        )
        clients = Experiment(settings).clients
        if set(clients) != set(self.sites):
            raise RametError(
                f"the setting {self.setting} has the clients {', '.join(clients)}, but the "
                f"consortium has the sites {', '.join(self.sites)}. Use the same names."
            )
        return settings


def site_options(setting: str, sites: Iterable[str]) -> dict[str, str]:
    """The option that names the sites; empty unless sites bring their own graphs."""
    return {"sites": shlex.join(sites)} if setting == OWN else {}


class Membership(AgreedRun, _File):
    """A site's consortium, the coordinator's address, and what they run."""

    consortium: Name
    site: Name
    address: Host
    port: Port

    @property
    def endpoint(self) -> str:
        return endpoint(self.address, self.port)


class Invitation(Membership):
    """What a site needs to take part; `authority` is the consortium's CA certificate."""

    authority: str


class Application(_File):
    """A site's public key, in OpenSSH format, and its certificate for this key, as PEM."""

    consortium: Name
    site: Name
    public_key: str
    certificate: str


def read(path: Path, kind: type[Model]) -> Model:
    """Read and validate a TOML file."""
    try:
        given: dict[str, Any] = tomllib.loads(path.read_text())
        return kind.model_validate(given)
    except FileNotFoundError as error:
        raise RametError(f"{path} does not exist.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RametError(f"cannot read {path}: {error}.") from error
    except RecursionError as error:
        raise RametError(f"cannot read {path}: it is nested too deeply.") from error
    except ValidationError as error:
        received, expected = _description(given), _description(kind.model_fields)
        if received and expected and received != expected:
            raise RametError(f"{path} is {received}. Expected {expected}.") from error
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RametError(f"{path}: {place}{': ' if place else ''}{first['msg']}.") from error


def _description(keys: Iterable[str]) -> str | None:
    """Describe the kind of file that has these keys; None if it is unknown."""
    return next((text for key, text in _FILES.items() if key in keys), None)


def write(path: Path, content: BaseModel) -> None:
    write_atomically(path, tomli_w.dumps(content.model_dump(mode="json", exclude_none=True)))
