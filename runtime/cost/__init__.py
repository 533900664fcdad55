"""What a step costs: on a real GPU by its data sheet, as a roofline, or on any machine as it was measured.

It must not know requests, schedulers or caches: it is told how many tokens are computed and read.
"""

from runtime.cost.cost_model import CostModel
from runtime.cost.fitted import FittedCost, fit_nonnegative
from runtime.cost.gpus import GPUS, Gpu, find_gpu
from runtime.cost.load import StepLoad
from runtime.cost.models import MODELS, find_model
from runtime.cost.shape import ModelShape
from runtime.cost.step_cost import StepCost

__all__ = [
    "GPUS",
    "MODELS",
    "CostModel",
    "FittedCost",
    "Gpu",
    "ModelShape",
    "StepCost",
    "StepLoad",
    "find_gpu",
    "find_model",
    "fit_nonnegative",
]
