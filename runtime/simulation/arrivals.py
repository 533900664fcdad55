"""When which turn of which session arrives: by the workload's clock, or as users come free."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from radixcache.errors import InvalidConfig
from runtime.clock import PS_PER_S
from runtime.workload import OutputOf, Session, Turn, Workload, prompt_of
from runtime.workload.model import TokenArray


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Sessions start when the workload says, `rate_scale` times as densely; pauses within stay."""

    rate_scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate_scale < float("inf"):
            raise InvalidConfig(f"the rate scale is a finite number > 0, got {self.rate_scale}")


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`users` users, each of whom starts a session when the last one ended; start times are ignored."""

    users: int

    def __post_init__(self) -> None:
        if self.users < 1:
            raise InvalidConfig(f"the number of users is at least 1, got {self.users}")


Pace: TypeAlias = OpenLoop | ClosedLoop


class Arrival(NamedTuple):
    """One turn, at the moment it becomes a request."""

    time_ps: int
    order: int
    session: Session
    turn_number: int

    @property
    def turn(self) -> Turn:
        """The turn."""
        return self.session.turns[self.turn_number]

    @property
    def request_id(self) -> str:
        """A name, unique in the workload."""
        return f"{self.session.session_id}/{self.turn_number}"


class _Progress:
    """What is known of a session that has started."""

    def __init__(self, session: Session) -> None:
        self.outputs: dict[int, TokenArray] = {}
        self.num_open = [len(turn.after) for turn in session.turns]
        self.followers: list[list[int]] = [[] for _ in session.turns]
        for number, turn in enumerate(session.turns):
            for earlier in turn.after:
                self.followers[earlier].append(number)
        self.needed = {
            segment.turn
            for turn in session.turns
            for segment in turn.segments
            if isinstance(segment, OutputOf)
        }
        self.lost: set[int] = set()
        self.num_left = len(session.turns)


class Arrivals:
    """A queue of arrivals that grows as turns finish.

    Complexity:
        O(log waiting) for each arrival.
    """

    def __init__(self, workload: Workload, pace: Pace) -> None:
        self._pace = pace
        self._sessions: Iterator[Session] = iter(workload.sessions)
        self._next_session = next(self._sessions, None)
        self._heap: list[Arrival] = []
        self._progress: dict[str, _Progress] = {}
        self._order = 0
        if isinstance(pace, ClosedLoop):
            for _ in range(pace.users):
                self._start_next(0)

    def next_time(self) -> int | None:
        """When the next turn arrives, as far as is known now; `None`: not before another one finishes."""
        self._fill()
        return self._heap[0].time_ps if self._heap else None

    def due(self, now_ps: int) -> Iterator[Arrival]:
        """Turns that have arrived by `now_ps`, in order of time, then of the workload."""
        while (time_ps := self.next_time()) is not None and time_ps <= now_ps:
            yield heapq.heappop(self._heap)

    def prompt(self, arrival: Arrival) -> TokenArray:
        """The prompt of an arrival, with what was generated before in it. int32, [num_tokens]."""
        return prompt_of(arrival.turn, self._progress[arrival.session.session_id].outputs)

    def finished(self, arrival: Arrival, output: list[int], now_ps: int) -> None:
        """A turn has its answer: whoever waited for it begins to think."""
        session, progress = arrival.session, self._progress[arrival.session.session_id]
        if arrival.turn_number in progress.needed:
            progress.outputs[arrival.turn_number] = np.array(output, dtype=np.int32)
        for number in progress.followers[arrival.turn_number]:
            progress.num_open[number] -= 1
            if not progress.num_open[number]:
                self._push(session, number, now_ps)
        progress.num_left -= 1
        if not progress.num_left:
            self._end(session, now_ps)

    def broken_off(self, arrival: Arrival, now_ps: int) -> int:
        """A turn ended without an answer: its followers never come. Returns how many were lost by that."""
        session, progress = arrival.session, self._progress[arrival.session.session_id]
        lost_before, pending = len(progress.lost), [arrival.turn_number]
        while pending:
            for number in progress.followers[pending.pop()]:
                if number not in progress.lost:
                    progress.lost.add(number)
                    pending.append(number)
        num_lost = len(progress.lost) - lost_before
        progress.num_left -= 1 + num_lost
        if not progress.num_left:
            self._end(session, now_ps)
        return num_lost

    def _end(self, session: Session, now_ps: int) -> None:
        del self._progress[session.session_id]
        if isinstance(self._pace, ClosedLoop):
            self._start_next(now_ps)

    def _fill(self) -> None:
        """Start every session that begins before the earliest turn that waits."""
        if isinstance(self._pace, ClosedLoop):
            return
        while self._next_session is not None:
            start_ps = round(self._next_session.start_s / self._pace.rate_scale * PS_PER_S)
            if self._heap and self._heap[0].time_ps < start_ps:
                return
            self._start_next(start_ps)

    def _start_next(self, start_ps: int) -> None:
        session = self._next_session
        if session is None:
            return
        self._next_session = next(self._sessions, None)
        self._progress[session.session_id] = _Progress(session)
        for number, turn in enumerate(session.turns):
            if not turn.after:
                self._push(session, number, start_ps)

    def _push(self, session: Session, number: int, from_ps: int) -> None:
        time_ps = from_ps + round(session.turns[number].think_s * PS_PER_S)
        heapq.heappush(self._heap, Arrival(time_ps, self._order, session, number))
        self._order += 1
