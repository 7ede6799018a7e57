"""Documents about a run for review boards, in which every sentence cites the file that shows it."""

from ramet.dossier.evidence import Dossier, Evidence, Missing, Sentence, Table
from ramet.dossier.purposes import PURPOSES, dossier

__all__ = ["PURPOSES", "Dossier", "Evidence", "Missing", "Sentence", "Table", "dossier"]
