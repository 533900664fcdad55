"""A million verbs from one seed; prints what the caches then hold. Run as a process of its own.

A prompt, a length or a choice depends on nothing but the seed, so two processes must print the same, whatever
their hash seed.
"""

import hashlib
import random
import sys
from collections.abc import Iterator

from radixcache import CacheConfig, OutOfPages, PrefixCache, Sequence, Tokens, check
from radixcache.node import Node

NUM_VERBS = 1_000_000
POLICIES = ("lru", "fifo", "lfu", "slru", "priority")
NAMESPACES = (None, "a", b"a", ("a", None), ("a", b"salt"), "tenant")
NUM_PROMPTS = 3_000


def prompts(rng: random.Random) -> list[Tokens]:
    """Prompts that share prefixes of each other, 2 to 96 tokens."""
    found = [[rng.randrange(8) for _ in range(24)]]
    for _ in range(NUM_PROMPTS):
        kept = rng.choice(found)
        kept = kept[: rng.randrange(len(kept) + 1)]
        found.append([*kept, *(rng.randrange(8) for _ in range(rng.randrange(2, 40)))][-96:])
    return [Tokens(tokens) for tokens in found]


class Traffic:
    """Verbs on one cache, chosen by a generator of random bits."""

    def __init__(self, cache: PrefixCache, rng: random.Random, material: list[Tokens]) -> None:
        self.cache = cache
        self.num_verbs = 0
        self._bits = rng.getrandbits
        self._material = material
        self._answers = [Tokens([token, 9]) for token in range(16)]
        self._live: list[Sequence] = []

    def request(self) -> None:
        """One request from `open` on, some of it left for later; about eight verbs."""
        bits = self._bits(64)
        cache, live = self.cache, self._live
        prompt = self._material[bits % len(self._material)]
        namespace = NAMESPACES[(bits >> 16) % len(NAMESPACES)]
        self.num_verbs += 2
        cache.peek(prompt, namespace)
        seq = cache.open(prompt, namespace, priority=(bits >> 20) & 3, retain=(bits >> 22) & 127 or None)
        if self._compute(seq, chunk=16 if bits >> 30 & 1 else 96):
            live.append(seq)
            if bits >> 31 & 7 == 0:
                self._fork(seq)
        if len(live) > 12:
            self._end(live.pop((bits >> 35) % 12), bits >> 40)
        if bits >> 50 & 255 == 0:
            self.num_verbs += 2
            cache.evict(bits >> 58)
            cache.retire(NAMESPACES[(bits >> 16) % 6])

    def _compute(self, seq: Sequence, chunk: int) -> bool:
        try:
            while (left := min(chunk, seq.num_tokens - seq.computed_len)) > 0:
                target = seq.computed_len + left
                seq.reserve(left)
                seq.take_copies()
                seq.advance(max(0, target - seq.computed_len))
                seq.publish()
                self.num_verbs += 4
        except OutOfPages:
            seq.abort()
            self.num_verbs += 2
            return False
        return True

    def _fork(self, seq: Sequence) -> None:
        self.num_verbs += 2
        try:
            child = seq.fork()
        except OutOfPages:
            return
        child.take_copies()
        self._live.append(child)

    def _end(self, seq: Sequence, bits: int) -> None:
        self.num_verbs += 2
        seq.append(self._answers[bits & 15])
        if bits >> 4 & 3 == 0:
            seq.abort()
        elif self._compute(seq, chunk=16):
            seq.close()

    def finish(self) -> None:
        while self._live:
            self._live.pop().close()
            self.num_verbs += 1


def state(cache: PrefixCache) -> Iterator[object]:
    """Every node, the order of eviction and the free list, in the order in which the cache holds them."""
    tree = cache._state.tree
    for root in tree.all_roots():
        yield root.number, root.namespace, root.lock_count
        yield from (_node(node) for node in tree.nodes(root))
    yield [node.number for node in tree.order.nodes()]
    yield cache._state.allocator.free_pages().tolist()
    yield cache.stats


def _node(node: Node) -> tuple[object, ...]:
    assert node.parent is not None
    rank = node.entry and node.entry[:2]
    return (
        node.number,
        node.parent.number,
        node.live_edge(),
        node.live_pages(),
        node.lock_count,
        node.stamp,
        rank,
    )


def main() -> None:
    digest, total = hashlib.sha256(), 0
    for number, eviction in enumerate(POLICIES):
        rng = random.Random(number)
        cache = PrefixCache(
            CacheConfig(
                num_pages=1_500,
                page_size=4,
                eviction=eviction,
                partial_reuse=number % 2 == 1,
                max_ghosts=200,
            )
        )
        traffic, step = Traffic(cache, rng, prompts(rng)), 0
        while traffic.num_verbs < NUM_VERBS // len(POLICIES):
            traffic.request()
            step += 1
            if step % 5_000 == 0:
                digest.update(repr(list(state(cache))).encode())
        digest.update(repr(list(state(cache))).encode())
        traffic.finish()
        check(cache)
        digest.update(repr(list(state(cache))).encode())
        total += traffic.num_verbs
    sys.stdout.write(f"{total} verbs, {digest.hexdigest()}\n")


if __name__ == "__main__":
    main()
