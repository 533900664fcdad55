"""What may become of page ids that a sequence handed out: the promise that copies of them rest on."""

import random

import numpy as np
import pytest

from radixcache import OutOfPages, PrefixCache, Sequence, check
from tests.steps import make_cache


def verb(cache: PrefixCache, live: list[Sequence], draw: random.Random) -> None:
    """One random verb of a random sequence."""
    name = draw.choice(["open", "compute", "compute", "publish", "fork", "append", "end"])
    if name == "open" or not live:
        tokens = [draw.randrange(2) for _ in range(draw.randrange(1, 24))]
        live.append(cache.open(tokens, write=draw.random() < 0.8))
        return
    seq = draw.choice(live)
    if name == "compute" and seq.num_tokens > seq.computed_len:
        seq.reserve(draw.randrange(1, seq.num_tokens - seq.computed_len + 4))
        seq.take_copies()
        seq.advance(min(seq.num_tokens, seq.reserved_len) - seq.computed_len)
    elif name == "publish":
        seq.publish()
    elif name == "fork":
        seq.take_copies()
        live.append(seq.fork())
    elif name == "append":
        seq.append([draw.randrange(2)])
    elif name == "end":
        live.remove(seq)
        draw.choice([seq.close, seq.abort])()


@pytest.mark.parametrize("seed", range(4))
def test_only_a_growing_published_part_exchanges_pages(seed: int) -> None:
    draw = random.Random(seed)
    cache = make_cache(60, 2, partial_reuse=True)
    live: list[Sequence] = []
    seen: dict[Sequence, tuple[int, np.ndarray]] = {}
    num_exchanged = 0
    for _ in range(800):
        try:
            verb(cache, live, draw)
        except OutOfPages:
            live.pop(0).abort()
        check(cache)
        for seq in live:
            published_len, table = seen.get(seq, (0, np.zeros(0, np.int32)))
            kept = seq.page_table[: len(table)]
            if seq.published_len == published_len:
                assert kept.tolist() == table.tolist()
            else:
                assert seq.published_len > published_len
                whole = published_len // cache.config.page_size
                assert kept[:whole].tolist() == table[:whole].tolist()
                num_exchanged += not np.array_equal(kept, table)
        seen = {seq: (seq.published_len, seq.page_table.copy()) for seq in live}
    assert num_exchanged > 2


def test_growing_a_page_at_a_time_copies_few_pages_and_a_single_reserve_takes_no_spare_ones() -> None:
    num_pages, page = 2_000, [0, 0]
    cache = make_cache(num_pages, 2)
    seq = cache.open(page)
    seq.reserve(2)
    first = table = seq._table
    num_copied = 0
    for position in range(1, num_pages):
        seq.advance(2)
        seq.publish()
        seq.append(page)
        seq.reserve(2)
        if seq._table is not table:
            num_copied += position
            table = seq._table
    seq.abort()
    assert (len(first), num_copied <= 3 * num_pages) == (1, True)


@pytest.mark.parametrize("num_tokens", [6, 5])
def test_a_fork_takes_no_spare_pages(num_tokens: int) -> None:
    cache = make_cache(8, 2)
    with cache.open([0] * num_tokens) as seq:
        seq.reserve(num_tokens)
        seq.advance(num_tokens)
        with seq.fork() as child:
            assert len(child._table) == 3
