"""What a simulation leaves behind: records of requests, a timeline, the tree, and their JSON form.

Owns the result classes and the file format `result.json`. Knows nothing of the scheduler, the
cache or the simulator that fills them, and computes no metric.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from runtime.document import InvalidResult as InvalidResult
from runtime.document import Json as Json
from runtime.document import by_key, to_bytes

RequestStatus: TypeAlias = Literal["finished", "refused", "failed", "aborted", "unfinished"]
Times: TypeAlias = Literal["simulated", "measured"]

SCHEMA: Final = "radixcache.simulation"
SCHEMA_VERSION: Final = 1
BASELINE_LABEL: Final = "no cache"
CACHE_LABEL: Final = "radix cache"

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request of one run. All times are seconds since the start of the run.

    Attributes:
        request_id: Name of the request, unique in its run.
        session_id: Session the request belongs to.
        turn: Number of the turn in its session, from 0.
        kind: Class of turn, for reports ("first", "follow-up", ...).
        arrival_s: When the request came.
        first_scheduled_s: When it was part of a plan for the first time; None if never.
        first_token_s: When its first output token was there; None if never.
        finished_s: When its last output token was there; None unless finished.
        prompt_tokens: Length of the prompt.
        matched_tokens: Prompt tokens found in the cache at the first admission.
        copied_tokens: Prompt tokens copied out of a partly matching page at the first admission.
        computed_prompt_tokens: Prompt tokens computed for the first time.
        recomputed_tokens: Tokens computed again after a preemption.
        output_tokens: Tokens generated.
        miss: Prompt tokens neither matched nor copied at the first admission, by miss reason.
            Empty when the request was never admitted.
        preemptions: How often it was thrown back to waiting.
        status: What became of it.
        error: Why it was refused, failed or aborted; None otherwise.
        client: Who it belongs to; None if nobody said.
    """

    request_id: str
    session_id: str
    turn: int
    kind: str
    arrival_s: float
    first_scheduled_s: float | None
    first_token_s: float | None
    finished_s: float | None
    prompt_tokens: int
    matched_tokens: int
    copied_tokens: int
    computed_prompt_tokens: int
    recomputed_tokens: int
    output_tokens: int
    miss: dict[str, int]
    preemptions: int
    status: RequestStatus
    error: str | None = None
    client: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSample:
    """Gauges at one moment of the run's time; the token fields count from the start of the run.

    Attributes:
        time_s: The moment, in seconds. Samples of a run never go back.
        free_pages: Empty pages.
        private_pages: Pages owned by one live sequence.
        evictable_pages: Cached pages that nobody uses.
        locked_pages: Cached pages in use.
        waiting: Requests that wait for admission.
        running: Admitted requests that are not finished.
        matched_tokens: Matched prompt tokens so far, first admissions only.
        prompt_tokens: Prompt tokens so far, first admissions only.
        output_tokens: Output tokens so far.
    """

    time_s: float
    free_pages: int
    private_pages: int
    evictable_pages: int
    locked_pages: int
    waiting: int
    running: int
    matched_tokens: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeBox:
    """A piece of the radix tree, as an icicle draws it.

    Attributes:
        depth_tokens: Tokens between the root and the start of this box.
        num_tokens: Tokens of this box itself, without its children.
        locked: Whether a live sequence uses it.
        children: What continues it.
        label: Short text to show on the box.
    """

    depth_tokens: int
    num_tokens: int
    locked: bool
    children: list["TreeBox"]
    label: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One pass of a workload through the scheduler.

    Attributes:
        label: `CACHE_LABEL`, `BASELINE_LABEL`, or a name of the caller's own.
        requests: One record for each request that arrived, in order of arrival.
        timeline: Samples in order of time.
        counters: Further counts by name, such as "evictions".
        makespan_s: Seconds from the start to the end of the run.
        last_arrival_s: Second of the last arrival.
        offered_load: Arriving work divided by what the device can do; above 1 it cannot keep up.
        backlog_at_last_arrival: Requests waiting or running when the last one arrived.
        tree: Roots of the radix tree at the end of the run, at most a few hundred boxes in all.
        bounds: What was possible for these requests in the order of their first admissions; None where
            it was not reckoned, and without a cache.
    """

    label: str
    requests: list[RequestRecord]
    timeline: list[TimelineSample]
    counters: dict[str, int]
    makespan_s: float
    last_arrival_s: float
    offered_load: float
    backlog_at_last_arrival: int
    tree: list[TreeBox]
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """Everything one `radixcache simulate` found, and all that is needed to repeat it.

    Attributes:
        config: Full configuration; "cost_model" holds the assumptions of the cost model, or "machine" what
            steps were measured on.
        seed: Seed of every random choice.
        versions: Version of each package that had a say, by name.
        notes: What a reader should know about the workload and the model.
        warnings: What makes the numbers doubtful.
        runs: The same workload, once for each cache compared.
    """

    config: dict[str, Json]
    seed: int
    versions: dict[str, str]
    notes: list[str]
    warnings: list[str]
    runs: list[RunResult]

    @property
    def times(self) -> Times:
        """Where its times come from: all are simulated, unless a machine was measured."""
        return "measured" if "machine" in self.config else "simulated"


class _RunDocument(msgspec.Struct, forbid_unknown_fields=True):
    label: str
    makespan_s: float
    last_arrival_s: float
    offered_load: float
    backlog_at_last_arrival: int
    counters: dict[str, int]
    tree: list[TreeBox]
    timeline: dict[str, list[Any]]
    requests: dict[str, Any]
    bounds: Bounds | None = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: Literal["radixcache.simulation"]
    schema_version: int
    seed: int
    versions: dict[str, str]
    notes: list[str]
    warnings: list[str]
    config: dict[str, Any]
    runs: list[_RunDocument]


def to_json(result: SimulationResult) -> bytes:
    """Write a result as one UTF-8 JSON document.

    Records and samples are written as columns, one line each: `"arrival_s": [0.0, 0.1, ...]`.
    That takes less than half the space of a list of objects. `miss` is a dictionary of columns,
    with null where a record does not name the reason. Dictionaries are sorted by key, so equal
    results give equal bytes.

    Raises:
        InvalidResult: A number is NaN or infinite, or a value is no JSON value.

    Complexity:
        O(size of the result).
    """
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "seed": result.seed,
        "versions": by_key(result.versions),
        "notes": result.notes,
        "warnings": result.warnings,
        "config": by_key(result.config),
        "runs": [_run_document(run) for run in result.runs],
    }
    return to_bytes(document)


def from_json(data: bytes) -> SimulationResult:
    """Read what `to_json` wrote. Types are strict: nothing is converted, nothing ignored.

    Raises:
        InvalidResult: `data` is no JSON, of another schema version, or breaks the schema; the
            message names the place.
    """
    try:
        raw = msgspec.json.decode(data)
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if version != SCHEMA_VERSION:
            raise InvalidResult(f"schema_version {version!r}, this release reads {SCHEMA_VERSION}")
        document = msgspec.convert(raw, _Document)
        return SimulationResult(
            config=document.config,
            seed=document.seed,
            versions=document.versions,
            notes=document.notes,
            warnings=document.warnings,
            runs=[_run_result(run) for run in document.runs],
        )
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidResult(f"not a simulation result: {error}") from error


def _run_document(run: RunResult) -> dict[str, Any]:
    requests = _columns(run.requests, RequestRecord)
    misses: list[dict[str, int]] = requests["miss"]
    reasons = sorted({reason for miss in misses for reason in miss})
    requests["miss"] = {reason: [miss.get(reason) for miss in misses] for reason in reasons}
    return {
        "label": run.label,
        "makespan_s": run.makespan_s,
        "last_arrival_s": run.last_arrival_s,
        "offered_load": run.offered_load,
        "backlog_at_last_arrival": run.backlog_at_last_arrival,
        "counters": by_key(run.counters),
        "bounds": by_key(run.bounds),
        "tree": run.tree,
        "timeline": _columns(run.timeline, TimelineSample),
        "requests": requests,
    }


def _run_result(run: _RunDocument) -> RunResult:
    columns = dict(run.requests)
    misses = msgspec.convert(columns.pop("miss", {}), dict[str, list[int | None]])
    rows = list(_rows(columns, RequestRecord, without="miss"))
    for row in rows:
        row["miss"] = {}
    for reason, counts in misses.items():
        if len(counts) != len(rows):
            raise InvalidResult(f"column miss.{reason} has {len(counts)} rows, others {len(rows)}")
        for row, count in zip(rows, counts, strict=True):
            if count is not None:
                row["miss"][reason] = count
    return RunResult(
        label=run.label,
        requests=msgspec.convert(rows, list[RequestRecord]),
        timeline=msgspec.convert(list(_rows(run.timeline, TimelineSample)), list[TimelineSample]),
        counters=run.counters,
        makespan_s=run.makespan_s,
        last_arrival_s=run.last_arrival_s,
        offered_load=run.offered_load,
        backlog_at_last_arrival=run.backlog_at_last_arrival,
        tree=run.tree,
        bounds=run.bounds,
    )


def _columns(rows: Sequence[_Row], row_type: type[_Row]) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(row_type)]  # type: ignore[arg-type]
    return {name: [getattr(row, name) for row in rows] for name in names}


def _rows(
    columns: dict[str, Any], row_type: type[Any], without: str | None = None
) -> Iterator[dict[str, Any]]:
    """Turn columns into dictionaries, having checked that they are the columns of `row_type`."""
    names = {field.name for field in dataclasses.fields(row_type)} - {without}
    if names != set(columns):
        odd = sorted(names ^ set(columns))
        raise InvalidResult(f"columns of {row_type.__name__} missing or unknown: {odd}")
    for name, column in columns.items():
        if not isinstance(column, list):
            raise InvalidResult(f"column {name} of {row_type.__name__} is no list")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidResult(f"columns of {row_type.__name__} differ in length: {lengths}")
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
