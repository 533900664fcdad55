"""The simulator: the real scheduler and the real cache, with an executor and a clock that only reckon."""

from runtime.simulation.arrivals import ClosedLoop, OpenLoop, Pace
from runtime.simulation.experiment import Experiment, Setup, describe, notes_of, run_experiment, versions
from runtime.simulation.simulator import Simulation

__all__ = [
    "ClosedLoop",
    "Experiment",
    "OpenLoop",
    "Pace",
    "Setup",
    "Simulation",
    "describe",
    "notes_of",
    "run_experiment",
    "versions",
]
