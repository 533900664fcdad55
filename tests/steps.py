"""What tests do with a cache again and again, and an engine whose KV can be read back.

`Engine` keeps a memory in which every slot holds the whole prefix that ends there, so that a page which was
freed, reused or never written shows at once.
"""

from dataclasses import dataclass, field
from typing import Any

from radixcache import CacheConfig, Namespace, PageCopy, PrefixCache, Sequence, Tokens, check

PROBE = 2**31 - 1
"""A last token that no test caches: the last token of a prompt never matches."""


def make_cache(num_pages: int = 8, page_size: int = 4, **settings: Any) -> PrefixCache:
    return PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size, **settings))


def begin(cache: PrefixCache, tokens: Any, namespace: Namespace = None, **how: Any) -> Sequence:
    """A live sequence whose tokens are all computed and not published."""
    seq = cache.open(tokens, namespace, **how)
    compute(seq)
    return seq


def compute(seq: Sequence) -> Sequence:
    """Compute all known tokens."""
    left = seq.num_tokens - seq.computed_len
    if left:
        seq.reserve(left)
    seq.take_copies()
    if left:
        seq.advance(seq.num_tokens - seq.computed_len)
    return seq


def put(cache: PrefixCache, tokens: Any, namespace: Namespace = None, **how: Any) -> list[int]:
    """Compute and close a sequence; the pages that then hold its whole pages."""
    begin(cache, tokens, namespace, **how).close()
    return pages_of(cache, tokens, namespace)


def matched(cache: PrefixCache, tokens: Any, namespace: Namespace = None) -> int:
    """Tokens of `tokens` that are cached, the last one included."""
    return cache.peek([*tokens, PROBE], namespace).matched_len


def pages_of(cache: PrefixCache, tokens: Any, namespace: Namespace = None) -> list[int]:
    """The pages that hold them."""
    return cache.peek([*tokens, PROBE], namespace).pages.tolist()


def fill(cache: PrefixCache, *, start: int = 1_000_000) -> None:
    """Cache one-page prompts until no page is free."""
    size = cache.config.page_size
    for number in range(cache.pages.free):
        put(cache, range(start + number * size, start + (number + 1) * size))


def run_of(first: int, num_tokens: int) -> list[int]:
    return list(range(first, first + num_tokens))


@dataclass(eq=False)
class Running:
    """A live sequence and what the engine knows of it."""

    seq: Sequence
    tokens: list[int]
    identity: object


@dataclass
class Engine:
    """Runs sequences on a cache and remembers what it wrote where."""

    cache: PrefixCache
    memory: dict[int, tuple[object, ...]] = field(default_factory=dict)
    live: list[Running] = field(default_factory=list)
    epoch: int = 0

    def open(self, tokens: list[int], namespace: Namespace = None, **how: Any) -> Running:
        identity = (namespace, self.epoch)
        running = Running(self.cache.open(tokens, namespace, **how), list(tokens), identity)
        self.live.append(running)
        return running

    def compute(self, running: Running, extend_len: int | None = None) -> None:
        """Reserve, run the copies, write, advance."""
        seq = running.seq
        target = seq.num_tokens if extend_len is None else seq.computed_len + extend_len
        seq.reserve(max(1, target - seq.computed_len))
        self.copy(seq.take_copies())
        self.write(running, max(0, target - seq.computed_len))

    def write(self, running: Running, num_tokens: int) -> None:
        seq = running.seq
        start, stop = seq.computed_len, seq.computed_len + num_tokens
        for slot, position in zip(seq.slots(start, stop).tolist(), range(start, stop), strict=True):
            self.memory[slot] = (running.identity, *running.tokens[: position + 1])
        seq.advance(num_tokens)

    def copy(self, copies: list[PageCopy]) -> None:
        size = self.cache.config.page_size
        for source, target, num_tokens in copies:
            for offset in range(num_tokens):
                self.memory[target * size + offset] = self.memory[source * size + offset]

    def begin(self, tokens: list[int], namespace: Namespace = None, **how: Any) -> Running:
        running = self.open(tokens, namespace, **how)
        self.compute(running)
        return running

    def generate(self, running: Running, *token_ids: int) -> None:
        """Append tokens and compute each in a step of its own."""
        for token in token_ids:
            running.seq.append([token])
            running.tokens.append(token)
            self.compute(running)

    def fork(self, running: Running) -> Running:
        child = Running(running.seq.fork(), list(running.tokens), running.identity)
        self.live.append(child)
        return child

    def close(self, running: Running) -> None:
        running.seq.close()
        self.live.remove(running)

    def abort(self, running: Running) -> None:
        running.seq.abort()
        self.live.remove(running)

    def put(self, tokens: list[int], namespace: Namespace = None) -> list[int]:
        self.close(self.begin(tokens, namespace))
        return pages_of(self.cache, tokens, namespace)

    def verify(self) -> None:
        """Every live sequence reads back what it computed, and everything cached what it is cached for."""
        check(self.cache)
        size = self.cache.config.page_size
        for running in self.live:
            ordered = {copy.target for copy in running.seq._copies}
            slots = running.seq.slots(0, running.seq.computed_len).tolist()
            for position, slot in enumerate(slots):
                if slot // size in ordered:
                    continue
                expected = (running.identity, *running.tokens[: position + 1])
                assert self.memory[slot] == expected, (
                    f"position {position} of {running.seq!r} reads foreign KV"
                )
        self._verify_cached()

    def _verify_cached(self) -> None:
        size = self.cache.config.page_size
        prefixes: dict[int, tuple[int, ...]] = {}
        for run in self.cache.snapshot().stored:
            prefix = () if run.parent_page is None else prefixes[run.parent_page]
            for number, page in enumerate(run.pages):
                prefix = (*prefix, *run.tokens[number * size : (number + 1) * size])
                prefixes[page] = prefix
                for offset in range(size):
                    (namespace, _), *held = self.memory[page * size + offset]
                    assert namespace == run.namespace
                    assert tuple(held) == prefix[: len(prefix) - size + offset + 1], (
                        f"page {page} holds other KV"
                    )


def tree_of(cache: PrefixCache, namespace: Namespace = None) -> dict[tuple[int, ...], int]:
    """Lock count of every node, by the tokens of its whole path."""
    tree = cache._state.tree
    paths: dict[int, tuple[int, ...]] = {}
    found: dict[tuple[int, ...], int] = {}
    for root in tree.all_roots():
        if root.namespace != namespace:
            continue
        paths[root.number] = ()
        for node in tree.nodes(root):
            assert node.parent is not None
            path = (*paths[node.parent.number], *Tokens.trusted(node.live_edge()))
            paths[node.number] = path
            found[path] = node.lock_count
    return found
