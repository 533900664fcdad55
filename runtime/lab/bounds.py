"""How good a hit rate is: beside it, what was possible."""

from collections.abc import Container, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from radixcache.errors import InvalidArgument
from runtime.lab.optimum import optimal_hits
from runtime.lab.pages import Order, PageTrace, page_trace
from runtime.result import Bounds, RequestRecord
from runtime.workload import Workload


def bounds(trace: PageTrace, capacity_tokens: int, counted: npt.NDArray[np.bool_] | None = None) -> Bounds:
    """What was possible on a trace.

    Args:
        trace: The requests.
        capacity_tokens: Size of the cache.
        counted: Which requests to count, `[num_requests]`; the others only fill the cache. `None`: all.

    Raises:
        InvalidArgument: The capacity is less than the longest request needs, or `counted` is of another
            length than the trace.

    Complexity:
        See `optimal_hits`.
    """
    if counted is None:
        counted = np.ones(len(trace), dtype=np.bool_)
    if len(counted) != len(trace):
        raise InvalidArgument(f"counted has {len(counted)} entries, the trace {len(trace)} requests")
    ceiling = np.minimum(trace.known_pages, trace.match_pages)
    return Bounds(
        capacity_tokens=capacity_tokens,
        prompt_tokens=int(trace.prompt_tokens[counted].sum()),
        ceiling_tokens=int(ceiling[counted].sum()) * trace.page_size,
        optimum_tokens=int(optimal_hits(trace, capacity_tokens)[counted].sum()) * trace.page_size,
        num_requests=int(counted.sum()),
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


def counted_bounds(
    workload: Workload,
    *,
    page_size: int,
    capacity_tokens: int,
    order: Sequence[tuple[str, int]],
    counted: Container[tuple[str, int]],
) -> Bounds:
    """What was possible for some of the requests of a run, with the others filling the cache.

    Args:
        workload: What was served.
        page_size: Tokens a page.
        capacity_tokens: Size of the pool.
        order: Session and turn of each admitted request, by first admission; each of them fits.
        counted: Those to count, such as all after a warm-up.

    Raises:
        InvalidArgument, InvalidConfig, WorkloadError: See `bounds` and `page_trace`.

    Complexity:
        See `page_trace` and `optimal_hits`.
    """
    trace = page_trace(workload, page_size=page_size, order=order)
    return bounds(trace, capacity_tokens, np.array([turn in counted for turn in order], dtype=np.bool_))


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
