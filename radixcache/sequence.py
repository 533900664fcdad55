"""What one request holds: its tokens, its pages, its place in the tree, and the verbs that move them."""

from array import array
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from radixcache.allocator import PageArray, PageIds
from radixcache.arguments import as_integer
from radixcache.copies import CopySource, PageCopy
from radixcache.errors import InvalidArgument, SequenceStateError
from radixcache.lifecycle import LIVE, Opening, PartialMatch, SequenceState, require_legal
from radixcache.misses import Miss
from radixcache.node import PAGE_ID_BYTES, Node
from radixcache.state import CacheState
from radixcache.tokens import TOKEN_BYTES, Tokens, TokenSource


class Sequence:
    """What a live request holds. Made by `PrefixCache.open` and `fork`, ended by `close` or `abort`.

    As a context manager it closes on success and aborts on an exception.

    Attributes:
        matched_len: Tokens that were cached when the sequence was opened and need no prefill; a multiple of
            the page size, less than the prompt.
        computed_len: Tokens whose KV is written.
        miss: Why the rest of the prompt was not there; `None` where nothing was looked for.
    """

    def __init__(
        self, state: CacheState, number: int, prompt: Tokens, node: Node, pages: bytes, how: Opening
    ) -> None:
        self._cache = state
        self._number = number
        self._prompt = prompt.data
        self._tail = bytearray()
        self._node = node
        self._how = how
        self._state = SequenceState.OPEN
        self._table: PageIds = array("i", pages)
        self._table_view: PageArray | None = None
        self._num_pages = self._num_published = len(self._table)
        self._published_before = False
        self._copies: list[PageCopy] = []
        self._sources: list[CopySource] = []
        self._offer: tuple[CopySource, int] | None = None
        self._flight: tuple[int, bytes] | None = None
        self.matched_len = self.computed_len = self._num_pages * state.page_size
        self.miss: Miss | None = None

    # What it is

    @property
    def state(self) -> SequenceState:
        """Where the sequence is in its life."""
        return self._state

    @property
    def prompt_len(self) -> int:
        """Tokens of the prompt."""
        return len(self._prompt) // TOKEN_BYTES

    @property
    def num_tokens(self) -> int:
        """Tokens known: prompt and appended ones."""
        return (len(self._prompt) + len(self._tail)) // TOKEN_BYTES

    @property
    def published_len(self) -> int:
        """Leading tokens whose pages belong to the tree."""
        return self._num_published * self._cache.page_size

    @property
    def reserved_len(self) -> int:
        """Tokens that the pages of this sequence have room for."""
        return self._num_pages * self._cache.page_size

    @property
    def partial(self) -> PartialMatch | None:
        """The offer to copy the start of a cached page, until `reserve` takes it."""
        return None if self._offer is None else PartialMatch(self._offer[0].page, self._offer[1])

    @property
    def page_table(self) -> PageArray:
        """Page ids in position order, int32 of shape [pages], read-only, valid until the next verb.

        Pages are added at the end, and nothing but a growing `published_len` exchanges those that were there:
        who keeps a copy reads it again then, and only then.
        """
        require_legal("page_table", self._state)
        return self._view()[: self._num_pages]

    def _view(self) -> PageArray:
        """The whole of `_table`, read-only, made once for each."""
        if self._table_view is None:
            self._table_view = np.frombuffer(self._table, dtype=np.int32)
            self._table_view.flags.writeable = False
        return self._table_view

    @property
    def in_flight(self) -> tuple[int | bytes, bytes] | None:
        """The prompt page this sequence will publish next, for those who may wait for it.

        Returns:
            The page before it (the key of the namespace where it is the first) and its tokens; `None` when
            every full page of the prompt is published, or nothing will be.
        """
        if self._flight is None or not self._writes:
            return None
        anchor, next_page = self._flight
        return (anchor if anchor >= 0 else self._node.root.key), next_page

    def private_pages(self) -> list[int]:
        """Ids of the pages that belong to this sequence alone, in position order. O(pages)."""
        return self._table[self._num_published : self._num_pages].tolist()

    def slots(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Slot numbers of the token positions [start, stop), int64 of shape [stop - start].

        Raises:
            InvalidArgument, InvalidArgumentType: Not integers with 0 <= start <= stop <= `reserved_len`.
            SequenceStateError: The sequence has ended.

        Complexity:
            O(stop - start).
        """
        require_legal("slots", self._state)
        start, stop = as_integer("start", start), as_integer("stop", stop)
        if not 0 <= start <= stop <= self.reserved_len:
            raise InvalidArgument(
                f"slots need 0 <= start <= stop <= {self.reserved_len}, got [{start}, {stop})"
            )
        positions = np.arange(start, stop, dtype=np.int64)
        page_size = self._cache.page_size
        return self._view()[positions // page_size].astype(np.int64) * page_size + positions % page_size

    # Pages

    def reserve(self, extend_len: int) -> None:
        """Get pages up to position `computed_len + extend_len`, evicting what is short.

        Idempotent, not cumulative; may reach past `num_tokens`, as room for tokens to come. The first success
        counts the lookup and refreshes the matched prefix; an offered partial page is then taken over, which
        lets `computed_len` grow by its tokens.

        Args:
            extend_len: Tokens to make room for, >= 1, counted from `computed_len` before the call.

        Raises:
            OutOfPages: Not so many are available. Nothing changed.
            InvalidArgument, InvalidArgumentType: `extend_len` is no integer, or less than 1.
            SequenceStateError: The sequence has ended.

        Complexity:
            Amortised O(pages reserved) memcpy, and O(k log n) where k leaves have to go.
        """
        require_legal("reserve", self._state)
        if type(extend_len) is not int:
            extend_len = as_integer("extend_len", extend_len)
        if extend_len < 1:
            raise InvalidArgument(f"extend_len is at least 1, got {extend_len}")
        missing = -(-(self.computed_len + extend_len) // self._cache.page_size) - self._num_pages
        if missing > 0:
            if self._offer is not None:
                self._drop_offer_if_in_the_way(missing)
            self._add_pages(self._cache.take(missing))
        if self._state is SequenceState.OPEN:
            self._state = SequenceState.ACTIVE
            self._admit()

    def _add_pages(self, pages: PageIds) -> None:
        table, used = self._table, self._num_pages
        total = used + len(pages)
        if total <= len(table):
            table[used:total] = pages
        else:
            spare = 0 if self._state is SequenceState.OPEN else total // 2  # many grow once only
            self._table = table[:used] + pages + array("i", bytes(spare * PAGE_ID_BYTES))
            self._table_view = None
        self._num_pages = total

    def _admit(self) -> None:
        cache, how = self._cache, self._how
        if how.counted:
            counters, prompt_len = cache.counters, self.prompt_len
            if how.resumed:
                counters.resumed_lookups += 1
                counters.resumed_tokens += prompt_len
                counters.resumed_matched_tokens += self.matched_len
            else:
                counters.lookups += 1
                counters.prompt_tokens += prompt_len
                counters.matched_tokens += self.matched_len
                cache.tree.policy.admit(prompt_len // cache.page_size)
                if cache.time is None:
                    cache.tree.policy.advance_time(counters.lookups)
                assert self.miss is not None
                reason, num_tokens, tail_reason, tail_tokens, _ = self.miss
                if reason is not None:
                    counters.missed_tokens[reason] += num_tokens
                counters.missed_tokens[tail_reason] += tail_tokens
        if self._node.parent is not None:
            cache.tree.policy.touch(self._node, how.use)
        if self._offer is not None:
            self._take_offer(*self._offer)

    def _take_offer(self, source: CopySource, num_tokens: int) -> None:
        self._offer = None
        self._sources.append(source)
        self._copies.append(PageCopy(source.page, self._table[self._num_published], num_tokens))
        self.computed_len += num_tokens
        if not self._how.resumed:
            self._cache.counters.copied_tokens += num_tokens

    def _drop_offer_if_in_the_way(self, missing: int) -> None:
        """Give up the offer when pages are short with it and are not without it."""
        cache = self._cache
        assert self._offer is not None
        source = self._offer[0]
        assert source.node is not None
        short = missing - cache.allocator.num_free - cache.num_evictable
        if 0 < short <= cache.tree.pages_held_by(source.node):
            self._offer = None
            cache.settle(source)

    def take_copies(self) -> list[PageCopy]:
        """Copies the engine must run before its next step on this sequence; each is handed out once."""
        require_legal("take_copies", self._state)
        copies, self._copies = self._copies, []
        return copies

    # Tokens

    def advance(self, extend_len: int) -> None:
        """The engine says: the KV of that many further known tokens is written.

        Args:
            extend_len: Tokens, >= 0.

        Raises:
            InvalidArgument: More tokens than are known, or than pages are reserved for.
            InvalidArgumentType: `extend_len` is no integer.
            SequenceStateError: Nothing was reserved, the sequence has ended, or copies were not taken.

        Complexity:
            O(1).
        """
        if self._state is not SequenceState.ACTIVE:
            require_legal("advance", self._state)
        if self._copies:
            raise self._copies_wait("advance")
        if type(extend_len) is not int:
            extend_len = as_integer("extend_len", extend_len)
        reach = self.computed_len + extend_len
        most = min(len(self._prompt) + len(self._tail), self._num_pages * self._cache.page_bytes)
        if extend_len < 0 or reach * TOKEN_BYTES > most:
            raise InvalidArgument(
                f"cannot advance by {extend_len}: {self.computed_len} tokens are computed, "
                f"{self.num_tokens} known, {self.reserved_len} have pages"
            )
        self.computed_len = reach
        if self._sources:
            self._settle_sources()

    def append(self, token_ids: TokenSource) -> None:
        """Generated tokens become known; their KV is not written yet.

        Raises:
            InvalidTokens, InvalidTokenType: See `Tokens`.
            SequenceStateError: The sequence has ended.

        Complexity:
            O(len(token_ids)).
        """
        if self._state not in LIVE:
            require_legal("append", self._state)
        self._tail += (token_ids if isinstance(token_ids, Tokens) else Tokens(token_ids)).data

    def _known(self, start: int, stop: int) -> bytes:
        """Bytes [start, stop) of the known tokens."""
        prompt = self._prompt
        behind = len(prompt)
        if stop <= behind:
            return prompt[start:stop]
        return b"".join((memoryview(prompt)[start:], self._tail[max(0, start - behind) : stop - behind]))

    # Sharing

    def publish(self) -> None:
        """Make written full pages visible to others.

        Pages that somebody else published first are given back, and the canonical ones stand in `page_table`
        instead. Recency is refreshed only if pages were added. No-op where the sequence was opened with
        `write=False` or its namespace was retired.

        Raises:
            SequenceStateError: The sequence has ended.

        Complexity:
            O(d) steps + O(new tokens) memcpy.
        """
        require_legal("publish", self._state)
        if self._publish():
            self._announce()

    def _publish(self) -> bool:
        """Returns whether there was anything to publish."""
        cache = self._cache
        full = self.computed_len // cache.page_size
        if full <= self._num_published or not self._writes:
            return False
        tree, page_bytes = cache.tree, cache.page_bytes
        data = self._known(self._num_published * page_bytes, full * page_bytes)
        node, at, child, child_pages, pages = tree.walk(self._node, data, 0, len(data))
        if child is not None:
            node = tree.split(child, child_pages)
            at += child_pages * page_bytes
        if at:
            self._adopt(b"".join(pages))
        leaf = None
        if at < len(data):
            anchor, rest = tree.anchor(node), data[at:]
            new = self._table[self._num_published + at // page_bytes : full]
            node = leaf = tree.attach(node, rest, new.tobytes())
        tree.move_lock(self._node, node)
        self._node = node
        self._num_published = full
        if leaf is not None:
            tree.policy.insert(leaf, self._how.use, continued=self._published_before and not at)
            cache.copies.published(leaf, new)
            cache.ghosts.published(anchor, rest[:page_bytes])
            cache.counters.published_pages += len(new)
            if cache.observers:
                cache.tell_published(leaf, anchor, new, rest)
        self._published_before = leaf is not None
        return True

    def _adopt(self, canonical: bytes) -> None:
        """Swap the first private pages for those that hold the same tokens in the tree."""
        pages = array("i", canonical)
        start = self._num_published
        own = self._table[start : start + len(pages)]
        self._table[start : start + len(pages)] = pages
        self._cache.counters.duplicate_pages += len(pages)
        self._cache.give_back(own)

    def fork(self) -> "Sequence":
        """Open a second sequence with the same tokens, for parallel samples and beams.

        Publishes first. Full pages are shared; the written start of the last page is copied, and with
        `write=False` every private full page too (see `take_copies` of the new sequence). Reserved pages
        without tokens are not shared. Statistics count the two as one lookup.

        Raises:
            OutOfPages: The copies find no pages. Nothing changed.
            SequenceStateError: The sequence has ended, or has copies that were not taken.

        Complexity:
            As `publish`, plus O(pages + appended tokens) memcpy.
        """
        require_legal("fork", self._state)
        if self._copies:
            raise self._copies_wait("fork")
        cache = self._cache
        full, partial = divmod(self.computed_len, cache.page_size)
        num_own = (1 if partial else 0) + (0 if self._writes else full - self._num_published)
        published = self._num_published
        data = self._known(published * cache.page_bytes, full * cache.page_bytes) if self._writes else b""
        if num_own > cache.available_after_publish(self._node, data, self._table[published:full]):
            raise cache.out_of_pages(num_own)
        self.publish()
        own = cache.take(num_own)  # may break off: before the child holds anything
        published = self._num_published
        child = Sequence(
            cache,
            next(cache.sequence_numbers),
            Tokens.trusted(self._prompt),
            self._node,
            self._table[:published].tobytes(),
            self._how._replace(counted=False),
        )
        cache.tree.lock(self._node)
        child._tail = self._tail.copy()
        child.matched_len, child.computed_len, child.miss = self.matched_len, self.computed_len, self.miss
        if own:
            child._copy_from(self._table[published : published + num_own], partial, own)
        child._state = SequenceState.ACTIVE
        child._published_before = self._published_before
        child._announce()
        cache.live[child._number] = child
        cache.counters.forks += 1
        return child

    def _copy_from(self, sources: PageIds, partial: int, targets: PageIds) -> None:
        self._add_pages(targets)
        sizes = [self._cache.page_size] * len(sources)
        if partial:
            sizes[-1] = partial
        for source, target, num_tokens in zip(sources, targets, sizes, strict=True):
            self._sources.append(self._cache.copies.from_sequence(source))
            self._copies.append(PageCopy(source, target, num_tokens))

    # Ending

    def close(self) -> None:
        """Publish, then give everything else back.

        Raises:
            SequenceStateError: The sequence has ended already; nothing is given back twice.

        Complexity:
            As `publish`, plus O(pages given back) and O(d) where nobody else holds the path.
        """
        require_legal("close", self._state)
        self._publish()
        self._end(SequenceState.CLOSED)

    def abort(self) -> None:
        """Give back without publishing; what was published before stays cached.

        Raises:
            SequenceStateError: The sequence has ended already; nothing is given back twice.

        Complexity:
            As `close` without `publish`.
        """
        require_legal("abort", self._state)
        self._end(SequenceState.ABORTED)

    def _end(self, state: SequenceState) -> None:
        cache = self._cache
        self._state = state
        del cache.live[self._number]
        self._withdraw()
        self._copies = []
        if self._sources:
            self._settle_sources()
        if self._offer is not None:
            source, self._offer = self._offer[0], None
            cache.settle(source)
        if self._num_pages > self._num_published:
            cache.give_back(self._table[self._num_published : self._num_pages])
        cache.release(self._node)
        self._table, self._table_view = self._table[:0], None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._state in LIVE:
                self.close()
        finally:
            if self._state in LIVE:
                self.abort()

    # Within

    @property
    def _writes(self) -> bool:
        return self._how.write and not self._node.root.retired

    def _copies_wait(self, verb: str) -> SequenceStateError:
        return SequenceStateError(f"{verb} needs take_copies first: {len(self._copies)} copies wait")

    def _settle_sources(self) -> None:
        sources, self._sources = self._sources, []
        for source in sources:
            self._cache.settle(source)

    def _announce(self) -> None:
        """Say which page this sequence is computing, so that a miss on it can be told from a cold one."""
        if self._flight is not None:
            self._withdraw()
        page_bytes = self._cache.page_bytes
        start = self._num_published * page_bytes
        if start + page_bytes <= len(self._prompt) and self._writes:
            node = self._node
            anchor = node.last_page() if node.parent is not None else -node.number
            self._flight = (anchor, self._prompt[start : start + page_bytes])
            self._cache.in_flight.add(self._flight)

    def _withdraw(self) -> None:
        if self._flight is not None:
            self._cache.in_flight.discard(self._flight)
            self._flight = None

    def __repr__(self) -> str:
        return (
            f"<Sequence {self._state}: {self.num_tokens} tokens, {self.computed_len} computed, "
            f"{self.published_len} published, {self._num_pages} pages>"
        )
