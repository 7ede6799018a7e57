"""Predictions of a finished run's models for new data.

=====================  ===========================================================================
``Trained.open``       a finished run, from its folder or from a site's own folder
``Source``             where new data is: a whole graph, or rows that continue an earlier one
``read_input``         a site's new data as a model's input, with ids and warnings
``client_input``       the data that a client was trained on, as a model's input
``outputs``            of a network, for all nodes or graphs of an input
``candidates``         the likeliest links of each node, for one relation
``predicted``          a table of either, with ids
``beside_test``        scores on new data whose classes are known, beside those of the test
``against``            the same for two models on rows that neither has seen
``evaluations``        all metrics of a client's model on what was held out
``decide``             a threshold and a temperature for clients' models, which ``predicted`` uses
=====================  ===========================================================================
"""

from ramet.prediction.against import Against, against
from ramet.prediction.beside import BesideTest, beside_test
from ramet.prediction.decision import Decision, Wanted, decide
from ramet.prediction.frames import Links, Prediction, predicted
from ramet.prediction.held_out import evaluations
from ramet.prediction.inputs import Input, client_input, read_input
from ramet.prediction.scores import Candidates, candidates, outputs
from ramet.prediction.source import TRAINING, Source
from ramet.prediction.trained import Trained

__all__ = [
    "TRAINING",
    "Against",
    "BesideTest",
    "Candidates",
    "Decision",
    "Input",
    "Links",
    "Prediction",
    "Source",
    "Trained",
    "Wanted",
    "against",
    "beside_test",
    "candidates",
    "client_input",
    "decide",
    "evaluations",
    "outputs",
    "predicted",
    "read_input",
]
