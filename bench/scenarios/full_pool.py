"""A scheduler whose pool is taken by those who run, with many who wait for room."""

from collections import deque
from collections.abc import Iterator

from bench.errors import expect
from bench.harness.timing import Stopwatch
from bench.workloads.material import random_ids
from bench.workloads.prompt_stream import StreamedRequest
from radixcache import CacheConfig, PrefixCache, Tokens, check
from scheduler import Request, Scheduler, SchedulerConfig, StepPlan

PROMPT_PAGES = 64
POOL_PAGES = 2048


class FullPool:
    """Requests that decode and leave no room, and a queue of which none is admitted.

    Args:
        policy: Name of the order.
        num_running: Requests that run.
        num_waiting: Requests that wait.
        requests: What waits.
        num_steps: Steps that will be made.
        page_size: Tokens of a page.
        seed: For the prompts of those who run.
    """

    def __init__(
        self,
        policy: str,
        num_running: int,
        num_waiting: int,
        requests: Iterator[StreamedRequest],
        *,
        num_steps: int,
        page_size: int,
        seed: int,
    ) -> None:
        self.num_running, self.num_waiting = num_running, num_waiting
        self._requests = requests
        self._now = 0.0
        prompt_len = max(PROMPT_PAGES, POOL_PAGES // num_running) * page_size
        self._output_len = output_len = num_steps + 8
        rounding = 1
        num_pages = num_running * (-(-(prompt_len + output_len) // page_size) + rounding)
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
        config = SchedulerConfig(
            policy=policy, max_running=num_running + 1, token_budget=num_running * (prompt_len + 1)
        )
        self.scheduler = Scheduler(self.cache, config)
        ids = random_ids(seed, num_running * prompt_len).reshape(num_running, prompt_len)
        for number, prompt in enumerate(ids):
            self.scheduler.submit(Request(f"running {number}", Tokens(prompt), output_len), self._now)
        self._step()
        self._num_submitted = 0
        self._waiting: deque[Request] = deque()
        for _ in range(num_waiting):
            self._submit()

    def _submit(self) -> None:
        request = Request(f"{self._num_submitted}", Tokens(next(self._requests).prompt), self._output_len)
        self._num_submitted += 1
        self.scheduler.submit(request, self._now)
        self._waiting.append(request)

    def _step(self, watch: Stopwatch | None = None) -> StepPlan:
        plans: list[StepPlan] = []

        def schedule() -> None:
            plans.append(self.scheduler.schedule(self._now))

        if watch is None:
            schedule()
        else:
            watch.time(schedule)
        (plan,) = plans
        self._now += 1.0
        self.scheduler.commit(
            plan, {row.request.request_id: [0] for row in plan.rows if row.max_tokens}, self._now
        )
        return plan

    def step(self, watch: Stopwatch, *, disturbed: bool) -> None:
        """Plan a step, timed, and take it in.

        Args:
            watch: Times the planning.
            disturbed: Whether a request goes and another comes before, so that the head is tried again.

        Raises:
            WrongResult: Somebody was admitted or thrown back.
        """
        if disturbed and self._waiting:
            self.scheduler.abort(self._waiting.popleft().request_id, self._now)
            self._submit()
        plan = self._step(watch)
        expect("rows", len(plan.rows), self.num_running)
        expect("waiting requests", self.scheduler.num_waiting, self.num_waiting)

    def verify(self) -> None:
        """Everybody who should run does, and the cache is sound.

        Raises:
            WrongResult: Not so.
        """
        expect("running requests", self.scheduler.num_running, self.num_running)
        check(self.cache)
