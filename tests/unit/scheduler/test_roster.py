import pytest

from radixcache import CacheConfig, PrefixCache
from scheduler import PreemptReason, Request, RequestState, SchedulerConfig
from scheduler.roster import Roster


class World:
    """A roster, and what its observer was told."""

    def __init__(self) -> None:
        self.cache = PrefixCache(CacheConfig(num_pages=8, page_size=2))
        self.roster = Roster(self.cache, SchedulerConfig(), None)
        self.roster.observers = (self,)
        self.told: list[str] = []

    def submitted(self, request: Request, now: float) -> None:
        self.told.append(f"{request.request_id} submitted at {now}")

    def ended(self, request: Request, now: float) -> None:
        self.told.append(f"{request.request_id} {request.state} at {now}")

    def join(self, name: str) -> Request:
        request = Request.of(name, [1, 2, 3], 4)
        self.roster.join(request, 0)
        return request

    def admit(self, request: Request) -> None:
        sequence = self.cache.open(request.known_tokens())
        sequence.reserve(3)
        self.roster.admit(request, sequence, 1)


def where(roster: Roster) -> tuple[int, int, int, int]:
    return len(roster), len(roster.line), len(roster.running), roster.num_ended


def test_a_request_waits_runs_waits_again_and_is_gone_once_it_ended():
    world = World()
    roster, request = world.roster, world.join("a")
    assert roster.find("a") is request
    assert where(roster) == (1, 1, 0, 0)
    world.admit(request)
    assert where(roster) == (1, 0, 1, 0)
    roster.throw_back(request, PreemptReason.PRIORITY)
    assert request.state is RequestState.PREEMPTED
    assert where(roster) == (1, 1, 0, 0)
    world.admit(request)
    roster.end(request, RequestState.FINISHED, 2)
    assert roster.find("a") is None
    assert where(roster) == (0, 0, 0, 1)
    assert world.told == ["a submitted at 0", "a finished at 2"]


def test_numbers_rise_and_none_is_given_twice():
    world = World()
    world.roster.end(world.join("a"), RequestState.ABORTED, 1)
    assert [world.join(name).number for name in "ab"] == [1, 2]


def test_who_never_ran_does_not_count_as_ended():
    world = World()
    world.roster.end(world.join("a"), RequestState.EXPIRED, 1)
    assert where(world.roster) == (0, 0, 0, 0)


@pytest.mark.parametrize("reason", PreemptReason)
def test_what_was_computed_stays_cached_unless_the_step_failed(reason):
    world = World()
    request = world.join("a")
    world.admit(request)
    request.sequence.advance(3)
    world.roster.throw_back(request, reason)
    assert world.cache.peek(request.prompt).matched_len == (0 if reason is PreemptReason.STEP_FAILED else 2)
    assert request.sequence is None
