"""Workloads: the data model, seeded generators, and loaders of recorded traces.

It must not know schedulers or caches; a workload only says who asks for what, and when.
"""

from runtime.workload.arrivals import ArrivalProcess, Bursty, Constant, Poisson
from runtime.workload.generators import GENERATORS, Generator, find_generator
from runtime.workload.model import (
    FRESH_TOKEN_BASE,
    Blocks,
    Literal,
    OutputOf,
    Segment,
    Session,
    Spans,
    Turn,
    Workload,
    prompt_of,
)
from runtime.workload.traces import TRACE_FORMATS, TraceOptions, load_trace

__all__ = [
    "FRESH_TOKEN_BASE",
    "GENERATORS",
    "TRACE_FORMATS",
    "ArrivalProcess",
    "Blocks",
    "Bursty",
    "Constant",
    "Generator",
    "Literal",
    "OutputOf",
    "Poisson",
    "Segment",
    "Session",
    "Spans",
    "TraceOptions",
    "Turn",
    "Workload",
    "find_generator",
    "load_trace",
    "prompt_of",
]
