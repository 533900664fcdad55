"""What a workload is like: sizes, pace, and what a cache could find in it. No cache, no scheduler runs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from radixcache.errors import InvalidArgument
from radixcache.namespace import namespace_key
from runtime.document import study_document
from runtime.lab.curve import CapacityCurve, lru_curve
from runtime.lab.order import nominal_order
from runtime.lab.pages import PageTrace, page_trace
from runtime.workload import OutputOf, Session, Workload

QUANTILES: Final = (0.5, 0.9, 0.99)
CAPACITY_SHARES: Final = (0.5, 0.9, 0.99)
DEFAULT_PAGE_SIZE: Final = 16

_SCHEMA: Final = "radixcache.trace"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How values are distributed; nearest-rank percentiles.

    Attributes:
        total: Their sum.
        mean: Their mean.
        p50: Median.
        p90: 90th percentile.
        p99: 99th percentile.
        largest: Largest.
    """

    total: float
    mean: float
    p50: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityShare:
    """How large an LRU cache has to be for a share of what a cache without limit finds.

    Attributes:
        share: The share.
        capacity_tokens: Tokens that it holds.
    """

    share: float
    capacity_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """A workload in figures. Answers take no time here: of the times, only starts and pauses count.

    Attributes:
        name: Name of the workload.
        notes: What a reader should know.
        block_size: Tokens a block, where prompts come from blocks.
        page_size: Tokens a page, in the figures of reuse.
        num_requests: Requests.
        num_sessions: Sessions.
        num_tenants: Different tenants.
        num_namespaces: Different namespaces.
        num_waiting: Requests that wait for another one's answer.
        num_contain_output: Requests whose prompt contains what an earlier one generated.
        kinds: Requests of each kind, the most frequent first.
        duration_s: From the first arrival to the last.
        requests_per_s: Requests by that; None if it is 0.
        prompt_tokens: Prompts.
        output_tokens: Outputs.
        turns: Requests of each session.
        think_s: Pauses of requests that wait; None if none does.
        distinct_tokens: Tokens in different pages, of prompts and outputs.
        ideal_hit_rate: What a cache without limit finds, by tokens of all prompts.
        reuse_after_s: Time since a page was used last, over all pages found; None if none is.
        capacity: LRU capacities; empty if nothing can be found.
    """

    name: str
    notes: list[str]
    block_size: int | None
    page_size: int
    num_requests: int
    num_sessions: int
    num_tenants: int
    num_namespaces: int
    num_waiting: int
    num_contain_output: int
    kinds: dict[str, int]
    duration_s: float
    requests_per_s: float | None
    prompt_tokens: Spread
    output_tokens: Spread
    turns: Spread
    think_s: Spread | None
    distinct_tokens: int
    ideal_hit_rate: float
    reuse_after_s: Spread | None
    capacity: list[CapacityShare]

    def to_json(self) -> bytes:
        """The summary as one JSON document."""
        return study_document(_SCHEMA, _SCHEMA_VERSION, self)


def summarise_trace(workload: Workload, page_size: int | None = None) -> TraceSummary:
    """Describe a workload.

    Args:
        workload: The workload; served in nominal order, one request after the other.
        page_size: Tokens a page; by default a block of the workload, or `DEFAULT_PAGE_SIZE`.

    Raises:
        InvalidArgument: The workload has no request.
        InvalidConfig: `page_size` is below 1.

    Complexity:
        See `page_trace` and `lru_curve`.
    """
    if not workload.num_turns:
        raise InvalidArgument(f"workload {workload.name!r} has no request")
    size = workload.block_size or DEFAULT_PAGE_SIZE if page_size is None else page_size
    trace = page_trace(workload, page_size=size)
    curve = lru_curve(trace)
    arrivals = _arrivals(workload)
    duration_s = float(arrivals[-1] - arrivals[0])
    turns = [turn for session in workload.sessions for turn in session.turns]
    pauses = [turn.think_s for turn in turns if turn.after]
    kinds = Counter(turn.kind for turn in turns)
    return TraceSummary(
        name=workload.name,
        notes=list(workload.notes),
        block_size=workload.block_size,
        page_size=size,
        num_requests=len(turns),
        num_sessions=len(workload.sessions),
        num_tenants=len({session.tenant for session in workload.sessions} - {None}),
        num_namespaces=len({namespace_key(turn.namespace) for turn in turns}),
        num_waiting=len(pauses),
        num_contain_output=sum(any(isinstance(part, OutputOf) for part in turn.segments) for turn in turns),
        kinds=dict(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))),
        duration_s=duration_s,
        requests_per_s=len(turns) / duration_s if duration_s else None,
        prompt_tokens=_spread(trace.prompt_tokens),
        output_tokens=_spread(turn.output_len for turn in turns),
        turns=_spread(len(session.turns) for session in workload.sessions),
        think_s=_spread(pauses) if pauses else None,
        distinct_tokens=trace.num_distinct * size,
        ideal_hit_rate=curve.ceiling_rate,
        reuse_after_s=_reuse_after(trace, arrivals),
        capacity=_capacities(curve),
    )


def _arrivals(workload: Workload) -> npt.NDArray[np.float64]:
    """When each request arrives, in nominal order, seconds."""
    finished: dict[str, dict[int, float]] = {}

    def arrival(session: Session, number: int) -> float:
        turn, times = session.turns[number], finished.setdefault(session.session_id, {})
        start = max((times[earlier] for earlier in turn.after), default=session.start_s)
        times[number] = start + turn.think_s
        return times[number]

    return np.array([arrival(*turn) for turn in nominal_order(workload)])


def _reuse_after(trace: PageTrace, arrivals: npt.NDArray[np.float64]) -> Spread | None:
    """Time since the last use, each page that is found counted once."""
    pages = np.minimum(trace.stop, trace.match_pages[trace.request]) - trace.start
    found = pages > 0
    if not found.any():
        return None
    return _spread((arrivals[trace.request] - arrivals[trace.previous])[found], pages[found])


def _capacities(curve: CapacityCurve) -> list[CapacityShare]:
    if not curve.ceiling_pages:
        return []
    return [
        CapacityShare(share=share, capacity_tokens=curve.capacity_for(share)) for share in CAPACITY_SHARES
    ]


def _spread(values: Iterable[float] | npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> Spread:
    given = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    order = np.argsort(given, kind="stable")
    counts = np.ones(len(given), dtype=np.int64) if weights is None else weights
    reached = np.cumsum(counts[order])
    ranks = np.ceil(np.array(QUANTILES) * reached[-1]).astype(np.int64)
    p50, p90, p99 = given[order][np.searchsorted(reached, ranks)].tolist()
    total = (given * counts).sum().item()
    return Spread(
        total=total,
        mean=total / int(reached[-1]),
        p50=p50,
        p90=p90,
        p99=p99,
        largest=given[order[-1]].item(),
    )
