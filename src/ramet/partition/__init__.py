"""Who owns what."""

from ramet.partition.cuts import AtRandom, ByLabel, BySize, Cut
from ramet.partition.reading import Reading
from ramet.partition.settings import SETTINGS, Setting

__all__ = ["SETTINGS", "AtRandom", "ByLabel", "BySize", "Cut", "Reading", "Setting"]
