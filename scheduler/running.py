"""Who runs: those to look at in every step, and those that only decode."""

from collections.abc import Collection, Iterable, Iterator

from radixcache import Tokens
from scheduler.calendar import StepCalendar
from scheduler.footprints import Footprints
from scheduler.plan import Decodes, OutputSource, Row
from scheduler.request import Request
from scheduler.steady import SteadyDecodes


class Running:
    """The requests that run.

    Where it is known which tokens a request will generate, as in a simulation, requests that only decode are
    parked: they stand in a step calendar, and come to know their tokens all at once when they are woken.

    Args:
        page_size: Tokens a page holds.
        output_source: Says which tokens a request generates; `None`: nobody is parked.

    Attributes:
        steady: All that run, where they decode and nothing else happens.
    """

    def __init__(self, page_size: int, output_source: OutputSource | None) -> None:
        self.calendar = StepCalendar(page_size)
        self._page_size = page_size
        self._output_source = output_source
        self._requests: dict[int, Request] = {}
        self._awake: dict[int, Request] = {}
        self.steady: SteadyDecodes | None = None
        self._is_calm = False

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests.values())

    @property
    def awake(self) -> dict[int, Request]:
        """Those to look at in every step, by number; not to be changed."""
        return self._awake

    def add(self, request: Request) -> None:
        """A request runs from now on."""
        self.stir()
        self._requests[request.number] = self._awake[request.number] = request

    def remove(self, request: Request) -> bool:
        """A request runs no longer, if it did; who is parked is woken before."""
        if self._requests.pop(request.number, None) is None:
            return False
        self.stir()
        self._awake.pop(request.number, None)
        return True

    def stir(self) -> None:
        """What comes is not the step before once more."""
        self.steady, self._is_calm = None, False

    def note_rows(self, rows: Collection[Row]) -> None:
        """A step is planned with these rows besides the parked ones; two alike may be the first of many."""
        if self._is_calm and len(rows) == len(self._requests):
            self.steady = SteadyDecodes.of(rows)
        self._is_calm = True

    def park(self) -> None:
        """Let those that only decode be counted on together. O(1) for each that begins to."""
        if self._output_source is None:
            return
        for request in [request for request in self._awake.values() if _only_decodes(request)]:
            self.calendar.add(request)
            del self._awake[request.number]

    def wake(self, request: Request) -> None:
        """Let a request know of its tokens, if it is parked, and be looked at again. O(tokens)."""
        if request not in self.calendar:
            return
        assert self._output_source is not None
        num_known = len(request.output)
        num_new = self.calendar.remove(request)
        self._awake[request.number] = request
        if num_new:
            take_in(request, self._output_source(request, num_known, num_known + num_new), num_new)

    def wake_all(self) -> None:
        """See `wake`."""
        for request in self.calendar.requests:
            self.wake(request)

    def decodes(self, num_steps: int) -> Decodes:
        """What those that are parked compute in so many steps."""
        return Decodes(len(self.calendar), self.calendar.context, num_steps)

    def pages_needed(self, rows: Iterable[Row], num_steps: int) -> int:
        """Pages that so many decode steps take, of those who are parked and those who have rows."""
        page_size, needed = self._page_size, self.calendar.pages_needed(num_steps)
        for row in rows:
            assert row.request.sequence is not None
            reserved = row.request.sequence.reserved_len // page_size
            needed += max(0, -(-(row.start + num_steps) // page_size) - reserved)
        return needed

    def footprints(self, candidate: Request) -> Footprints:
        """What all of them hold, and one that may run. O(awake) unless steady, and vector arithmetic."""
        if self.steady is not None:
            return self.steady.footprints(candidate)
        one_by_one = Footprints.of([*self._awake.values(), candidate])
        return self.calendar.footprints() + one_by_one if len(self.calendar) else one_by_one


def take_in(request: Request, tokens: Tokens, num_computed: int) -> None:
    """A running request generated tokens, and so many of its known ones were computed."""
    sequence = request.sequence
    assert sequence is not None
    start = sequence.computed_len
    if len(tokens):
        sequence.append(tokens)
        request.output.extend(tokens)
    sequence.advance(num_computed)
    request.note_computed(start, sequence.computed_len)


def num_behind(request: Request) -> int:
    """Known tokens of a running request without KV."""
    assert request.sequence is not None
    return request.sequence.num_tokens - request.sequence.computed_len


def _only_decodes(request: Request) -> bool:
    assert request.sequence is not None
    return num_behind(request) == 1 and request.sequence.computed_len >= request.prompt_len
