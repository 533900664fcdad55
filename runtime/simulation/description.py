"""Words about a run: its configuration, versions and warnings, whatever served it."""

import platform
from importlib.metadata import version
from typing import Any

from radixcache import CacheConfig
from runtime.result import RunResult
from runtime.simulation.arrivals import ClosedLoop, OpenLoop, Pace
from runtime.workload import Workload
from scheduler import SchedulerConfig


def described_workload(workload: Workload, source: dict[str, Any]) -> dict[str, Any]:
    """A workload and where it comes from, as JSON values."""
    return {
        "name": workload.name,
        "sessions": len(workload.sessions),
        "requests": workload.num_turns,
        **source,
    }


def described_pace(pace: Pace) -> dict[str, Any]:
    """When sessions start, as JSON values."""
    if isinstance(pace, ClosedLoop):
        return {"pace": {"users": pace.users}, "loop": "closed"}
    return {"pace": {"rate_scale": pace.rate_scale}, "loop": "open"}


def described_cache(config: CacheConfig, capacity_from: str) -> dict[str, Any]:
    """A cache and why it is that large, as JSON values."""
    return {
        "num_pages": config.num_pages,
        "page_size": config.page_size,
        "capacity_tokens": config.num_pages * config.page_size,
        "capacity_from": capacity_from,
        "eviction": config.eviction,
        "partial_reuse": config.partial_reuse,
    }


def described_scheduler(config: SchedulerConfig) -> dict[str, Any]:
    """Settings of a scheduler, as JSON values."""
    options = config.policy_options
    return {
        "policy": config.policy,
        "policy_options": {
            "k": options.k,
            "quantum": options.quantum,
            "output_weight": options.output_weight,
        },
        "token_budget": config.token_budget,
        "prefill_chunk_tokens": config.chunk_tokens,
        "max_running": config.max_running,
        "max_waiting": config.max_waiting,
        "max_overtakes": config.max_overtakes,
        "share_in_flight": config.share_in_flight,
    }


def versions() -> dict[str, str]:
    """Version of each package that has a say in a result."""
    packages = ("radixcache", "numpy", "sortedcontainers")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def warnings_of(run: RunResult, pace: Pace) -> list[str]:
    """What makes the numbers of a run doubtful, a sentence each."""
    warnings = []
    refused = [record for record in run.requests if record.status == "refused"]
    if refused:
        warnings.append(
            f"{run.label}: {len(refused)} requests were refused, the first because: {refused[0].error}"
        )
    failed = [record for record in run.requests if record.status == "failed"]
    if failed:
        warnings.append(f"{run.label}: {len(failed)} requests failed, the first because: {failed[0].error}")
    never_sent = run.counters["turns never sent"]
    if never_sent:
        warnings.append(f"{run.label}: {never_sent} turns were never sent, for want of the answer before")
    too_many = max(8, len(run.requests) // 100)
    if isinstance(pace, OpenLoop) and run.offered_load > 1 and run.backlog_at_last_arrival > too_many:
        warnings.append(
            f"{run.label}: the offered load is {run.offered_load:.2f} times what can be served "
            f"({run.backlog_at_last_arrival} requests waited when the last one arrived); the percentiles "
            "then measure the length of the trace, not the service"
        )
    return warnings
