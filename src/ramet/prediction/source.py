"""Where the data is that a model is used for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ramet.data.own.new_data import new_data_name, toml_of
from ramet.errors import RametError
from ramet.prediction.inputs import Input, client_input, read_input
from ramet.prediction.trained import Trained


@dataclass(frozen=True)
class Source:
    """A whole graph, new rows that continue an earlier graph, or by default the data of training.

    ``site``: the TOML file of a whole graph. ``new``: a folder with tables of new rows, or their
    TOML file. ``context``: the TOML file of what they continue; default: the client's data of
    training.
    """

    site: Path | None = None
    new: Path | None = None
    context: Path | None = None

    def __post_init__(self) -> None:
        if self.site is not None and self.new is not None:
            raise RametError(
                "--site names a whole graph, and --new rows that continue an earlier one. Leave "
                "out one of them."
            )
        if self.context is not None and self.new is None:
            raise RametError("a context needs new rows. Name their folder with --new.")
        if self.new is not None and not self.new.exists():
            raise RametError(f"there is no {self.new}. Name the folder with the new tables.")

    @staticmethod
    def of(
        site: Path | str | None, new: Path | str | None, context: Path | str | None = None
    ) -> Source:
        return Source(*(None if one is None else Path(one) for one in (site, new, context)))

    @property
    def path(self) -> Path | None:
        """What was given; None for the data of training."""
        return self.site or self.new

    def client_in(self, trained: Trained, given: str | None) -> str:
        """The client whose model is used: the given one, or the one with the site's name."""
        tomls = (self.site, None if self.new is None else toml_of(self.new), self.context)
        named = next((one for one in tomls if one is not None), None)
        return trained.client_of(None if named is None else new_data_name(named), given)

    def context_in(self, trained: Trained, client: str) -> Path | None:
        """The TOML file of what new rows continue."""
        return self.context or (None if self.new is None else trained.data_of(client))

    def input(self, trained: Trained, client: str) -> Input:
        """The data as a client's model takes it."""
        if self.path is None:
            return client_input(trained, client)
        return read_input(trained, client, self.path, self.context_in(trained, client))


TRAINING = Source()
"""The data of training."""
