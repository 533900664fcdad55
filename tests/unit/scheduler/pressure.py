"""Requests whose outputs end by a stop token, in a pool that is too small for all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from radixcache import CacheConfig, PrefixCache
from scheduler import Request, Scheduler, SchedulerConfig
from scheduler.expectation import Expectation, OutputLengths
from scheduler.footprints import Counts, Footprints

PAGE_SIZE = 16


@dataclass(frozen=True)
class Job:
    """A prompt, the limit its user set, and where its output really ends."""

    prompt: list[int]
    limit: int
    output_len: int


class TrueLengths:
    """Knows where every output ends."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._true = {f"r{number}": job.output_len for number, job in enumerate(jobs)}

    def add(self, output_len: int) -> None:
        pass

    def remaining(self, everybody: Footprints, most: int) -> Counts:
        true = np.array([self._true[each.request_id] for each in everybody.requests], dtype=np.int64)
        return true - everybody.generated


class WorstCase:
    """Expects every output to reach its limit."""

    def add(self, output_len: int) -> None:
        pass

    def remaining(self, everybody: Footprints, most: int) -> Counts:
        return everybody.limits - everybody.generated


class OnePage:
    """Leaves room for one more page, and lets the rest be seen."""

    def add(self, output_len: int) -> None:
        pass

    def remaining(self, everybody: Footprints, most: int) -> Counts:
        remaining = np.zeros(len(everybody), dtype=np.int64)
        remaining[-1:] = PAGE_SIZE + 1
        return remaining


EXPECTATIONS: dict[str, Callable[[Sequence[Job]], Expectation]] = {
    "true lengths": TrueLengths,
    "design": lambda jobs: OutputLengths(),
    "worst case": lambda jobs: WorstCase(),
    "one page": lambda jobs: OnePage(),
}


@dataclass(frozen=True)
class Outcome:
    """Steps until all were done, and tokens computed again of all that were computed."""

    num_steps: int
    recomputed_share: float
    num_preemptions: int
    most_preemptions: int


def serve(jobs: Sequence[Job], num_pages: int, expectation: str, **settings: object) -> Outcome:
    cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=PAGE_SIZE))
    scheduler = Scheduler(cache, SchedulerConfig(**settings), EXPECTATIONS[expectation](jobs))
    requests = [Request.of(f"r{number}", job.prompt, job.limit) for number, job in enumerate(jobs)]
    for request in requests:
        scheduler.submit(request, 0)
    fresh = count(2**30)
    num_steps = 0
    while not scheduler.is_idle:
        plan = scheduler.schedule(num_steps)
        num_steps += 1
        outputs = {row.request.request_id: [next(fresh)] for row in plan.rows if row.max_tokens}
        scheduler.commit(plan, outputs, num_steps)
        for row in plan.rows:
            job = jobs[row.request.number]
            if row.request.state == "running" and len(row.request.output) == job.output_len:
                scheduler.finish(row.request.request_id, num_steps)
    for request, job in zip(requests, jobs, strict=True):
        assert request.state == "finished"
        assert len(request.output) == job.output_len
    computed = sum(len(job.prompt) + job.output_len - 1 for job in jobs)
    recomputed = sum(request.recomputed_tokens for request in requests)
    return Outcome(
        num_steps,
        recomputed / (computed + recomputed),
        sum(request.num_preemptions for request in requests),
        max(request.num_preemptions for request in requests),
    )


def lognormal(rng: np.random.Generator, median: float, sigma: float, low: int, high: int) -> int:
    return int(np.clip(rng.lognormal(np.log(median), sigma), low, high))


def mixed_jobs(seed: int, num_jobs: int = 1_000) -> list[Job]:
    """Prompts of a median of 250 tokens, outputs of a median of 120, up to the limit of 1,024."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(num_jobs):
        prompt_len = lognormal(rng, 250, 1.0, 8, 2_000)
        output_len = lognormal(rng, 120, 0.9, 1, 1_024)
        prompt = (number * 4_096 + np.arange(prompt_len)).tolist()
        jobs.append(Job(prompt, 1_024, output_len))
    return jobs


def growing_jobs(seed: int, num_jobs: int = 600) -> list[Job]:
    """Short prompts and outputs of a median of 300 tokens, up to the limit of 2,048."""
    rng = np.random.default_rng(seed)
    jobs = []
    for number in range(num_jobs):
        prompt_len = int(rng.integers(16, 65))
        output_len = lognormal(rng, 300, 0.9, 1, 2_048)
        prompt = (number * 4_096 + np.arange(prompt_len)).tolist()
        jobs.append(Job(prompt, 2_048, output_len))
    return jobs
