"""New data whose classes are known by now, and which of its rows a model has seen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.new_data import read_new_data
from ramet.data.own.site import Site
from ramet.data.own.tables import NO_PART
from ramet.data.splits import PARTS
from ramet.errors import RametError
from ramet.experiment.site_record import load_parts
from ramet.prediction.source import Source
from ramet.prediction.trained import Trained

_TEST = PARTS.index("test")


def late_site(trained: Trained, client: str, source: Source, context: Path | None) -> Site:
    """The new data as a client's model takes it, with all that can be scored in the test."""
    assert source.path is not None
    schema = trained.schema(client)
    if schema.task == "link-prediction" and context is None:
        raise RametError(
            "new links are scored by the graph that they continue. Name their folder with --new."
        )
    return read_new_data(source.path, schema, trained.preparation, context, purpose="scoring")


def seen(trained: Trained, client: str, site: Site, parts: Collection[str]) -> Tensor:  # [samples]
    """Which samples were in these parts of the split of the client's model, or one before it."""
    known = load_parts(trained.states / client) or KeptParts()
    wanted = torch.tensor([PARTS.index(part) for part in parts])
    return torch.isin(known.parts_in(site), wanted)


def without(site: Site, left_out: Tensor, text: str, source: Source) -> tuple[Site, list[str]]:
    """The samples that are left to score, and in words how many are left out."""
    assert site.parts is not None
    is_left_out = (site.parts == _TEST) & left_out
    parts = torch.where(is_left_out, NO_PART, site.parts)
    notes = [*site.remarks, *([f"{is_left_out.sum():,} rows {text}"] if is_left_out.any() else [])]
    if not (parts == _TEST).any():
        raise RametError(
            f"{source.path} has no row to score: {'; '.join(notes) or 'none has a class'}. Fill in "
            "the column with the classes or numbers."
        )
    return replace(site, parts=parts), notes


def name_of(source: Source) -> str:
    """What the new data is called in texts."""
    assert source.path is not None
    path = source.path
    name = path.parent.name if path.is_file() and path.name == "site.toml" else path.stem
    return name or "the new data"
