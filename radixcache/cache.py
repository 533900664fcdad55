"""The façade: what an engine holds."""

from dataclasses import dataclass

import numpy as np

from radixcache.allocator import PageArray
from radixcache.arguments import as_integer, as_seconds
from radixcache.config import CacheConfig
from radixcache.errors import CacheBusy, InvalidArgument, InvalidTokens
from radixcache.events import CacheObserver, EventLog, Snapshot, Stored
from radixcache.eviction import Use
from radixcache.lifecycle import Opening
from radixcache.misses import Miss, MissReason
from radixcache.namespace import Namespace, namespace_key
from radixcache.node import Node, Root
from radixcache.observer_errors import without
from radixcache.sequence import Sequence
from radixcache.state import CacheState
from radixcache.stats import CacheStats, PageCounts, stats_of
from radixcache.tokens import TOKEN_BYTES, Tokens, TokenSource


@dataclass(frozen=True, slots=True)
class Match:
    """What `peek` found, as it was at that moment.

    Attributes:
        matched_len: Tokens found; a multiple of the page size, less than the prompt.
    """

    matched_len: int
    _pieces: list[bytes]

    @property
    def pages(self) -> PageArray:
        """The pages that hold them, int32 of shape [matched_len / page_size], read-only. Not locked."""
        return np.frombuffer(b"".join(self._pieces), dtype=np.int32)


