"""What the cache must do, verb by verb, on a dictionary of page prefixes.

The state is a dictionary of cached prefixes and a list of live sequences; everything else (locks,
free pages, counts) is worked out from these two each time. Which page goes next is left to
`_next_victim`: `page_lru` knows it for LRU, `told_victims` takes it from the product and judges it.
A sequence is named by the number that `open` or `fork` returned. Knows no nodes and no page ids.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from tests.oracles.model import (
    RETIRED,
    CachedPage,
    Copy,
    Counts,
    MisuseOracle,
    Namespace,
    Offer,
    OracleSequence,
    OutOfPagesOracle,
    Prefix,
    Statistics,
    is_retired,
)


class PageCacheOracle:
    """The verbs of a prefix cache over `num_pages` pages, for any eviction policy.

    `victims` holds the pages that the last verb evicted, in order, each without cached children
    when it went. `OutOfPagesOracle` and `MisuseOracle` leave everything but `victims` unchanged.
    """

    def __init__(self, num_pages: int, page_size: int, *, partial_reuse: bool = False) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.partial_reuse = partial_reuse
        self.cached: dict[Prefix, CachedPage] = {}
        self.live: dict[int, OracleSequence] = {}
        self.victims: list[Prefix] = []
        self.stats = Statistics()
        self._clock = 0
        self._next_serial = 0
        self._next_handle = 0
        self._num_retired = 0

    # What can be asked ------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """Return the pages by state."""
        locked = len(self.locked())
        private = len(self.private())
        return Counts(
            free=self.num_pages - private - len(self.cached),
            private=private,
            evictable=len(self.cached) - locked,
            locked=locked,
            total=self.num_pages,
        )

    def sequence(self, handle: int) -> OracleSequence:
        """Return the live sequence of that number, to be read only.

        Raises:
            MisuseOracle: it has ended, or never was.
        """
        if handle not in self.live:
            raise MisuseOracle(f"sequence {handle} is not live")
        return self.live[handle]

    def path(self, namespace: Namespace, tokens: Sequence[int]) -> list[Prefix]:
        """Return the prefixes of all full pages of `tokens`, root first, cached or not."""
        ends = range(self.page_size, len(tokens) + 1, self.page_size)
        return [(namespace, tuple(tokens[:end])) for end in ends]

    def locked(self) -> set[Prefix]:
        """Return the cached pages in use: every held prefix, and every copy source with its own."""
        held: set[Prefix] = set()
        for seq in self.live.values():
            held.update(self.path(seq.namespace, seq.tokens[: seq.published_len]))
        sources = self._sources()
        for prefix, page in self.cached.items():
            if page.serial in sources:
                held.update(self.path(*prefix))
        return held

    def private(self) -> set[int]:
        """Return the uncached pages of live sequences, those kept for a copy included."""
        cached = {page.serial for page in self.cached.values()}
        owned = {serial for seq in self.live.values() for serial in seq.pages}
        return (owned | self._sources()) - cached

    def evictable_leaves(self) -> list[Prefix]:
        """Return the unlocked pages without cached children."""
        locked = self.locked()
        parents = {(ns, tokens[: -self.page_size]) for ns, tokens in self.cached}
        return [prefix for prefix in self.cached if prefix not in locked | parents]

    def peek(self, prompt: Sequence[int], *, namespace: Namespace = None) -> int:
        """Return the tokens of the longest cached prefix that leaves one token to compute."""
        self.victims = []
        matched_len = 0
        for prefix in self.path(namespace, prompt[:-1]):
            if prefix not in self.cached:
                break
            matched_len += self.page_size
        return matched_len

    def offers(self, prompt: Sequence[int], matched_len: int, *, namespace: Namespace = None) -> list[Offer]:
        """Return every longest offer behind a match; several when cached pages agree equally."""
        wanted = tuple(prompt[matched_len:-1])
        found: list[Offer] = []
        for ns, tokens in self.cached:
            is_child = ns == namespace and len(tokens) == matched_len + self.page_size
            if is_child and tokens[:matched_len] == tuple(prompt[:matched_len]):
                agreement = _agreement(tokens[matched_len:], wanted)
                found.append(Offer(source=(ns, tokens), num_tokens=agreement))
        longest = max((offer.num_tokens for offer in found), default=0)
        ties = [offer for offer in found if offer.num_tokens == longest > 0]
        return sorted(ties, key=lambda offer: offer.source[1])

    # Verbs ------------------------------------------------------------------------------------

    def open(
        self,
        prompt: Sequence[int],
        *,
        namespace: Namespace = None,
        read: bool = True,
        write: bool = True,
        resumed: bool = False,
        source: Prefix | None = None,
    ) -> int:
        """Match and lock; return the number of the new sequence. Allocates and touches nothing.

        `source` says which of several equally long offers the product chose (node numbers decide
        there, and there are none here); without it the smallest tokens win.

        Raises:
            MisuseOracle: `source` is none of the longest offers.
        """
        self.victims = []
        matched_len = self.peek(prompt, namespace=namespace) if read else 0
        can_offer = read and self.partial_reuse
        offers = self.offers(prompt, matched_len, namespace=namespace) if can_offer else []
        if source is not None:
            offers = [offer for offer in offers if offer.source == source]
            if not offers:
                raise MisuseOracle(f"{source} is no longest partial match")
        seq = OracleSequence(
            namespace=namespace,
            tokens=list(prompt),
            prompt_len=len(prompt),
            read=read,
            write=write,
            resumed=resumed,
            matched_len=matched_len,
            computed_len=matched_len,
            published_len=matched_len,
            pages=[self.cached[p].serial for p in self.path(namespace, prompt[:matched_len])],
        )
        if offers:
            seq.offer = offers[0]
            seq.sources = {self.cached[offers[0].source].serial}
        return self._admit(seq)

    def reserve(self, handle: int, extend_len: int) -> None:
        """Hold pages up to `computed_len + extend_len`; take the offer; count and touch once.

        Raises:
            OutOfPagesOracle: not enough pages, also without the lock of an offer not yet taken.
            MisuseOracle: the sequence is not live, or a negative length.
        """
        seq = self._begin(handle)
        if extend_len < 0:
            raise MisuseOracle(f"negative length {extend_len}")
        pages = -(-(seq.computed_len + extend_len) // self.page_size)
        num_fresh = max(0, pages - len(seq.pages))
        try:
            fresh = self._allocate(num_fresh)
        except OutOfPagesOracle:
            if seq.offer is None:
                raise
            offer, sources, seq.offer, seq.sources = seq.offer, seq.sources, None, set()
            try:
                fresh = self._allocate(num_fresh)
            except OutOfPagesOracle:
                seq.offer, seq.sources = offer, sources
                self._out_of_pages(num_fresh)
        seq.pages += fresh
        if not seq.is_counted:
            self._count(seq)
        target = seq.computed_len // self.page_size
        if seq.offer is not None and target < len(seq.pages):
            self._take_offer(seq, seq.offer, seq.pages[target])

    def take_copies(self, handle: int) -> list[Copy]:
        """Return the copies not yet taken, in position order; from now on they count as made."""
        seq = self._begin(handle)
        copies, seq.copies = seq.copies, []
        return copies

    def advance(self, handle: int, extend_len: int) -> None:
        """Note that `extend_len` more tokens are written; let go of all copy sources.

        Raises:
            MisuseOracle: untaken copies, or past the known tokens or the reserved pages.
        """
        seq = self._begin(handle)
        computed_len = seq.computed_len + extend_len
        room = min(seq.num_tokens, len(seq.pages) * self.page_size)
        if seq.copies or extend_len < 0 or computed_len > room:
            raise MisuseOracle(f"{len(seq.copies)} untaken copies, {computed_len} of {room} tokens")
        seq.computed_len = computed_len
        seq.offer, seq.sources = None, set()
        self._sweep_retired()

    def append(self, handle: int, token_ids: Sequence[int]) -> None:
        """Make generated tokens known."""
        self._begin(handle).tokens.extend(token_ids)

    def publish(self, handle: int) -> None:
        """Make full written pages visible; swap those that are cached already. Needs no page."""
        self._publish(self._begin(handle))

    def fork(self, handle: int) -> int:
        """Publish, then return the number of a child that shares what is published.

        Written pages that cannot be shared are copied: the partial one, and with `write=False` all
        private ones. They are kept for the child until its next `advance` or its end.

        Raises:
            OutOfPagesOracle: no room for the copies; then nothing was published either.
            MisuseOracle: untaken copies.
        """
        if self._begin(handle).copies:
            raise MisuseOracle("fork with untaken copies")
        # A rehearsal, because the publish that comes first must not stay when pages lack.
        copy.deepcopy(self)._fork(handle)
        return self._fork(handle)

    def close(self, handle: int) -> None:
        """Publish, then give everything else back."""
        self._publish(self._begin(handle))
        del self.live[handle]
        self._sweep_retired()

    def abort(self, handle: int) -> None:
        """Give back everything that is not published."""
        self._begin(handle)
        del self.live[handle]
        self._sweep_retired()

    def evict(self, num_pages: int) -> int:
        """Evict `num_pages` pages, or all evictable ones if they are fewer; return how many."""
        self.victims = []
        num_pages = min(num_pages, self.counts.evictable)
        self._evict(num_pages)
        return num_pages

    def reset(self) -> None:
        """Forget everything cached.

        Raises:
            MisuseOracle: sequences live.
        """
        self.victims = []
        if self.live:
            raise MisuseOracle(f"{len(self.live)} sequences live")
        self.cached.clear()

    def retire(self, namespace: Namespace) -> int:
        """Drop what `namespace` caches; return the pages that became free at once.

        Its live sequences keep what they hold, under a name that nobody can ask for, and publish
        nothing more; pages that they leave are gone.
        """
        self.victims = []
        self._num_retired += 1
        gone = (RETIRED, str(self._num_retired))
        self.cached = {
            (gone, tokens) if ns == namespace else (ns, tokens): page
            for (ns, tokens), page in self.cached.items()
        }
        for seq in self.live.values():
            if seq.namespace == namespace:
                seq.namespace, seq.write = gone, False
                if seq.offer is not None:
                    seq.offer = replace(seq.offer, source=(gone, seq.offer.source[1]))
        return self._sweep_retired()

    def visible(self) -> dict[Prefix, int]:
        """Return the serials of the cached pages that a lookup can find."""
        return {(ns, tokens): page.serial for (ns, tokens), page in self.cached.items() if not is_retired(ns)}

    def check(self) -> None:
        """Assert what holds in every state of this oracle."""
        counts = self.counts
        sizes = (counts.free, counts.private, counts.evictable, counts.locked)
        assert min(sizes) >= 0, counts
        assert sum(sizes) == counts.total, counts
        assert self.locked() <= self.cached.keys()
        for (ns, tokens), page in self.cached.items():
            assert len(tokens) % self.page_size == 0
            parent = self.cached.get((ns, tokens[: -self.page_size]))
            assert parent is not None or len(tokens) == self.page_size, (ns, tokens)
            assert parent is None or parent.stamp >= page.stamp, (ns, tokens)
        stamps = [self.cached[leaf].stamp for leaf in self.evictable_leaves()]
        assert len(set(stamps)) == len(stamps), "two evictable leaves of one touch"

    # What the verbs are made of ---------------------------------------------------------------

    def _next_victim(self) -> Prefix:
        """Return the evictable leaf to go next; there is at least one."""
        raise NotImplementedError

    def _begin(self, handle: int) -> OracleSequence:
        self.victims = []
        return self.sequence(handle)

    def _admit(self, seq: OracleSequence) -> int:
        self._next_handle += 1
        self.live[self._next_handle] = seq
        return self._next_handle

    def _sources(self) -> set[int]:
        return {serial for seq in self.live.values() for serial in seq.sources}

    def _touch(self, namespace: Namespace, tokens: Sequence[int]) -> None:
        self._clock += 1
        for prefix in self.path(namespace, tokens):
            self.cached[prefix].stamp = self._clock

    def _hit(self, namespace: Namespace, tokens: Sequence[int]) -> None:
        """Note that a matched prefix is used."""
        self._touch(namespace, tokens)

    def _count(self, seq: OracleSequence) -> None:
        seq.is_counted = True
        if seq.matched_len:
            self._hit(seq.namespace, seq.tokens[: seq.matched_len])
        if not seq.read:
            return
        if seq.resumed:
            self.stats.resumed_lookups += 1
            self.stats.resumed_prompt_tokens += seq.prompt_len
            self.stats.resumed_matched_tokens += seq.matched_len
        else:
            self.stats.lookups += 1
            self.stats.prompt_tokens += seq.prompt_len
            self.stats.matched_tokens += seq.matched_len

    def _take_offer(self, seq: OracleSequence, offer: Offer, target: int) -> None:
        source = self.cached[offer.source].serial
        seq.copies.append(Copy(source=source, target=target, num_tokens=offer.num_tokens))
        seq.computed_len += offer.num_tokens
        if not seq.resumed:
            self.stats.copied_tokens += offer.num_tokens
        seq.offer = None

    def _publish(self, seq: OracleSequence) -> None:
        if not seq.write:
            return
        path = self.path(seq.namespace, seq.tokens[: seq.computed_len])
        has_added = False
        for index in range(seq.published_len // self.page_size, len(path)):
            if path[index] in self.cached:
                seq.pages[index] = self.cached[path[index]].serial
                self.stats.duplicate_pages += 1
            else:
                self.cached[path[index]] = CachedPage(serial=seq.pages[index], stamp=0)
                has_added = True
        seq.published_len = len(path) * self.page_size
        if has_added:
            self._touch(seq.namespace, seq.tokens[: seq.published_len])

    def _fork(self, handle: int) -> int:
        parent = self.live[handle]
        self._publish(parent)
        num_shared = parent.published_len // self.page_size
        written = parent.pages[num_shared : -(-parent.computed_len // self.page_size)]
        fresh = self._allocate(len(written))
        child = OracleSequence(
            namespace=parent.namespace,
            tokens=list(parent.tokens),
            prompt_len=parent.prompt_len,
            read=parent.read,
            write=parent.write,
            resumed=parent.resumed,
            matched_len=parent.matched_len,
            computed_len=parent.computed_len,
            published_len=parent.published_len,
            pages=parent.pages[:num_shared] + fresh,
            is_counted=True,
            sources=set(written),
        )
        for index, (source, target) in enumerate(zip(written, fresh, strict=True), num_shared):
            num_tokens = min(parent.computed_len - index * self.page_size, self.page_size)
            child.copies.append(Copy(source=source, target=target, num_tokens=num_tokens))
        return self._admit(child)

    def _allocate(self, num_pages: int) -> list[int]:
        counts = self.counts
        if num_pages > counts.free + counts.evictable:
            self._out_of_pages(num_pages)
        self._sweep_retired()
        self._evict(num_pages - self.counts.free)
        first, self._next_serial = self._next_serial, self._next_serial + num_pages
        return list(range(first, self._next_serial))

    def _out_of_pages(self, needed: int) -> NoReturn:
        counts = self.counts
        raise OutOfPagesOracle(
            needed=needed, free=counts.free, evictable=counts.evictable, locked=counts.locked
        )

    def _sweep_retired(self) -> int:
        if not self._num_retired:
            return 0
        locked = self.locked()
        idle = [prefix for prefix in self.cached if is_retired(prefix[0]) and prefix not in locked]
        for prefix in idle:
            del self.cached[prefix]
        return len(idle)

    def _evict(self, num_pages: int) -> None:
        for _ in range(num_pages):
            victim = self._next_victim()
            del self.cached[victim]
            self.victims.append(victim)
            self.stats.evicted_pages += 1


def _agreement(left: Sequence[int], right: Sequence[int]) -> int:
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return length
