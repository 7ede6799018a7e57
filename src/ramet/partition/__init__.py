"""Who owns what."""

from ramet.partition.cuts import AtRandom, ByLabel, BySize, Cut
from ramet.partition.own_settings import OwnSetting, absolute_sites
from ramet.partition.reading import Reading
from ramet.partition.settings import SETTINGS, Setting

__all__ = [
    "SETTINGS",
    "AtRandom",
    "ByLabel",
    "BySize",
    "Cut",
    "OwnSetting",
    "Reading",
    "Setting",
    "absolute_sites",
]
