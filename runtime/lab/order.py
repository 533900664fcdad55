"""In which order the turns of a workload are served when nothing else is known."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from radixcache.errors import InvalidArgument
from runtime.clock import LONGEST_S, PS_PER_S
from runtime.workload import OutputOf, Session, Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimes:
    """How long answers take where no device is simulated: the longer, the more sessions are alive at a time.

    Attributes:
        first_token_s: From the arrival of a request to its first token, >= 0.
        token_s: For each token after it, >= 0.

    Raises:
        InvalidArgument: A time is negative, not finite, or above 1e12 s.
    """

    first_token_s: float = 0.0
    token_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("first_token_s", "token_s"):
            if not 0 <= getattr(self, name) <= LONGEST_S:
                raise InvalidArgument(
                    f"{name} is a finite time >= 0, at most {LONGEST_S:g} s, got {getattr(self, name)!r}"
                )

    @property
    def note(self) -> str:
        """What a reader of figures should know."""
        if self == INSTANT:
            return (
                "Requests are served in order of arrival, as if every answer took no time. Where answers "
                "take time, more sessions are alive at once, and LRU finds less."
            )
        return (
            "Requests are served in order of arrival. An answer takes "
            f"{self.first_token_s:g} s to its first token and {self.token_s:g} s for each further one."
        )

    def of_ps(self, turn: Turn) -> int:
        """From the arrival of a turn to the end of its answer. Unit: picoseconds."""
        return round((self.first_token_s + self.token_s * max(0, turn.output_len - 1)) * PS_PER_S)


INSTANT: Final = AnswerTimes()
"""Answers that take no time."""


@dataclass(slots=True)
class _Progress:
    """What a session's turns wait for, since when they could come, and who waits for each."""

    session: Session
    num_open: list[int]
    since_ps: list[int]
    followers: list[list[int]]

    @classmethod
    def of(cls, session: Session) -> "_Progress":
        followers: list[list[int]] = [[] for _ in session.turns]
        for number, turn in enumerate(session.turns):
            for earlier in turn.after:
                followers[earlier].append(number)
        return cls(session, [len(turn.after) for turn in session.turns], [0] * len(followers), followers)

    def ready_after(self, done: int, end_ps: int) -> Iterator[int]:
        """Turns that waited for `done`, which is answered then, and for nothing else that has not arrived."""
        for number in self.followers[done]:
            self.num_open[number] -= 1
            self.since_ps[number] = max(self.since_ps[number], end_ps)
            if not self.num_open[number]:
                yield number


def nominal_order(workload: Workload, answers: AnswerTimes = INSTANT) -> Iterator[tuple[Session, int]]:
    """Turns by arrival, as if nobody ever waited: starts, pauses, and the time that answers take.

    Equal times: as they became known (sessions in the workload's order, turns by number).

    Args:
        workload: Who asks for what.
        answers: How long answers take; by default no time.

    Yields:
        Session and number of the turn.

    Complexity:
        O(log of the turns that wait) a turn; sessions are asked for as they start.
    """
    waiting: list[tuple[int, int, int, _Progress]] = []
    num_known = 0

    def wait(progress: _Progress, number: int, from_ps: int) -> None:
        nonlocal num_known
        time_ps = from_ps + round(progress.session.turns[number].think_s * PS_PER_S)
        heapq.heappush(waiting, (time_ps, num_known, number, progress))
        num_known += 1

    def serve_before(limit_ps: float) -> Iterator[tuple[Session, int]]:
        while waiting and waiting[0][0] < limit_ps:
            now_ps, _, done, progress = heapq.heappop(waiting)
            yield progress.session, done
            end_ps = now_ps + answers.of_ps(progress.session.turns[done])
            for number in progress.ready_after(done, end_ps):
                wait(progress, number, progress.since_ps[number])

    for session in workload.sessions:
        start_ps = round(session.start_s * PS_PER_S)
        yield from serve_before(start_ps)
        progress = _Progress.of(session)
        for number, turn in enumerate(session.turns):
            if not turn.after:
                wait(progress, number, start_ps)
    yield from serve_before(float("inf"))


def first_requests(workload: Workload, count: int) -> Workload:
    """The first requests of a workload in nominal order, and no more.

    What a session keeps is numbered anew where others of its turns lay between.

    Args:
        workload: What to cut.
        count: Requests to keep, >= 1; a workload of fewer is returned as it is.

    Raises:
        InvalidArgument: `count` is below 1.

    Complexity:
        O(count log count), and one look at every session.
    """
    if count < 1:
        raise InvalidArgument(f"at least 1 request is kept, got {count}")
    num_turns = workload.num_turns
    if count >= num_turns:
        return workload
    kept: dict[str, tuple[Session, list[int]]] = {}
    for session, number in islice(nominal_order(workload), count):
        kept.setdefault(session.session_id, (session, []))[1].append(number)
    return replace(
        workload,
        sessions=tuple(_with_turns(session, sorted(numbers)) for session, numbers in kept.values()),
        notes=(*workload.notes, f"Only the first {count:,} of {num_turns:,} requests."),
    )


def _with_turns(session: Session, numbers: list[int]) -> Session:
    """The session with these turns only; whatever they wait for is among them."""
    place = {number: index for index, number in enumerate(numbers)}

    def moved(turn: Turn) -> Turn:
        segments = tuple(
            replace(segment, turn=place[segment.turn]) if isinstance(segment, OutputOf) else segment
            for segment in turn.segments
        )
        return replace(turn, segments=segments, after=tuple(place[earlier] for earlier in turn.after))

    if numbers == list(range(len(numbers))):
        return replace(session, turns=session.turns[: len(numbers)])
    return replace(session, turns=tuple(moved(session.turns[number]) for number in numbers))
