"""Running every scenario at every page size."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from radixcache.conformance.model import ConformanceFailure
from radixcache.conformance.scenarios import SCENARIOS
from radixcache.conformance.trial import MakeEngine, Scenario


@dataclass(frozen=True, slots=True)
class Report:
    """Names of scenarios (with page size): that passed, and that need a verb the engine does not have."""

    passed: tuple[str, ...]
    skipped: tuple[str, ...]


def run_conformance(
    make_engine: MakeEngine,
    scenarios: Mapping[str, Scenario] = SCENARIOS,
    page_sizes: Iterable[int] = (1, 4, 16),
) -> Report:
    """Run every scenario at every page size.

    Args:
        make_engine: Makes a fresh engine over a cache and a model.
        scenarios: What to run; by default everything.
        page_sizes: Page sizes to run with.

    Raises:
        ConformanceFailure: Names the scenario, the page size and what was wrong.
    """
    passed, skipped = [], []
    for name, scenario in scenarios.items():
        for page_size in page_sizes:
            where = f"{name}, page size {page_size}"
            try:
                scenario(make_engine, page_size)
            except NotImplementedError:
                skipped.append(where)
            except Exception as error:
                raise ConformanceFailure(f"{where}: {type(error).__name__}: {error}") from error
            else:
                passed.append(where)
    return Report(tuple(passed), tuple(skipped))
