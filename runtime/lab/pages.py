"""A workload as what a page cache sees of it: whose pages each request uses again.

It must not know capacities or policies; `curve` and `optimum` ask what a cache of some size makes of it.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from radixcache.errors import InvalidArgument
from radixcache.namespace import namespace_key
from runtime.errors import WorkloadError
from runtime.lab.keys import PageKeys
from runtime.lab.order import INSTANT, AnswerTimes, nominal_order
from runtime.lab.reuse_tree import ReuseTree
from runtime.workload import FRESH_TOKEN_BASE, OutputOf, Session, Turn, Workload, prompt_of
from runtime.workload.model import TokenArray

Counts: TypeAlias = npt.NDArray[np.int64]

Order: TypeAlias = Iterable[tuple[str, int]]
"""Session id and number of the turn, in the order in which turns are served."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageTrace:
    """Requests, served one after the other, and the runs of pages that connect them.

    A request uses the pages `[0, path_pages)` of its path, finds at most the first `match_pages` of them
    (the last token of a prompt is always recomputed), and needs `used_pages` at once: its path and, where its
    last page is not full, a private one. Arrays of requests are int64, `[num_requests]`.

    Reuse number k says: pages `[start[k], stop[k])` of request `request[k]`'s path were used last by
    `previous[k]`. They are sorted by request, then by depth. Arrays of reuses are int64, `[num_reuses]`.

    Attributes:
        page_size: Tokens a page.
        prompt_tokens: Tokens of each prompt.
        match_pages: Pages that each request may find.
        path_pages: Pages that each leaves in the cache.
        used_pages: Pages that each needs while it is served.
        known_pages: Leading pages of each path that an earlier path contains.
        request: Who uses a run again.
        previous: Who used it last.
        start: First page of the run.
        stop: Behind its last page.
        num_left_out: Turns that were left out because they need too many pages.
    """

    page_size: int
    prompt_tokens: Counts
    match_pages: Counts
    path_pages: Counts
    used_pages: Counts
    known_pages: Counts
    request: Counts
    previous: Counts
    start: Counts
    stop: Counts
    num_left_out: int = 0

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.prompt_tokens)

    @property
    def num_touches(self) -> int:
        """Pages of all paths, each as often as it is used."""
        return int(self.path_pages.sum())

    @property
    def num_distinct(self) -> int:
        """Different pages: what a cache without limit holds at the end."""
        return int((self.path_pages - self.known_pages).sum())

    @property
    def ceiling_pages(self) -> int:
        """Pages that a cache without limit finds."""
        return int(np.minimum(self.known_pages, self.match_pages).sum())

    @property
    def num_unmatched(self) -> int:
        """Known pages that were not found because they hold a prompt's last token.

        Where it is 0, all figures of this package are exact; `curve` and `optimum` say what it means there.
        """
        return int(np.maximum(self.known_pages - self.match_pages, 0).sum())

    @property
    def num_untouched(self) -> int:
        """Requests among those that leave no new page.

        There a real cache refreshes the last page only if it had to be computed again.
        """
        known = self.known_pages == self.path_pages
        return int((known & (self.known_pages > self.match_pages)).sum())

    @property
    def max_used_pages(self) -> int:
        """Pages of the longest request: below them a capacity means nothing."""
        return int(self.used_pages.max(initial=0))

    def first_reuse(self) -> Counts:
        """Number of each request's first reuse, int64, `[num_requests + 1]`."""
        return np.searchsorted(self.request, np.arange(len(self) + 1))

    def require_capacity(self, capacity_tokens: int) -> int:
        """Whole pages of a capacity that holds every single request.

        Raises:
            InvalidArgument: It is smaller.
        """
        num_pages = capacity_tokens // self.page_size
        if num_pages < self.max_used_pages:
            raise InvalidArgument(
                f"a capacity of {capacity_tokens} tokens is less than the longest request needs: "
                f"{self.max_used_pages * self.page_size} tokens"
            )
        return num_pages


class TraceBuilder:
    """Makes a `PageTrace` of paths, one after the other.

    Args:
        page_size: Tokens a page.
    """

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._tree = ReuseTree()
        self._requests: list[tuple[int, int, int, int, int]] = []
        self._reuses = [array("q") for _ in range(4)]

    def add(
        self, namespace: bytes, keys: TokenArray, *, prompt_tokens: int, match_pages: int, used_pages: int
    ) -> None:
        """Add a request.

        Args:
            namespace: What its path starts from.
            keys: Keys of the pages of its path, int32; equal keys behind equal keys are one page.
            prompt_tokens: Tokens of its prompt.
            match_pages: Pages that it may find, at most `len(keys)`.
            used_pages: Pages that it needs, at least `len(keys)`.

        Complexity:
            See `ReuseTree.use`.
        """
        number = len(self._requests)
        runs = self._tree.use(namespace, keys.tobytes(), number)
        for run in runs:
            for column, value in zip(self._reuses, (number, *run), strict=True):
                column.append(value)
        known = runs[-1].stop if runs else 0
        self._requests.append((prompt_tokens, match_pages, len(keys), used_pages, known))

    def build(self, num_left_out: int = 0) -> PageTrace:
        """The trace of what was added."""
        requests = np.array(self._requests, dtype=np.int64).reshape(-1, 5).T.copy()
        request, previous, start, stop = (np.array(column, dtype=np.int64) for column in self._reuses)
        return PageTrace(
            page_size=self._page_size,
            prompt_tokens=requests[0],
            match_pages=requests[1],
            path_pages=requests[2],
            used_pages=requests[3],
            known_pages=requests[4],
            request=request,
            previous=previous,
            start=start,
            stop=stop,
            num_left_out=num_left_out,
        )


