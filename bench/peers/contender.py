"""What every contender does, so that one program can time all."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from bench.harness.meter import Meter
from bench.workloads.material import Ids
from bench.workloads.prompt_stream import StreamedRequest

Row = Literal["memory", "peek", "hold", "churn", "replay", "convert", "schedule"]


class Contender(Protocol):
    """A cache of `num_pages` pages of `page_size` tokens, driven as its own engine drives it."""

    def make_tokens(self, ids: Ids | list[int]) -> Any:
        """Token ids in the type the engine has them in. Timed by the row `convert` only."""
        ...

    def peek(self, tokens: Any) -> int:
        """Look a prompt up; returns the tokens found."""
        ...

    def hold(self, tokens: Any) -> int:
        """Look a prompt up, lock it, get its page table, give it back; returns the tokens found."""
        ...

    def serve(self, tokens: Any, output: Any | None) -> int:
        """A whole request, prompt and output published at the end; returns the tokens found."""
        ...

    def cached_tokens(self) -> int:
        """Tokens that the cache holds now."""
        ...


class Queue(Protocol):
    """Requests that wait for a full cache, as many at any time."""

    @property
    def passes(self) -> Meter:
        """The time of deciding who is next, one sample a dispatch."""
        ...

    def dispatch(self) -> None:
        """Decide who is next, timed; serve it to its end, untimed; let another one join."""
        ...

    def warm_up(self, times: int) -> None:
        """Dispatch so often, and on until pages are evicted, then forget all times."""
        ...

    def verify(self) -> None:
        """Whoever is next is whom the order names.

        Raises:
            WrongResult: Not so.
        """
        ...


Build = Callable[[int, int], Contender]
"""Makes a contender of (pages, tokens of a page)."""

BuildQueue = Callable[[int, Iterator[StreamedRequest], int, int], Queue]
"""Makes a queue of (requests that wait, what arrives, pages, tokens of a page)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is to be known of a contender before any of its code is imported.

    Attributes:
        package: Its distribution, whose version the table shows.
        compiled: Whether its cache is compiled code.
        page_exact: Whether it evicts single pages in LRU order, so that its replay has an exact oracle.
        build: Makes it, given the folder where the peers are installed.
        queues: Its waiting queues, by what the table calls their orders; one of two orders is measured once.
        capacities: Tokens of capacity that it replays the trace at; `None`: all.
        lacks: Why it has no figure, by row or by name of a figure.
        remarks: What to know of a figure, by its name or the start of it.
    """

    package: str
    build: Callable[[Path], Build]
    compiled: bool = False
    page_exact: bool = False
    queues: Mapping[tuple[str, ...], Callable[[Path], BuildQueue]] = field(default_factory=dict)
    capacities: tuple[int, ...] | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
