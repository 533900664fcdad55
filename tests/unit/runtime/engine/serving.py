"""An engine on exact integer arithmetic, that can be told to fail."""

from collections.abc import Callable

from radixcache import CacheConfig, NullPrefixCache, PrefixCache
from runtime.engine import Engine, Sampler
from runtime.executor import StepOutput
from scheduler import SchedulerConfig, StepPlan
from tests.fault.scheduler.toy_engine import ToyEngine


class Ticks:
    """A clock that goes on by a millisecond whenever it is read."""

    def __init__(self) -> None:
        self._now_ps = 0

    def now_ps(self) -> int:
        self._now_ps += 10**9
        return self._now_ps


class ToyExecutor:
    """Runs plans on the toy engine.

    Args:
        fails: Given the number of the call and its plan, whether it raises after having written garbage.
    """

    def __init__(self, num_slots: int, page_size: int, fails: Callable[[int, StepPlan], bool]) -> None:
        self.engine = ToyEngine(num_slots, page_size)
        self.num_calls = 0
        self._fails = fails

    def execute(self, plan: StepPlan) -> StepOutput:
        self.num_calls += 1
        if self._fails(self.num_calls - 1, plan):
            self.engine.garble(plan)
            raise RuntimeError(f"call {self.num_calls - 1} failed")
        return StepOutput(self.engine.execute(plan), 0)


def never(call: int, plan: StepPlan) -> bool:
    return False


def toy_engine(
    num_pages: int = 64,
    page_size: int = 4,
    *,
    fails: Callable[[int, StepPlan], bool] = never,
    cache: type[PrefixCache] | type[NullPrefixCache] = PrefixCache,
    partial_reuse: bool = False,
    max_context: int | None = None,
    eos_ids: frozenset[int] = frozenset(),
    **settings: object,
) -> Engine:
    made = cache(CacheConfig(num_pages=num_pages, page_size=page_size, partial_reuse=partial_reuse))
    executor = ToyExecutor(num_pages * page_size, page_size, fails)
    return Engine(
        made,
        executor,
        Sampler(),
        Ticks(),
        config=SchedulerConfig(**settings),
        max_context=max_context,
        eos_ids=eos_ids,
    )