def page_trace(
    workload: Workload,
    *,
    page_size: int,
    outputs: bool = True,
    order: Order | None = None,
    answers: AnswerTimes = INSTANT,
    max_pages: int | None = None,
) -> PageTrace:
    """What a cache with pages of `page_size` sees of a workload, served one request after the other.

    Prompts of later turns contain what earlier ones generated: `output_len` fresh tokens each, ids from
    `FRESH_TOKEN_BASE` up. As in an engine, the last generated token has no KV.

    Args:
        workload: Who asks for what.
        page_size: Tokens a page, >= 1.
        outputs: Whether requests generate, so that the full pages of prompt and output stay in the cache;
            without, a path ends with its prompt, and a next turn computes the answer it contains.
        order: Order of service; by default `nominal_order`.
        answers: How long answers take, for that.
        max_pages: Turns that need more are left out, as a scheduler refuses them.

    Raises:
        InvalidConfig: `page_size` is below 1.
        WorkloadError: `order` names an unknown turn, or one before a turn whose output it contains.

    Complexity:
        O(pages of all prompts) in NumPy and memcmp, and O(edges on their paths) steps; 4 bytes a distinct
        page while it runs. Prompts that are one list of blocks or spans are not expanded.
    """
    builder = TraceBuilder(page_size)
    num_left_out = 0
    paths = request_paths(workload, page_size=page_size, outputs=outputs, order=order, answers=answers)
    for turn, path, prompt_tokens in paths:
        computed = prompt_tokens + (turn.output_len - 1 if outputs else 0)
        used_pages = -(-computed // page_size)
        if max_pages is not None and used_pages > max_pages:
            num_left_out += 1
            continue
        builder.add(
            namespace_key(turn.namespace),
            path,
            prompt_tokens=prompt_tokens,
            match_pages=(prompt_tokens - 1) // page_size,
            used_pages=used_pages,
        )
    return builder.build(num_left_out)


class RequestPath(NamedTuple):
    """A request as the pages it leaves in a cache.

    Attributes:
        turn: The turn that asks.
        keys: Keys of its pages, int32; equal keys behind equal keys are one page.
        prompt_tokens: Tokens of its prompt.
    """

    turn: Turn
    keys: TokenArray
    prompt_tokens: int


def request_paths(
    workload: Workload,
    *,
    page_size: int,
    outputs: bool = True,
    order: Order | None = None,
    answers: AnswerTimes = INSTANT,
) -> Iterator[RequestPath]:
    """The requests of a workload in the order they are served, as pages. For arguments see `page_trace`.

    Raises:
        InvalidConfig, WorkloadError: See `page_trace`.
    """
    prompts = _Prompts(PageKeys(page_size), page_size, outputs)
    turns = nominal_order(workload, answers) if order is None else _in_order(workload, order)
    for session, number in turns:
        yield RequestPath(session.turns[number], *prompts.path(session, number))


def _in_order(workload: Workload, order: Order) -> Iterator[tuple[Session, int]]:
    sessions = {session.session_id: session for session in workload.sessions}
    for session_id, number in order:
        session = sessions.get(session_id)
        if session is None or not 0 <= number < len(session.turns):
            raise WorkloadError(
                f"the order names turn {number} of {session_id!r}, which {workload.name} lacks"
            )
        yield session, number


class _Prompts:
    """Page keys of what each turn leaves in the cache, and the outputs that later turns contain."""

    def __init__(self, keys: PageKeys, page_size: int, outputs: bool) -> None:
        self._keys = keys
        self._page_size = page_size
        self._outputs = outputs
        self._fresh = FRESH_TOKEN_BASE
        self._generated: dict[str, dict[int, TokenArray]] = {}
        self._contained: dict[str, set[int]] = {}

    def path(self, session: Session, number: int) -> tuple[TokenArray, int]:
        """Keys of the turn's path, and the length of its prompt."""
        turn, page_size = session.turns[number], self._page_size
        output = self._generate(session, number)
        keys = self._keys.of_segments(turn.segments)
        prompt: TokenArray | None = None
        if keys is None or (output is not None and self._outputs):
            prompt = prompt_of(turn, self._generated.get(session.session_id, {}))
        if keys is None:
            assert prompt is not None
            keys = self._keys.of_tokens(prompt)
        prompt_tokens = len(prompt) if prompt is not None else _prompt_len(turn)
        num_pages = len(keys)
        if self._outputs and turn.output_len > 1:
            added = (prompt_tokens + turn.output_len - 1) // page_size - num_pages
            if output is None:
                tail = self._keys.unlike_any(added)
            else:
                assert prompt is not None
                tail = self._keys.of_tokens(np.concatenate((prompt[num_pages * page_size :], output[:-1])))
            keys = np.concatenate((keys, tail))
        return keys, prompt_tokens

    def _generate(self, session: Session, number: int) -> TokenArray | None:
        """The turn's output, if a later turn contains it."""
        name = session.session_id
        if name not in self._contained:
            self._contained[name] = {
                segment.turn
                for turn in session.turns
                for segment in turn.segments
                if isinstance(segment, OutputOf)
            }
        if number not in self._contained[name]:
            return None
        start, self._fresh = self._fresh, self._fresh + session.turns[number].output_len
        if self._fresh > 2**31:
            raise WorkloadError(f"outputs of {self._fresh - FRESH_TOKEN_BASE} tokens: ids would pass 2**31")
        output = np.arange(start, self._fresh, dtype=np.int32)
        self._generated.setdefault(name, {})[number] = output
        return output


def _prompt_len(turn: Turn) -> int:
    return sum(len(segment) for segment in turn.segments if not isinstance(segment, OutputOf))
