"""The rounds of a run, independent of how messages are carried."""

from ramet.engine.audit import AuditLog
from ramet.engine.check import fault
from ramet.engine.checkpoint import DamagedError, Snapshot, Snapshots
from ramet.engine.local import LocalWire
from ramet.engine.node import Node, NotSharedError
from ramet.engine.rounds import Answer, Observer, Refused, Rounds, ServerEvaluation, Wire
from ramet.engine.start import start_shared

__all__ = [
    "Answer",
    "AuditLog",
    "DamagedError",
    "LocalWire",
    "Node",
    "NotSharedError",
    "Observer",
    "Refused",
    "Rounds",
    "ServerEvaluation",
    "Snapshot",
    "Snapshots",
    "Wire",
    "fault",
    "start_shared",
]
