"""An engine that runs real transformers on the prefix cache. Needs torch."""

from runtime.engine.assembly import EngineConfig, load_engine, make_engine, make_executor
from runtime.engine.completion import Chunk, Completion, FinishReason
from runtime.engine.engine import Engine
from runtime.engine.errors import PromptError, SamplingError
from runtime.engine.executor import TorchExecutor
from runtime.engine.machine import TorchMachine
from runtime.engine.sampling import Sampler, SamplingParams

__all__ = [
    "Chunk",
    "Completion",
    "Engine",
    "EngineConfig",
    "FinishReason",
    "PromptError",
    "Sampler",
    "SamplingError",
    "SamplingParams",
    "TorchExecutor",
    "TorchMachine",
    "load_engine",
    "make_engine",
    "make_executor",
]