class PrefixCache:
    """Maps token sequences to KV pages and shares equal prefixes.

    It decides which page holds what; the KV itself, and when to compute it, are the engine's. One thread at a
    time. Reads no clock.

    Args:
        config: Settings.

    Example:
        >>> cache = PrefixCache(CacheConfig(num_pages=8, page_size=2))
        >>> with cache.open([1, 2, 3, 4, 5]) as seq:
        ...     seq.reserve(5)
        ...     seq.advance(5)
        >>> cache.peek([1, 2, 3, 9]).matched_len
        2
        >>> cache.pages
        PageCounts(free=6, private=0, evictable=2, locked=0, total=8)
    """

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self._state = CacheState(config)
        self.observer_errors = self._state.observer_errors
        """What observers raised; a scheduler holds it back until its call is complete."""
        self.events: EventLog | None = None
        """The numbered event stream, where the configuration asks for one."""
        if config.max_events:
            self.events = EventLog(config.max_events)
            self.subscribe(self.events)

    # Prefixes

    def peek(self, prompt: TokenSource, namespace: Namespace = None) -> Match:
        """The longest cached prefix. Reads only: no split, no touch, no count, no lock.

        Args:
            prompt: Token ids, at least one.
            namespace: Where to look.

        Raises:
            InvalidTokens, InvalidTokenType: See `Tokens`; or the prompt is empty.
            InvalidArgumentType: See `namespace_key`.

        Complexity:
            O(d) Python steps + O(tokens compared) memcmp.
        """
        data = as_prompt(prompt).data
        state = self._state
        root = state.tree.roots.get(namespace_key(namespace))
        if root is None:
            return Match(0, [])
        page_bytes = state.page_bytes
        walk = state.tree.walk(root, data, 0, _usable(data, page_bytes))
        return Match((walk.at // page_bytes + walk.child_pages) * state.page_size, walk.pages)

    def open(
        self,
        prompt: TokenSource,
        namespace: Namespace = None,
        *,
        read: bool = True,
        write: bool = True,
        resumed: bool = False,
        priority: int = 0,
        retain: float | None = None,
    ) -> Sequence:
        """Match and lock the longest cached prefix in one step. Allocates no page.

        Nothing is counted or refreshed before the first successful `reserve`.

        Args:
            prompt: Token ids, at least one.
            namespace: Where to look and publish.
            read: `False`: match nothing and count nothing (every token's KV or log-probability is wanted).
            write: `False`: publish nothing.
            resumed: The sequence comes back after a preemption; counts in counters of its own.
            priority: Hint for eviction, >= 0; higher stays longer.
            retain: Seconds (lookups, where nobody calls `advance_time`) after which the hint ends, >= 0.
                Without a priority it gives priority 1.

        Raises:
            InvalidTokens, InvalidTokenType: See `Tokens`; or the prompt is empty.
            InvalidArgument, InvalidArgumentType: A hint or the namespace is out of range.

        Complexity:
            O(d) Python steps + O(tokens compared) memcmp, and one split at most.
        """
        tokens = as_prompt(prompt)
        key = namespace_key(namespace)
        use = self._use(priority, retain)
        state, data = self._state, tokens.data
        tree, page_bytes = state.tree, state.page_bytes
        root = tree.root(key, namespace)
        limit = _usable(data, page_bytes) if read else 0
        node, at, child, child_pages, pages = tree.walk(root, data, 0, limit)
        if child is not None:
            node = tree.split(child, child_pages)
            at += child_pages * page_bytes
        tree.lock(node)
        how = Opening(write, read, resumed, use)
        seq = Sequence(state, next(state.sequence_numbers), tokens, node, b"".join(pages), how)
        if read:
            seq.miss = self._explain(root, node, data, at, limit)
            if state.config.partial_reuse and node.agreement is not None:
                self._offer(seq, node, data, at)
        seq._announce()
        state.live[seq._number] = seq
        return seq

    def _offer(self, seq: Sequence, node: Node, data: bytes, at: int) -> None:
        assert node.agreement is not None
        found = node.agreement.longest(data, at, len(data) - TOKEN_BYTES)
        if found is not None:
            child, num_tokens = found
            seq._offer = (self._state.copies.from_node(child), num_tokens)

    def _explain(self, root: Root, node: Node, data: bytes, at: int, limit: int) -> Miss:
        state = self._state
        page_bytes = state.page_bytes
        tail = len(data) - limit
        tail_reason = MissReason.LAST_TOKEN if tail == page_bytes else MissReason.SHORTER_THAN_PAGE
        tail_tokens = tail // TOKEN_BYTES
        if at >= limit:
            return Miss(None, 0, tail_reason, tail_tokens)
        next_page = data[at : at + page_bytes]
        reason, age = MissReason.NEVER_SEEN, None
        anchor = state.tree.anchor(node)
        flight_anchor = anchor if isinstance(anchor, int) else -root.number
        if (flight_anchor, next_page) in state.in_flight:
            reason = MissReason.IN_FLIGHT
        elif (time := state.ghosts.time_of(anchor, next_page)) is not None:
            reason, age = MissReason.EVICTED, state.now - time
        elif state.tree.cached_elsewhere(root, data, at):
            reason = MissReason.OTHER_NAMESPACE
        return Miss(reason, (limit - at) // TOKEN_BYTES, tail_reason, tail_tokens, age)

    def _use(self, priority: int, retain: float | None) -> Use:
        if type(priority) is not int:
            priority = as_integer("priority", priority)
        if priority < 0:
            raise InvalidArgument(f"priority is at least 0, got {priority}")
        if retain is None:
            return Use(priority) if priority else _NO_HINT
        seconds = as_seconds("retain", retain)
        if seconds < 0:
            raise InvalidArgument(f"retain is at least 0, got {retain}")
        return Use(max(1, priority), self._state.now + seconds)

    # Pages

    @property
    def pages(self) -> PageCounts:
        """Pages by state."""
        return self._state.page_counts()

    def evict(self, num_pages: int) -> int:
        """Evict exactly `num_pages` pages, or all that are evictable if they are fewer.

        Returns:
            The number of pages that became free.

        Raises:
            InvalidArgument, InvalidArgumentType: `num_pages` is no integer, or negative.

        Complexity:
            O(k log n) for k leaves that go, of n evictable ones.
        """
        num_pages = as_integer("num_pages", num_pages)
        if num_pages < 0:
            raise InvalidArgument(f"num_pages is at least 0, got {num_pages}")
        return self._state.evict(num_pages)

    def reset(self) -> None:
        """Drop every cached page and every record of what was cached. Counters go on.

        Raises:
            CacheBusy: Sequences live. Nothing changed.
        """
        state = self._state
        if state.live:
            raise CacheBusy(f"{len(state.live)} sequences live in the cache; close or abort them first")
        state.clear()
        state.tell_cleared(None, everything=True)

    def retire(self, namespace: Namespace) -> int:
        """Drop everything that `namespace` caches: its weights, adapter or tenant are gone.

        What live sequences use stays with them until they end, and is given back then; they publish nothing
        more. Whoever opens the same namespace from now on starts with nothing.

        Returns:
            Pages that became free at once.

        Complexity:
            O(nodes of the namespace * log n + eviction records).
        """
        key = namespace_key(namespace)
        self._state.ghosts.forget_namespace(key)
        root = self._state.tree.roots.get(key)
        return 0 if root is None else self._state.retire(root)

    def advance_time(self, now: float) -> None:
        """Tell the time, for retention times and the ages of evicted pages.

        Tell it before the first sequence is opened, or never: what was noted in lookups is not converted.

        Args:
            now: Seconds since any fixed moment, not falling.

        Raises:
            InvalidArgument, InvalidArgumentType: `now` is no finite number, or earlier than last time.
        """
        state, now = self._state, as_seconds("now", now)
        if state.time is not None and now < state.time:
            raise InvalidArgument(f"time cannot go from {state.time} to {now}")
        state.time = now
        state.tree.policy.advance_time(now)

    # What happened

    @property
    def stats(self) -> CacheStats:
        """Counters and gauges at this moment."""
        state = self._state
        return stats_of(
            state.counters,
            live_sequences=len(state.live),
            num_nodes=state.tree.num_nodes,
            num_namespaces=len(state.tree.all_roots()),
            num_ghosts=len(state.ghosts),
        )

    def subscribe(self, observer: CacheObserver) -> None:
        """Tell `observer` of every change from now on."""
        self._state.observers += (observer,)

    def unsubscribe(self, observer: CacheObserver) -> None:
        """Tell `observer` nothing more.

        Raises:
            InvalidArgument: It was not subscribed.
        """
        self._state.observers = without(self._state.observers, observer)

    def snapshot(self) -> Snapshot:
        """All cached pages, numbered so that the event stream goes on where the snapshot ends.

        Complexity:
            O(cached tokens).
        """
        tree = self._state.tree
        epoch, sequence = (self.events.epoch, self.events.next_sequence) if self.events else (0, 0)
        stored = []
        for root in tree.roots.values():
            for node in tree.nodes(root):
                anchor = tree.anchor(node.parent or root)
                parent_page = anchor if isinstance(anchor, int) else None
                pages = tuple(np.frombuffer(node.live_pages(), dtype=np.int32).tolist())
                tokens = Tokens.trusted(node.live_edge())
                stored.append(Stored(epoch, sequence, root.namespace, parent_page, pages, tokens))
        return Snapshot(epoch, sequence, tuple(stored))


_NO_HINT = Use()


def as_prompt(prompt: TokenSource) -> Tokens:
    """The prompt as `Tokens`, at least one."""
    tokens = prompt if type(prompt) is Tokens else Tokens(prompt)
    if not tokens.data:
        raise InvalidTokens("a prompt has at least one token, got none")
    return tokens


def _usable(data: bytes, page_bytes: int) -> int:
    """How far a match may reach: the last prompt token is always recomputed, so that logits exist."""
    return (len(data) - TOKEN_BYTES) // page_bytes * page_bytes
