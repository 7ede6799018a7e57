"""A method with its options, as users write it: `feddense,width=16`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ramet.errors import RametError
from ramet.options import name_and_options, relative_file

_SHARE, _NETWORK, _RELEASE, _MERGE, _ACTIVATION = (
    "share",
    ",network=",
    ",release=",
    ",merge=",
    ",activation=",
)


@dataclass(frozen=True)
class MethodSpec:
    """A method with its options, network, sharing, release, merging and activation.

    Written as one word: the method and all options, separated by commas, then `release=`, `merge=`
    and finally `activation=`, each followed by its own options:
    `feddense,width=16,merge=trimmed-mean,share=0.3,activation=random-clients,count=3`.
    """

    method: str
    options: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    share: tuple[str, ...] | None = None
    release: str | None = None
    merge: str | None = None
    activation: str | None = None

    @staticmethod
    def parse(text: str) -> MethodSpec:
        rest, _, activation = text.partition(_ACTIVATION)
        rest, _, merge = rest.partition(_MERGE)
        rest, _, release = rest.partition(_RELEASE)
        rest, _, network = rest.partition(_NETWORK)
        method, options = name_and_options(rest)
        network, further = name_and_options(network)
        if not method or not all(options) or (len(method) < len(rest) and "=" not in rest):
            raise RametError(f"'{text}' is not METHOD,KEY=VALUE. Example: feddense,width=16.")
        options |= further
        share = options.pop(_SHARE, None)
        return MethodSpec(
            method,
            options,
            network or None,
            None if share is None else tuple(share.split()),
            release or None,
            merge or None,
            activation or None,
        )

    def __str__(self) -> str:
        pairs = [f"{key}={value}" for key, value in self.options.items()]
        text = ",".join([self.method, *pairs])
        text += _NETWORK + self.network if self.network else ""
        text += f",{_SHARE}={' '.join(self.share)}" if self.share is not None else ""
        text += _RELEASE + self.release if self.release else ""
        text += _MERGE + self.merge if self.merge else ""
        return text + (_ACTIVATION + self.activation if self.activation else "")

    @property
    def code(self) -> tuple[str | None, ...]:
        """The parts that may be user-defined."""
        return self.method, self.network, self.release, self.merge, self.activation

    def with_option(self, key: str, value: object) -> MethodSpec:
        return replace(self, options={**self.options, key: str(value)})

    def seen_from_here(self) -> MethodSpec:
        """The same spec with user-defined files as seen from the current folder.

        Folders outside of it are machine-specific, and left out.
        """
        return replace(
            self,
            method=relative_file(self.method),
            network=relative_file(self.network) if self.network else None,
            release=relative_file(self.release) if self.release else None,
            merge=relative_file(self.merge) if self.merge else None,
            activation=relative_file(self.activation) if self.activation else None,
        )
