"""The simulator: the real scheduler and cache, and an executor that reckons or a machine that is measured."""

from runtime.simulation.arrivals import ClosedLoop, OpenLoop, Pace
from runtime.simulation.description import versions
from runtime.simulation.experiment import (
    Experiment,
    OnProgress,
    Setup,
    describe,
    notes_of,
    pool_of,
    run_experiment,
)
from runtime.simulation.measurement import Machine, Measurement, run_measurement
from runtime.simulation.simulator import Simulation

__all__ = [
    "ClosedLoop",
    "Experiment",
    "Machine",
    "Measurement",
    "OnProgress",
    "OpenLoop",
    "Pace",
    "Setup",
    "Simulation",
    "describe",
    "notes_of",
    "pool_of",
    "run_experiment",
    "run_measurement",
    "versions",
]
