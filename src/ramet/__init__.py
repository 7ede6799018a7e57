"""Ramet: federated learning on graphs.

Each site keeps its data and its private encoder, and shares the rest. What can be imported from
here is stable: what a run, a method, a network or a task needs. All else may change.
"""

from typing import TYPE_CHECKING, Any

from ramet.version import __version__

if TYPE_CHECKING:  # read by type checkers, and by `__getattr__`
    from ramet.data import (
        Batch,
        ClientData,
        EdgeGraph,
        GraphBlock,
        HeteroGraph,
        LabelledEdges,
        NodeGraph,
        Split,
    )
    from ramet.errors import RametError, RametWarning
    from ramet.methods import *  # noqa: F403 - the factories of methods
    from ramet.methods import METHODS
    from ramet.methods.fedda import Explore, Restart
    from ramet.methods.fedopt import AdaptiveStep
    from ramet.methods.fedprox import Proximal
    from ramet.methods.gcfl import ClusteredMean
    from ramet.methods.moon import Contrast
    from ramet.metrics.metric import Metric
    from ramet.models.networks import embedding_size
    from ramet.models.pyg import PyGNodeNetwork
    from ramet.models.shape import EdgeShape, GraphShape, LinkShape, NodeShape
    from ramet.partition import SETTINGS, Reading, Setting
    from ramet.partition.pyg_objects import from_pyg
    from ramet.payload import Array, Arrays, Payload, Sharing, everything, nothing, only, under
    from ramet.prediction.explanation import Explanation
    from ramet.randomness import Randomness
    from ramet.rules.activation import (
        Activation,
        Asked,
        Everyone,
        RandomClients,
        RandomTensors,
        ReplyScores,
        WithoutMemory,
    )
    from ramet.rules.eight_bit import EightBit
    from ramet.rules.extras import Extras, Stage
    from ramet.rules.fixed_point import FixedPoint
    from ramet.rules.merging import NEW_CLIENT, Merging, Reply, Summing, WeightedMean, weighted_mean
    from ramet.rules.method import AssembledMethod, Method, assembled
    from ramet.rules.pace import FirstReplies
    from ramet.rules.personal_means import PersonalMeans
    from ramet.rules.release import Exit, Release
    from ramet.rules.robust import ClippedMean, Krum, Median, TrimmedMean
    from ramet.rules.server import Server
    from ramet.rules.sharing import BaseLayers, SameSize
    from ramet.runs import Result, resume, run
    from ramet.scale import Scale
    from ramet.studies.archive import results
    from ramet.studies.tune import Tuned, tune
    from ramet.tasks import (
        Classes,
        EdgeClassification,
        GraphClassification,
        GraphMultilabel,
        GraphRegression,
        GraphSamples,
        LinkPrediction,
        NodeClassification,
        NodeMultilabel,
        NodeRegression,
        NodeSamples,
        Numbers,
        Samples,
        Scores,
        SeveralLabels,
        StructureEncoding,
        Target,
        TargetTask,
        Task,
    )
    from ramet.training.local import After, LocalTraining, Penalty, Session, Term, Training
else:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a name on first use, so that `import ramet` and `ramet --help` are fast."""
        from importlib import import_module

        from ramet.source_names import imported_names

        modules = {} if name.startswith("_") else imported_names("__init__.py")
        if name not in modules:
            raise AttributeError(f"module 'ramet' has no attribute '{name}'")
        value = globals()[name] = getattr(import_module(modules[name]), name)
        return value


__all__ = [
    "METHODS",
    "NEW_CLIENT",
    "SETTINGS",
    "Activation",
    "AdaptiveStep",
    "After",
    "Array",
    "Arrays",
    "Asked",
    "AssembledMethod",
    "BaseLayers",
    "Batch",
    "Classes",
    "ClientData",
    "ClippedMean",
    "ClusteredMean",
    "Contrast",
    "EdgeClassification",
    "EdgeGraph",
    "EdgeShape",
    "EightBit",
    "Everyone",
    "Exit",
    "Explanation",
    "Explore",
    "Extras",
    "FirstReplies",
    "FixedPoint",
    "GraphBlock",
    "GraphClassification",
    "GraphMultilabel",
    "GraphRegression",
    "GraphSamples",
    "GraphShape",
    "HeteroGraph",
    "Krum",
    "LabelledEdges",
    "LinkPrediction",
    "LinkShape",
    "LocalTraining",
    "Median",
    "Merging",
    "Method",
    "Metric",
    "NodeClassification",
    "NodeGraph",
    "NodeMultilabel",
    "NodeRegression",
    "NodeSamples",
    "NodeShape",
    "Numbers",
    "Payload",
    "Penalty",
    "PersonalMeans",
    "Proximal",
    "PyGNodeNetwork",
    "RametError",
    "RametWarning",
    "RandomClients",
    "RandomTensors",
    "Randomness",
    "Reading",
    "Release",
    "Reply",
    "ReplyScores",
    "Restart",
    "Result",
    "SameSize",
    "Samples",
    "Scale",
    "Scores",
    "Server",
    "Session",
    "Setting",
    "SeveralLabels",
    "Sharing",
    "Split",
    "Stage",
    "StructureEncoding",
    "Summing",
    "Target",
    "TargetTask",
    "Task",
    "Term",
    "Training",
    "TrimmedMean",
    "Tuned",
    "WeightedMean",
    "WithoutMemory",
    "__version__",
    "assembled",
    "embedding_size",
    "everything",
    "from_pyg",
    "nothing",
    "only",
    "results",
    "resume",
    "run",
    "tune",
    "under",
    "weighted_mean",
]


def __dir__() -> list[str]:
    """All names that :func:`__getattr__` provides, without importing them."""
    from ramet.source_names import imported_names

    return sorted({*globals(), *imported_names("__init__.py")})
