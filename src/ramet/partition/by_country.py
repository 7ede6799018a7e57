"""Clients that hold the social networks of different countries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import PositiveInt

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.own.schema import TaskName
from ramet.data.sources.node_graphs import read_arrays, read_nodes
from ramet.data.splits import node_split
from ramet.partition.base import Reading, Setting

Features = Literal["embeddings", "words"]
_FILES = {
    "de": "twitch_de",
    "en": "twitch_engb",
    "es": "twitch_es",
    "fr": "twitch_fr",
    "pt": "twitch_ptbr",
    "ru": "twitch_ru",
    "zh": "twitch_zhtw",
}
_ONLY_WORDS = ("zh",)
"""Countries that PyG's loader lacks."""


@dataclass(frozen=True)
class TwitchSetting(Setting):
    """Streamers on Twitch and their friendships, one network per country.

    All clients have the same features and the same question, whether a streamer's content is
    mature. There are no links between countries.
    """

    features: Features
    width: int
    about: str = "streamers on Twitch by country"
    rounds: int = 100
    task: ClassVar[TaskName] = "node-classification"
    metric: str | None = "roc-auc"

    @property
    def clients(self) -> tuple[str, ...]:
        left_out = _ONLY_WORDS if self.features == "embeddings" else ()
        return tuple(name for name in _FILES if name not in left_out)

    @property
    def source_of(self) -> dict[str, str]:
        return {client: f"Twitch:{client.upper()}" for client in self.clients}

    def client_data(self, client: str, reading: Reading) -> ClientData[NodeGraph, Split]:
        graph = self._graph(client, reading)
        return ClientData(graph, node_split(graph.labels, reading.split_seed))

    def _graph(self, client: str, reading: Reading) -> NodeGraph:
        if self.features == "embeddings":
            return read_nodes(reading.data, "Twitch", client.upper())
        return read_arrays(reading.data, _FILES[client], self.width)


def twitch(features: Features = "embeddings", width: PositiveInt = 128) -> TwitchSetting:
    """``features``: PyG's embeddings of six countries, or the words of seven in `nodes/*.npz`.

    ``width``: number of random projections of the 3,170 words.
    """
    return TwitchSetting(features, width)
