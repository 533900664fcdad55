"""A conformance suite that an embedder runs against an engine's own use of the cache.

The engine runs with a cache and a model of the suite's making. The model is exact integer arithmetic over
what really stands in the pages, so a stale page table, a copy that was not run, a page written while others
read it, or a page given back too early changes an output token, and the suite names the scenario.
"""

from radixcache.conformance.model import ConformanceFailure, ToyModel
from radixcache.conformance.scenarios import SCENARIOS
from radixcache.conformance.suite import Report, run_conformance
from radixcache.conformance.trial import Engine, MakeEngine

__all__ = [
    "SCENARIOS",
    "ConformanceFailure",
    "Engine",
    "MakeEngine",
    "Report",
    "ToyModel",
    "run_conformance",
]
