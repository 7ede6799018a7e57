"""A run that gives nothing away, whatever is attacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from ramet.experiment.run_models import start_model_of
from ramet.leak.attacked import Attacked
from ramet.leak.capture import Seen
from ramet.leak.control import Leaking, as_it_is
from ramet.leak.findings import View
from ramet.payload import Arrays


class Silent(Attacked):
    """A run whose networks never learn anything, and whose replies are what was sent."""

    def first(
        self, samples: Mapping[str, Any] | None = None, prepared: Arrays | None = None
    ) -> Seen:
        seen = Leaking(self, as_it_is).first(samples, prepared)
        return Seen(seen.training, seen.sent, seen.sent)

    def networks(self, view: View) -> list[dict[str, nn.Module]]:
        return [self.trained(self.sites, 0)]

    def trained(
        self,
        samples: Mapping[str, Any],
        number: int,
    ) -> dict[str, nn.Module]:
        return {client: start_model_of(self.experiment, client) for client in samples}
