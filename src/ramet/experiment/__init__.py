"""A single run: its settings, its components and its folder."""

from ramet.experiment.checks import checked_experiment, checked_settings
from ramet.experiment.experiment import Experiment
from ramet.experiment.files import make_folder, output_folder
from ramet.experiment.method_spec import MethodSpec
from ramet.experiment.run_folder import RunFolder
from ramet.experiment.settings import RunSettings, default_data
from ramet.experiment.start_from import create_from
from ramet.run_options import SPLIT_SEED

__all__ = [
    "SPLIT_SEED",
    "Experiment",
    "MethodSpec",
    "RunFolder",
    "RunSettings",
    "checked_experiment",
    "checked_settings",
    "create_from",
    "default_data",
    "make_folder",
    "output_folder",
]
