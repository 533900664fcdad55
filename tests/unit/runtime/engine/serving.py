"""An engine on exact integer arithmetic, that can be told to fail."""

from collections.abc import Callable, Iterable

from radixcache import CacheConfig, NullPrefixCache, PrefixCache, check
from runtime.engine import Chunk, Completion, Engine, Sampler, SamplingParams
from runtime.executor import StepOutput
from scheduler import SchedulerConfig, StepPlan
from tests.fault.scheduler.toy_engine import ToyEngine, generate


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


class Letters:
    """A tokenizer of six letters.

    Args:
        breaks_at: The letter that it cannot decode.
        rest: What comes once no more tokens come.
    """

    eos_ids: frozenset[int] = frozenset()

    def __init__(self, breaks_at: str = "", rest: str = "") -> None:
        self._breaks_at, self._rest = breaks_at, rest

    def encode(self, text: str) -> list[int]:
        return ["abcdef".index(letter) for letter in text]

    def stream(self) -> "Letters":
        return self

    def push(self, token_id: int) -> str:
        letter = "abcdef"[token_id]
        if letter == self._breaks_at:
            raise UnicodeError(f"no text for {letter}")
        return letter

    def finish(self) -> str:
        if self._rest == "breaks":
            raise UnicodeError("no text at the end")
        return self._rest


class Meddler:
    """An executor that does something around each call of another.

    Args:
        inner: The other.
        meddle: Given the plan and what the call brought, what to say instead.
    """

    def __init__(self, inner: ToyExecutor, meddle: Callable[[StepPlan, StepOutput], object]) -> None:
        self._inner, self._meddle = inner, meddle

    def execute(self, plan: StepPlan) -> object:
        return self._meddle(plan, self._inner.execute(plan))


def meddle(engine: Engine, meddle: Callable[[StepPlan, StepOutput], object]) -> Engine:
    """Let something happen in each call of an engine's executor."""
    engine._executor = Meddler(engine._executor, meddle)
    return engine


def toy_engine(
    num_pages: int = 64,
    page_size: int = 4,
    *,
    fails: Callable[[int, StepPlan], bool] = never,
    cache: type[PrefixCache] | type[NullPrefixCache] = PrefixCache,
    partial_reuse: bool = False,
    max_context: int | None = None,
    eos_ids: frozenset[int] = frozenset(),
    text: object = None,
    clock: object = None,
    vocab_size: int | None = None,
    **settings: object,
) -> Engine:
    made = cache(CacheConfig(num_pages=num_pages, page_size=page_size, partial_reuse=partial_reuse))
    executor = ToyExecutor(num_pages * page_size, page_size, fails)
    return Engine(
        made,
        executor,
        Sampler(),
        clock or Ticks(),
        config=SchedulerConfig(**settings),
        max_context=max_context,
        eos_ids=eos_ids,
        text=text,
        vocab_size=vocab_size,
    )


def tokens(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def wanted(count: int, **more) -> SamplingParams:
    return SamplingParams(max_new_tokens=count, **more)


def expected(prompt: list[int], count: int) -> list[int]:
    """What the toy engine generates without a cache, in the first epoch."""
    return generate(prompt, count, toy_engine()._namespace(None))


def run(engine: Engine, before: Iterable[Chunk] = ()) -> dict[str, Completion]:
    """Steps until nothing is left; completions by request id. Chunks have to add up to them.

    Chunks that were fetched already are given as `before`.
    """
    chunks = list(before)
    while not engine.is_idle:
        chunks += engine.step()
        check(engine.cache)
    found: dict[str, Completion] = {}
    texts: dict[str, str] = {}
    ids: dict[str, list[int]] = {}
    for chunk in chunks:
        assert chunk.request_id not in found
        texts[chunk.request_id] = texts.get(chunk.request_id, "") + chunk.text
        ids.setdefault(chunk.request_id, []).extend(chunk.token_ids)
        if chunk.completion is not None:
            found[chunk.request_id] = chunk.completion
    for name, completion in found.items():
        assert (texts[name], ids[name]) == (completion.text, completion.token_ids)
    return found


def assert_balanced(engine: Engine) -> None:
    """Nobody is left, and nothing of anybody."""
    check(engine.cache)
    assert engine.is_idle
    pages = engine.cache.pages
    assert (pages.private, pages.locked) == (0, 0)
    assert not engine._live
    assert not engine._sampler._params
