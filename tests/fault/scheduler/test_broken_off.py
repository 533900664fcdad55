"""Calls that break off: observers that call back or raise, interrupts at any line, books that fail."""

import random
import sys
from collections.abc import Callable

import pytest

from radixcache import OutOfPages, check
from scheduler import PlanError, QueueFull, Request, RequestState, RequestTooLong, Stalled
from scheduler.errors import Interrupted, InvalidRequest, ReentrantCall
from scheduler.leaders import Leaders
from scheduler.waiting.forest import WaitingForest
from tests.unit.scheduler.loop import Loop, ids, shape

CALLS = {
    "submit": lambda loop: loop.scheduler.submit(Request.of("new", [1, 2, 3], 1), 99),
    "abort": lambda loop: loop.scheduler.abort("r1", 99),
    "schedule": lambda loop: loop.scheduler.schedule(99),
    "commit": lambda loop: loop.scheduler.commit(loop.plans[-1], {}, 99),
    "finish": lambda loop: loop.scheduler.finish("r1", 99),
    "preempt": lambda loop: loop.scheduler.preempt("r1"),
    "discard": lambda loop: loop.scheduler.discard(loop.plans[-1]),
}


class Meddler:
    """An observer of a cache, or of a scheduler, that does something whenever it is told."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.num_told = 0

    def published(self, *told: object, **more: object) -> None:
        self.num_told += 1
        self.act()

    evicted = cleared = submitted = ended = published


class Pages:
    """Which pages are cached, as an observer is told."""

    def __init__(self) -> None:
        self.cached: set[int] = set()

    def published(self, namespace, parent_page, new_pages, tokens, depth):
        assert self.cached.isdisjoint(new_pages.tolist())
        self.cached.update(new_pages.tolist())

    def evicted(self, namespace, pages, surviving_parent_page, depth):
        assert self.cached.issuperset(pages.tolist())
        self.cached.difference_update(pages.tolist())

    def cleared(self, namespace, *, everything):
        raise AssertionError


def crowded(*observers: object, policy: str = "lpm") -> Loop:
    """Shared and unshared prompts in a pool that is too small: publishing, evicting and throwing back."""
    loop = Loop(num_pages=11, page_size=2, policy=policy, token_budget=8, max_running=3)
    for observer in observers:
        loop.cache.subscribe(observer)
    for number in range(8):
        loop.submit(f"r{number}", [*ids(0, 4), *ids(10 * number, 1 + number % 3)], 6 + number % 5)
    return loop


def drive(loop: Loop, expected: type[BaseException] | None = None) -> list[object]:
    """Steps to the end, with preemptions and stops, past what is `expected` to be raised; what was seen."""
    seen: list[object] = []

    def call(verb: Callable[..., object], *arguments: object) -> object:
        try:
            return verb(*arguments)
        except BaseException as error:
            if expected is None or not isinstance(error, expected):
                raise
            return None
        finally:
            check(loop.cache)

    for number in range(300):
        if loop.scheduler.is_idle:
            return seen
        plan = call(loop.schedule)
        if plan:
            seen.append(shape(plan))
            call(loop.commit, plan, {name: [number] for name in loop.outputs(plan)})
        running = sorted(request.request_id for request in loop.scheduler._roster.running)
        if running and number % 5 == 3:
            call(loop.scheduler.preempt, running[-1])
        if running and number % 4 == 2 and running[0] != running[-1]:
            call(loop.scheduler.finish, running[0], 50 + number)
    raise AssertionError("not idle after 300 steps")


def requests_of(loop: Loop) -> list[Request]:
    return list(loop.scheduler._roster._requests.values())


# Whoever is told of something and calls back


@pytest.mark.parametrize("inner", CALLS)
@pytest.mark.parametrize("policy", ["lpm", "fair"])
def test_an_observer_of_the_cache_that_calls_the_scheduler_is_refused_and_changes_nothing(inner, policy):
    outer: set[str] = set()

    def call_back() -> None:
        outer.add(loop.scheduler._guard.verb)
        with pytest.raises(ReentrantCall, match=f"within {loop.scheduler._guard.verb}"):
            CALLS[inner](loop)

    meddler = Meddler(call_back)
    undisturbed = drive(crowded(policy=policy))
    loop = crowded(meddler, policy=policy)
    assert drive(loop) == undisturbed
    assert outer == {"schedule", "commit", "preempt", "finish"}
    loop.assert_nothing_is_held()


@pytest.mark.parametrize("inner", CALLS)
def test_an_observer_that_lets_the_refusal_escape_breaks_nothing_off(inner):
    """The call is completed and then raises it; whoever else is told knows everything."""
    meddler = Meddler(lambda: CALLS[inner](loop))
    loop = crowded(meddler)
    requests = requests_of(loop)
    drive(loop, ReentrantCall)
    assert meddler.num_told > 20
    assert {request.state for request in requests} == {RequestState.FINISHED}
    loop.assert_nothing_is_held()


@pytest.mark.parametrize("who", ["horizon", "outputs", "order"])
def test_whoever_is_asked_within_a_call_cannot_call_either(who):
    class Outputs(dict):
        def get(self, *key):
            refused()
            return super().get(*key)

    asked = []

    def refused() -> None:
        with pytest.raises(ReentrantCall):
            loop.scheduler.abort("a", 9)
        asked.append(who)

    loop = Loop()
    loop.submit("a", ids(0, 4), 8)
    if who == "order":
        head = loop.scheduler._roster.line._queue.head
        loop.scheduler._roster.line._queue.head = lambda now: (refused(), head(now))[1]
    loop.step()
    plan = loop.schedule(horizon=lambda rows: refused() or 2) if who == "horizon" else loop.schedule()
    outputs = loop.outputs(plan)
    loop.scheduler.commit(plan, Outputs(outputs) if who == "outputs" else outputs, 9)
    assert asked
    loop.run()


# Observers that raise


@pytest.mark.parametrize("seed", range(20))
def test_an_observer_that_raises_now_and_then_loses_nobody_a_token_and_no_other_observer_an_event(seed):
    rng = random.Random(seed)

    def fail() -> None:
        if rng.random() < 0.4:
            raise ZeroDivisionError

    pages = Pages()
    loop = crowded(Meddler(fail), pages, policy=rng.choice(["lpm", "fcfs", "fair", "hrrn"]))
    told = Meddler(lambda: None)
    loop.scheduler.subscribe(Meddler(fail))
    loop.scheduler.subscribe(told)
    requests = requests_of(loop)
    drive(loop, ZeroDivisionError)
    assert [request.state for request in requests] == [RequestState.FINISHED] * 8
    assert told.num_told == 8
    assert len(pages.cached) == loop.cache.pages.evictable
    loop.assert_nothing_is_held()


@pytest.mark.parametrize("verb", ["submit", "abort", "finish", "preempt", "commit"])
def test_what_an_observer_raises_is_raised_when_the_verb_is_complete(verb):
    class Boom(Exception):
        pass

    def fail() -> None:
        raise Boom

    loop = Loop()
    loop.submit("r1", ids(0, 6), 1 if verb == "commit" else 9)
    if verb == "commit":
        loop.schedule()
    elif verb != "submit":
        for _ in range(4):
            loop.step()
    (request,) = requests_of(loop)
    meddler = Meddler(fail)
    loop.scheduler.subscribe(meddler)
    loop.cache.subscribe(meddler)
    calls = CALLS | {"commit": lambda loop: loop.scheduler.commit(loop.plans[-1], {"r1": [5]}, 9)}
    with pytest.raises(Boom):
        calls[verb](loop)
    expected = {
        "submit": RequestState.WAITING,
        "abort": RequestState.ABORTED,
        "preempt": RequestState.PREEMPTED,
    }
    assert request.state is expected.get(verb, RequestState.FINISHED)
    loop.scheduler.unsubscribe(meddler)
    loop.cache.unsubscribe(meddler)
    loop.run()
    loop.assert_nothing_is_held()


def test_a_plan_that_nobody_gets_because_an_observer_raised_is_given_up():
    """Also where requests of it waited for copies: nobody knows that those were to be made."""

    def fail() -> None:
        raise ZeroDivisionError

    loop = Loop(num_pages=6, page_size=4, partial_reuse=True)
    loop.warm(ids(0, 8))
    loop.warm(ids(50, 16))
    meddler = Meddler(fail)
    loop.cache.subscribe(meddler)
    request = loop.submit("a", [*ids(0, 6), *ids(90, 4)], 2)
    with pytest.raises(ZeroDivisionError):
        loop.schedule()
    assert request.state is RequestState.PREEMPTED
    loop.cache.unsubscribe(meddler)
    loop.run()
    assert request.state is RequestState.FINISHED
    loop.assert_nothing_is_held()


# Interrupts


class Interrupt(BaseException):
    """As a `KeyboardInterrupt`, which would end the run of the tests where it escapes."""


class Interrupter:
    """Raises an `Interrupt` when so many lines of scheduler and cache were run.

    Not in the guard: its lines call nothing, and between such lines Python looks for no signal.
    """

    def __init__(self, line: int) -> None:
        self.left = line

    def __enter__(self) -> "Interrupter":
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame, event, _):
        name = frame.f_code.co_filename
        inside = ("/scheduler/" in name or "/radixcache/" in name) and "/tests/" not in name
        if not inside or name.endswith("guard.py"):
            return self._trace
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise Interrupt
        return self._trace


def at(step: int) -> Loop:
    """The crowd after so many steps."""
    loop = crowded()
    for _ in range(step):
        loop.step()
    return loop


@pytest.mark.parametrize("step", [0, 1, 5, 9, 14])
@pytest.mark.parametrize("verb", ["schedule", "commit"])
def test_an_interrupt_at_any_line_either_changed_nothing_or_is_named_by_every_later_call(verb, step):
    def run(loop: Loop, line: int) -> int:
        plan = loop.scheduler.schedule(100) if verb == "commit" else None
        outputs = None if plan is None else loop.outputs(plan)
        with Interrupter(line) as interrupter:
            if plan is None:
                loop.plans.append(loop.scheduler.schedule(100))
            else:
                loop.scheduler.commit(plan, outputs, 101)
        return -interrupter.left

    num_lines = run(at(step), 0)
    assert num_lines > 20
    undisturbed = at(step)
    if verb == "commit":
        undisturbed.step()
    else:
        undisturbed.schedule()
    undisturbed = shape(undisturbed.plans[-1])
    outcomes = set()
    for line in range(1, num_lines + 1, max(1, num_lines // 60)):
        loop = at(step)
        with pytest.raises(Interrupt):
            run(loop, line)
        if loop.scheduler._guard.broken_by is None:
            outcomes.add("nothing")
            if verb == "commit":
                plan = loop.scheduler._open_plan
                loop.scheduler.commit(plan, loop.outputs(plan), 101)
            else:
                plan = loop.scheduler.schedule(100)
                loop.scheduler.discard(plan)
            assert shape(plan) == undisturbed
            drive(loop)
            loop.assert_nothing_is_held()
            continue
        outcomes.add("named")
        for call in CALLS.values():
            loop.plans.append(undisturbed)
            with pytest.raises(Interrupted, match=f"{verb} was interrupted by Interrupt") as caught:
                call(loop)
            assert isinstance(caught.value.__cause__, Interrupt)
            assert caught.value.verb == verb
    assert outcomes == {"nothing", "named"}


@pytest.mark.parametrize("kind", [Interrupt, SystemExit])
def test_an_interrupt_within_an_observer_does_not_wait_for_the_end_of_the_call(kind):
    def stop() -> None:
        raise kind

    loop = crowded(Meddler(stop))
    with pytest.raises(kind):
        drive(loop)
    with pytest.raises(Interrupted, match=f"commit was interrupted by {kind.__name__}"):
        loop.step()


@pytest.mark.parametrize("books", [WaitingForest, Leaders])
def test_books_of_the_scheduler_that_fail_while_they_are_told_are_no_observers_fault(books, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    loop = crowded()
    monkeypatch.setattr(books, "published", fail)
    with pytest.raises(MemoryError):
        drive(loop)
    with pytest.raises(Interrupted, match="commit was interrupted by MemoryError"):
        loop.step()


def test_what_a_horizon_raises_in_the_middle_is_named_too():
    loop = Loop()
    loop.submit("a", ids(0, 4), 2)
    loop.step()
    with pytest.raises(ZeroDivisionError):
        loop.scheduler.schedule(9, lambda rows: 1 // 0)
    with pytest.raises(Interrupted, match="schedule was interrupted by ZeroDivisionError"):
        loop.schedule()


# What leaves a scheduler sound


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (PlanError, lambda loop: loop.scheduler.schedule(9)),
        (PlanError, lambda loop: loop.scheduler.commit(loop.plans[-1], {"r0": [1] * 99}, 9)),
        (PlanError, lambda loop: loop.scheduler.commit(loop.plans[0], {}, 9)),
        (PlanError, lambda loop: loop.scheduler.discard(loop.plans[0])),
        (InvalidRequest, lambda loop: loop.scheduler.submit(requests_of(loop)[0], 9)),
        (InvalidRequest, lambda loop: loop.scheduler.finish("r0", 9)),
        (InvalidRequest, lambda loop: loop.scheduler.preempt("nobody")),
        (RequestTooLong, lambda loop: loop.scheduler.submit(Request.of("x", ids(0, 99), 1), 9)),
    ],
)
def test_a_refusal_leaves_everything_as_it_was(error, call):
    loop, undisturbed = crowded(), crowded()
    loop.step()
    undisturbed.step()
    plan = loop.schedule()
    with pytest.raises(error):
        call(loop)
    loop.commit(plan)
    undisturbed.step()
    assert [shape(each) for each in loop.run()] == [shape(each) for each in undisturbed.run()]


def test_a_full_queue_and_a_stall_leave_everything_as_it_was():
    loop = Loop(num_pages=4, page_size=2, max_waiting=1, max_empty_plans=2)
    with loop.cache.open(ids(50, 6)) as hog:
        hog.reserve(6)
        loop.submit("a", ids(0, 4), 1)
        with pytest.raises(QueueFull):
            loop.submit("b", [1], 1)
        assert not loop.schedule()
        for _ in range(3):
            with pytest.raises(Stalled):
                loop.schedule()
    assert loop.run()
    with pytest.raises(OutOfPages), loop.cache.open(ids(0, 40)) as hog:
        hog.reserve(40)
    loop.submit("b", [1], 1)
    loop.run()
    loop.assert_nothing_is_held()
