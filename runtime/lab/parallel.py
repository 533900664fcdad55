"""Calls in other processes, of which one may fail without the rest."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from radixcache.errors import InvalidConfig

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")


def run_all(
    call: Callable[[_Job], _Found],
    jobs: Sequence[_Job],
    *,
    workers: int,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[_Found | BaseException]:
    """Call a function with each job, in fresh processes.

    When a process dies, the jobs that were not done by then are repeated, each in a process of its own, so
    that only the one that killed it is lost.

    Args:
        call: What to call; it can be pickled, as can jobs and results.
        jobs: What to call it with.
        workers: Processes at once, >= 1.
        on_done: Called with the number of each job that is done, in the order in which they end.

    Returns:
        What each call returned or raised, in the order of the jobs, whatever the order in which they ended.

    Raises:
        InvalidConfig: `workers` is below 1.
    """
    if workers < 1:
        raise InvalidConfig(f"the number of workers is at least 1, got {workers}")
    found: dict[int, _Found | BaseException] = {}
    _in_one_pool(call, jobs, range(len(jobs)), min(workers, max(1, len(jobs))), found, on_done)
    for number in [number for number in range(len(jobs)) if isinstance(found[number], BrokenProcessPool)]:
        _in_one_pool(call, jobs, [number], 1, found, on_done)
    return [found[number] for number in range(len(jobs))]


def _in_one_pool(
    call: Callable[[_Job], _Found],
    jobs: Sequence[_Job],
    numbers: Sequence[int],
    workers: int,
    found: dict[int, _Found | BaseException],
    on_done: Callable[[int], None],
) -> None:
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        futures: dict[Future[_Found], int] = {pool.submit(call, jobs[number]): number for number in numbers}
        for future in as_completed(futures):
            number, error = futures[future], future.exception()
            found[number] = future.result() if error is None else error
            if not isinstance(error, BrokenProcessPool):
                on_done(number)
    finally:
        pool.shutdown(cancel_futures=True)
