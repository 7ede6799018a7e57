"""Predictions of a finished run's models for new data.

=====================  ===========================================================================
``Trained.open``       a finished run, from its folder or from a site's own folder
``read_input``         a site's TOML file as a model's input, with ids and warnings
``client_input``       the data that a client was trained on, as a model's input
``outputs``            of a network, for all nodes or graphs of an input
``candidates``         the likeliest links of each node, for one relation
``predicted``          a table of either, with ids
``decide``             a threshold and a temperature for clients' models, which ``predicted`` uses
=====================  ===========================================================================
"""

from ramet.prediction.decision import Decision, Wanted, decide
from ramet.prediction.frames import Links, Prediction, predicted
from ramet.prediction.inputs import Input, client_input, read_input
from ramet.prediction.scores import Candidates, candidates, outputs
from ramet.prediction.trained import Trained

__all__ = [
    "Candidates",
    "Decision",
    "Input",
    "Links",
    "Prediction",
    "Trained",
    "Wanted",
    "candidates",
    "client_input",
    "decide",
    "outputs",
    "predicted",
    "read_input",
]
