"""The laboratory: what a cache of any size finds in a workload, and what the best one could.

Nothing exported here runs the cache, the scheduler or a clock; tests hold the figures to the real cache.
`planner` and `comparison` are asked for by name: they run many simulations, which in turn ask for `bounds`.
"""

from runtime.lab.bounds import admission_order, bounds, counted_bounds, run_bounds
from runtime.lab.curve import CapacityCurve, kv_gib, lru_curve
from runtime.lab.optimum import any_order_tokens, optimal_hits, optimum_tokens
from runtime.lab.pages import PageTrace, TraceBuilder, page_trace
from runtime.result import Bounds

__all__ = [
    "Bounds",
    "CapacityCurve",
    "PageTrace",
    "TraceBuilder",
    "admission_order",
    "any_order_tokens",
    "bounds",
    "counted_bounds",
    "kv_gib",
    "lru_curve",
    "optimal_hits",
    "optimum_tokens",
    "page_trace",
    "run_bounds",
]
