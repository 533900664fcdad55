"""How good a hit rate is: beside it, what was possible."""

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.lab.optimum import optimum_tokens
from runtime.lab.pages import Order, PageTrace, page_trace
from runtime.result import RequestRecord
from runtime.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a cache could have found.

    Attributes:
        capacity_tokens: Its capacity.
        prompt_tokens: Tokens of all prompts.
        ceiling_tokens: Tokens that a cache without limit finds in this order.
        optimum_tokens: Tokens that clairvoyant eviction finds at this capacity in this order, with requests
            served one after the other.
        num_requests: Requests reckoned with.
        num_left_out: Requests that do not fit by themselves and were left out.
    """

    capacity_tokens: int
    prompt_tokens: int
    ceiling_tokens: int
    optimum_tokens: int
    num_requests: int
    num_left_out: int

    @property
    def ceiling_rate(self) -> float:
        """Hit rate without limit; 0 without prompts."""
        return self.ceiling_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def optimum_rate(self) -> float:
        """Hit rate of clairvoyant eviction; 0 without prompts."""
        return self.optimum_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def of_ceiling(self, hit_tokens: int) -> float | None:
        """Hits / ceiling; `None` where nothing could be found."""
        return hit_tokens / self.ceiling_tokens if self.ceiling_tokens else None

    def of_optimum(self, hit_tokens: int) -> float | None:
        """Hits / optimum; `None` where nothing could be found."""
        return hit_tokens / self.optimum_tokens if self.optimum_tokens else None


def bounds(trace: PageTrace, capacity_tokens: int) -> Bounds:
    """What was possible on a trace.

    Raises:
        InvalidArgument: The capacity is less than the longest request needs.

    Complexity:
        See `optimal_hits`.
    """
    return Bounds(
        capacity_tokens=capacity_tokens,
        prompt_tokens=int(trace.prompt_tokens.sum()),
        ceiling_tokens=trace.ceiling_pages * trace.page_size,
        optimum_tokens=optimum_tokens(trace, capacity_tokens),
        num_requests=len(trace),
        num_left_out=trace.num_left_out,
    )


def run_bounds(
    workload: Workload, *, page_size: int, capacity_tokens: int, order: Order | None = None
) -> Bounds:
    """What was possible in a run.

    Give the order of first admissions, so that the figures speak of eviction alone; outputs occupy the cache
    as they do in the run. The run holds pages of many requests at once, which is not reckoned
    here: the optimum is what it could have found had it served them one after the other.

    Args:
        workload: What was served.
        page_size: Tokens a page.
        capacity_tokens: Size of the pool.
        order: Session and turn of each admitted request; by default the nominal order of all.

    Raises:
        InvalidConfig, WorkloadError: See `page_trace`.

    Complexity:
        See `page_trace` and `optimal_hits`.
    """
    trace = page_trace(workload, page_size=page_size, order=order, max_pages=capacity_tokens // page_size)
    return bounds(trace, capacity_tokens)


def admission_order(records: Iterable[RequestRecord]) -> list[tuple[str, int]]:
    """Session and turn of each request that was admitted, by first admission.

    Requests that were admitted in one step keep the order of the records, as these do not say more.

    Complexity:
        O(n log n).
    """
    admitted = [
        (record.first_scheduled_s, place, record)
        for place, record in enumerate(records)
        if record.first_scheduled_s is not None
    ]
    return [
        (record.session_id, record.turn) for _, _, record in sorted(admitted, key=lambda entry: entry[:2])
    ]
