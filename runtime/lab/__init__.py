"""The laboratory: what a cache of any size finds in a workload, and what the best one could.

Nothing here runs the cache, the scheduler or a clock; tests hold the figures to the real cache.
"""

from runtime.lab.bounds import Bounds, admission_order, bounds, run_bounds
from runtime.lab.curve import CapacityCurve, kv_gib, lru_curve
from runtime.lab.optimum import any_order_tokens, optimal_hits, optimum_tokens
from runtime.lab.pages import PageTrace, TraceBuilder, page_trace

__all__ = [
    "Bounds",
    "CapacityCurve",
    "PageTrace",
    "TraceBuilder",
    "admission_order",
    "any_order_tokens",
    "bounds",
    "kv_gib",
    "lru_curve",
    "optimal_hits",
    "optimum_tokens",
    "page_trace",
    "run_bounds",
]
