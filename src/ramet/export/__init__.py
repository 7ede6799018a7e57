"""Hand a model over: a folder with weights, code, programs and a model card, without Ramet."""

from ramet.export.handover import Exported, export

__all__ = ["Exported", "export"]
