"""Runs verbs on the cache and on an oracle side by side, and compares everything after each.

After every verb: `check`, the outcome, pages by state, victims in order, every live sequence, which page
holds what (page ids and the oracle's serials map one to one), statistics, the index replayed from events,
the snapshot, and a KV memory that reads back. Calls that must be refused are thrown in between.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from radixcache import CacheConfig, OutOfPages, PageCopy, PrefixCache, Sequence, check
from radixcache.eviction import PolicyFactory
from tests.oracles.model import Namespace, OutOfPagesOracle, Prefix, is_retired
from tests.oracles.page_cache import PageCacheOracle
from tests.oracles.page_fifo import PageFifoOracle
from tests.oracles.page_lru import PageLruOracle
from tests.oracles.told_victims import ToldVictimsOracle
from tests.property import misuse
from tests.property.dump import dump
from tests.property.misses import MissModel
from tests.property.recorder import Recorder
from tests.property.shadow import ShadowKV
from tests.property.stream import Consumer
from tests.strategies import (
    Abort,
    Advance,
    Append,
    Close,
    Evict,
    Fork,
    Open,
    Peek,
    Publish,
    Reserve,
    Reset,
    Retire,
    TakeCopies,
    Verb,
    World,
    apply,
    legal,
)

MISUSE_SHARE = 0.04
ORACLES: dict[object, type[PageCacheOracle]] = {"lru": PageLruOracle, "fifo": PageFifoOracle}
"""Those that predict victims; for any other policy they are told and judged."""


@dataclass(frozen=True, slots=True)
class Step:
    """A verb, and the seed of what the driver adds to it: hints, times, calls to be refused."""

    verb: Verb
    salt: int


@dataclass(slots=True)
class Held:
    """What the driver remembers of a live sequence."""

    seq: Sequence
    namespace: Namespace
    identity: object
    chain: list[int]


class Lockstep:
    """One cache and one oracle; `run` moves both by one verb and compares them."""

    def __init__(self, world: World, *, eviction: str | PolicyFactory = "lru", seed: int = 0) -> None:
        rng = random.Random(seed)
        first_page = rng.choice((0, 1, 7))
        self.cache = PrefixCache(
            CacheConfig(
                num_pages=world.num_pages,
                page_size=world.page_size,
                first_page=first_page,
                eviction=eviction,
                partial_reuse=world.partial_reuse,
                max_ghosts=rng.choice((None, None, 0, 2)),
                max_events=rng.choice((0, 5)),
            )
        )
        oracle = ORACLES.get(eviction, ToldVictimsOracle)
        self.oracle = oracle(world.num_pages, world.page_size, partial_reuse=world.partial_reuse)
        self.recorder = Recorder(self.cache)
        self.cache.subscribe(self.recorder)
        self._consumer = Consumer(self.cache)
        num_slots = (first_page + world.num_pages) * world.page_size
        self._shadow = ShadowKV(num_slots, world.page_size, is_lazy=rng.random() < 0.5)
        self._misses = MissModel(world.page_size)
        self._held: dict[int, Held] = {}
        self._ended: Sequence | None = None
        self._epochs: dict[Namespace, int] = {}
        self._now = 0.0 if rng.random() < 0.5 else None
        if self._now is not None:
            self.cache.advance_time(self._now)
        self.num_verbs = 0
        self.corners: set[str] = set()
        self._num_failed = self._num_forks = self._num_published = 0
        self._verbs: dict[type[Verb], Callable[[Any], Any]] = {
            Open: self._open,
            Peek: self._peek,
            Evict: lambda verb: self.cache.evict(verb.num_pages),
            Reset: lambda verb: self.cache.reset(),
            Retire: self._retire,
            Reserve: self._reserve,
            Advance: self._advance,
            Append: self._append,
            TakeCopies: self._take_copies,
            Publish: lambda verb: self._held[verb.which].seq.publish(),
            Fork: lambda verb: self._held[verb.which].seq.fork(),
            Close: lambda verb: self._held[verb.which].seq.close(),
            Abort: lambda verb: self._held[verb.which].seq.abort(),
        }

    def run(self, step: Step) -> None:
        """Move both by one verb, if it is legal now."""
        self._rng = random.Random(step.salt)
        self._try_misuse()
        self._pass_time()
        verb = legal(step.verb, self.oracle)
        if verb is None:
            return
        self.recorder.forget_last_verb()
        self._began = self._time()
        outcome, verb = self._run_on_cache(verb)
        self._run_on_oracle(verb, outcome)
        self._compare()
        self._note_corners()
        self.num_verbs += 1

    # The cache's side

    def _run_on_cache(self, verb: Verb) -> tuple[Any, Verb]:
        before = None
        if isinstance(verb, Reserve | Fork) and self._may_fail(verb):
            before = dump(self.cache, without_failed_reserves=True)
        outcome = _outcome(self._verbs[type(verb)], verb)
        if isinstance(outcome, OutOfPages):
            assert before is not None, f"{verb} has no reason to fail: {outcome}"
            assert dump(self.cache, without_failed_reserves=True) == before, "a failed verb changed something"
            self._num_failed += 1
        if isinstance(verb, Open) and outcome.partial is not None:
            verb = replace(verb, source=self.recorder.pages[outcome.partial.source_page])
        return outcome, verb

    def _may_fail(self, verb: Reserve | Fork) -> bool:
        available = self.oracle.counts.free + self.oracle.counts.evictable
        seq = self.oracle.sequence(verb.which)
        if isinstance(verb, Fork):
            return available <= -(-seq.computed_len // self.oracle.page_size)
        pages = -(-(seq.computed_len + verb.extend_len) // self.oracle.page_size)
        return pages - len(seq.pages) > available

    def _open(self, verb: Open) -> Sequence:
        hints = {}
        if self._rng.random() < 0.4:
            hints = {"priority": self._rng.randrange(3), "retain": self._rng.choice((None, None, 0, 1, 5.5))}
        return self.cache.open(
            verb.prompt,
            verb.namespace,
            read=verb.read,
            write=verb.write,
            resumed=verb.resumed,
            **hints,
        )

    def _reserve(self, verb: Reserve) -> None:
        seq = self._held[verb.which].seq
        assert verb.extend_len is not None
        had_offer = seq.partial is not None
        seq.reserve(verb.extend_len)
        assert seq.partial is None
        if had_offer:
            self.corners.add("offer taken" if seq._copies else "offer dropped")

    def _peek(self, verb: Peek) -> int:
        before = dump(self.cache) if self._rng.random() < 0.1 else None
        match = self.cache.peek(verb.prompt, verb.namespace)
        for end, page in enumerate(match.pages.tolist(), 1):
            tokens = verb.prompt[: end * self.oracle.page_size]
            assert self.recorder.pages[page] == (verb.namespace, tokens)
        if before is not None:
            for _ in range(99):
                assert self.cache.peek(verb.prompt, verb.namespace) == match
            assert dump(self.cache) == before, "peek changed something"
        return match.matched_len

    def _retire(self, verb: Retire) -> int:
        self._misses.dropped(prefix for prefix in self.oracle.cached if prefix[0] == verb.namespace)
        self._misses.retired(verb.namespace)
        self._epochs[verb.namespace] = self._epochs.get(verb.namespace, 0) + 1
        return self.cache.retire(verb.namespace)

    def _advance(self, verb: Advance) -> None:
        held = self._held[verb.which]
        assert verb.extend_len is not None
        before = held.seq.computed_len
        self._shadow.write(held.seq, held.chain, before, before + verb.extend_len)
        held.seq.advance(verb.extend_len)

    def _append(self, verb: Append) -> None:
        held = self._held[verb.which]
        held.seq.append(verb.token_ids)
        held.chain = self._shadow.extended(held.chain, held.identity, verb.token_ids)

    def _take_copies(self, verb: TakeCopies) -> list[PageCopy]:
        copies = self._held[verb.which].seq.take_copies()
        self._shadow.order(copies)
        expected = self.oracle.sequence(verb.which).copies
        assert len(copies) == len(expected)
        pages = self._serials()
        for found, wanted in zip(copies, expected, strict=True):
            assert found.num_tokens == wanted.num_tokens
            assert pages[found.target] == wanted.target
            assert pages.get(found.source, wanted.source) == wanted.source
        return copies

    # The oracle's side

    def _run_on_oracle(self, verb: Verb, outcome: Any) -> None:
        oracle = self.oracle
        if isinstance(oracle, ToldVictimsOracle):
            oracle.tell(self.recorder.victims)
        expected = _outcome(lambda verb: apply(verb, oracle), verb)
        if isinstance(expected, OutOfPagesOracle):
            assert isinstance(outcome, OutOfPages), f"{verb} should run out of pages"
            assert outcome.needed == expected.needed
            if not isinstance(verb, Fork):  # the oracle counts after the publish that a fork begins with
                found = (outcome.free, outcome.evictable, outcome.locked)
                assert found == (expected.free, expected.evictable, expected.locked)
            return
        assert not isinstance(outcome, OutOfPages), f"{verb} should work: {outcome}"
        if isinstance(oracle, ToldVictimsOracle):
            oracle.settle()
        else:
            assert self.recorder.victims == oracle.victims
        self._misses.stored(self.recorder.stored)
        self._misses.evicted(self.recorder.victims, self._began)
        self._follow(verb, outcome, expected)

    def _follow(self, verb: Verb, outcome: Any, expected: int | None) -> None:
        match verb:
            case Open():
                assert expected is not None
                identity = (verb.namespace, self._epochs.get(verb.namespace, 0))
                chain = self._shadow.extended([], identity, verb.prompt)
                self._held[expected] = Held(outcome, verb.namespace, identity, chain)
                self._compare_miss(verb, outcome, expected)
            case Fork(which):
                assert expected is not None
                parent = self._held[which]
                self._held[expected] = Held(outcome, parent.namespace, parent.identity, list(parent.chain))
                self._num_forks += 1
            case Peek():
                assert outcome == expected
                found = self.recorder.index.matched_len(verb.prompt, namespace=verb.namespace)
                assert outcome == found, "the index replayed from events matches something else"
            case Evict() | Retire():
                assert outcome == expected
            case Reset():
                self._misses.clear()
            case Close(which) | Abort(which):
                self._ended = self._held.pop(which).seq

    # Comparing

    def _compare(self) -> None:
        check(self.cache)
        oracle, cache = self.oracle, self.cache
        counts, pages = oracle.counts, cache.pages
        assert pages == (counts.free, counts.private, counts.evictable, counts.locked, counts.total)
        assert pages.available == counts.free + counts.evictable
        assert list(self._held) == list(oracle.live)
        for handle, held in self._held.items():
            self._compare_sequence(handle, held.seq)
            untaken = {copy.target for copy in held.seq._copies}
            self._shadow.assert_reads_back(held.seq, held.chain, untaken)
        serials = self._serials()
        assert len(set(serials.values())) == len(serials), "two pages for one"
        visible = oracle.visible()
        assert {prefix: serials[page] for page, prefix in self.recorder.pages.items()} == visible
        assert self.recorder.index.cached == visible.keys()
        assert self._snapshot() == self.recorder.pages
        if cache.events is not None and self._consumer.catch_up(self._rng):
            assert self._consumer.index.pages == self.recorder.pages.keys()
        self._compare_statistics()

    def _compare_sequence(self, handle: int, seq: Sequence) -> None:
        expected = self.oracle.sequence(handle)
        assert seq.matched_len == expected.matched_len
        assert seq.computed_len == expected.computed_len
        assert seq.published_len == expected.published_len
        assert seq.num_tokens == expected.num_tokens
        assert seq.prompt_len == expected.prompt_len
        assert seq.reserved_len == len(expected.pages) * self.oracle.page_size
        assert (0 if seq.partial is None else seq.partial.num_tokens) == (
            0 if expected.offer is None else expected.offer.num_tokens
        )
        assert len(seq._copies) == len(expected.copies)
        assert not seq.page_table.flags.writeable

    def _compare_miss(self, verb: Open, seq: Sequence, handle: int) -> None:
        if not verb.read:
            assert seq.miss is None
            return
        assert seq.miss is not None
        tokens = seq.miss.tokens_by_reason()
        assert sum(tokens.values()) + seq.matched_len == len(verb.prompt)
        if self.cache.config.max_ghosts is None:
            expected = self.oracle.sequence(handle)
            reasons, since = self._misses.of(self.oracle, expected, verb.namespace)
            assert tokens == reasons
            assert seq.miss.age == (None if since is None else self._time() - since)

    def _compare_statistics(self) -> None:
        stats, expected = self.cache.stats, self.oracle.stats
        assert stats.lookups == expected.lookups
        assert stats.prompt_tokens == expected.prompt_tokens
        assert stats.matched_tokens == expected.matched_tokens
        assert stats.resumed_lookups == expected.resumed_lookups
        assert stats.resumed_tokens == expected.resumed_prompt_tokens
        assert stats.resumed_matched_tokens == expected.resumed_matched_tokens
        assert stats.copied_tokens == expected.copied_tokens
        assert stats.duplicate_pages == expected.duplicate_pages
        assert stats.evicted_pages == expected.evicted_pages
        assert stats.evictions == self.recorder.num_runs
        assert stats.failed_reserves == self._num_failed
        assert stats.forks == self._num_forks
        self._num_published += len(self.recorder.stored)
        self.recorder.stored = []
        assert stats.published_pages == self._num_published
        assert stats.matched_tokens + sum(stats.missed_tokens.values()) == stats.prompt_tokens
        assert stats.live_sequences == len(self._held)
        assert stats.num_nodes <= len(self.oracle.cached)

    def _serials(self) -> dict[int, int]:
        """The oracle's serial of every page that a sequence or the dictionary names; one page, one serial."""
        named: list[tuple[int, int]] = []
        for handle, held in self._held.items():
            serials = self.oracle.sequence(handle).pages
            named += zip(held.seq.page_table.tolist(), serials, strict=True)
        visible = self.oracle.visible()
        named += [(page, visible[prefix]) for page, prefix in self.recorder.pages.items()]
        pages = dict(named)
        assert all(pages[page] == serial for page, serial in named), "one page for two"
        return pages

    def _snapshot(self) -> dict[int, Prefix]:
        size, found = self.oracle.page_size, {}
        for run in self.cache.snapshot().stored:
            parent = () if run.parent_page is None else found[run.parent_page][1]
            for number, page in enumerate(run.pages, 1):
                found[page] = (run.namespace, (*parent, *run.tokens[: number * size]))
        return found

    def _note_corners(self) -> None:
        """Note rare situations, so that a test can ask whether scripts reach them."""
        cached = {page.serial for page in self.oracle.cached.values()}
        owned = {serial for seq in self.oracle.live.values() for serial in seq.pages}
        for seq in self.oracle.live.values():
            if is_retired(seq.namespace):
                self.corners.add("retired in use")
            if seq.sources - owned - cached:
                self.corners.add("copy source orphaned")
            if not self.oracle.partial_reuse and seq.sources & cached:
                self.corners.add("copy source published")

    # Thrown in

    def _time(self) -> float:
        return self.cache.stats.lookups if self._now is None else self._now

    def _pass_time(self) -> None:
        if self._now is not None:
            self._now += self._rng.choice((0, 0, 0, 0.5, 3))
            self.cache.advance_time(self._now)

    def _try_misuse(self) -> None:
        if self._rng.random() >= MISUSE_SHARE:
            return
        rng = self._rng
        attempts: Iterable[misuse.Misuse] = misuse.of_cache(self.cache)
        if self._held and rng.random() < 0.6:
            attempts = misuse.of_live(rng.choice(list(self._held.values())).seq)
        elif self._ended is not None and rng.random() < 0.5:
            attempts = misuse.of_ended(self._ended)
        before = dump(self.cache)
        for attempt in rng.sample(list(attempts), 3):
            misuse.refused(attempt)
            assert dump(self.cache) == before, f"{attempt.what} changed something"


def _outcome(run: Callable[[Any], Any], verb: Verb) -> Any:
    """What a verb returned, or the shortage of pages that it raised."""
    try:
        return run(verb)
    except (OutOfPages, OutOfPagesOracle) as shortage:
        return shortage
