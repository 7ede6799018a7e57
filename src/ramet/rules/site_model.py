"""The network that a site evaluates and keeps: the merged one, or the one it has trained itself.

The papers of some methods evaluate clients right after their local training, before the merge, so
that every client has a network of its own. What is sent and merged is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Literal, TypeAlias

from torch import Tensor, nn

from ramet.rules.method import Method
from ramet.training.local import Session

SiteModel: TypeAlias = Literal["merged", "trained"]
_TRAINED = "trained/"


def with_site_model(method: Method, site_model: SiteModel) -> Method:
    """The method, whose clients evaluate and keep this network."""
    if site_model == "merged":
        return method

    def after(session: Session) -> None:
        if method.after is not None:
            method.after(session)
        state = session.model.state_dict()
        session.memory.update({_TRAINED + name: value for name, value in state.items()})

    return replace(method, after=after, personal=trained_network)


def trained_network(model: nn.Module, memory: Mapping[str, Tensor]) -> nn.Module:
    """The network as it was after the client's last training; before any, the common one."""
    trained = {
        name.removeprefix(_TRAINED): value
        for name, value in memory.items()
        if name.startswith(_TRAINED)
    }
    own = deepcopy(model)
    own.load_state_dict(trained or model.state_dict())
    return own
