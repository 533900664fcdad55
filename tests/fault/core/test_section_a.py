"""Pages and slots: nothing is lost, nothing is owned twice, failing costs nothing."""

import itertools
import random

import pytest

from radixcache import OutOfPages, PageCounts, PrefixCache, Sequence, check
from radixcache.allocator import PageAllocator
from radixcache.errors import DoubleFree, InvalidArgument
from tests.property.dump import dump
from tests.steps import begin, compute, make_cache, matched, pages_of, put, run_of, tree_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))


def is_idle(cache: PrefixCache) -> bool:
    counts = cache.pages
    return counts.private == counts.locked == 0 and counts.free + counts.evictable == counts.total


# A01


def test_a01_a_page_whose_tokens_may_still_change_is_never_published() -> None:
    """Only what was reported written is visible, and what is known cannot be changed any more."""
    cache = make_cache(num_pages=6, page_size=4)
    seq = cache.open(A)
    seq.reserve(8)
    seq.advance(4)
    seq.append([9, 9, 9, 9])
    seq.publish()
    assert matched(cache, [*A, 9, 9, 9, 9]) == 4
    seq.close()
    assert cache.pages == PageCounts(free=5, private=0, evictable=1, locked=0, total=6)


def test_a01_republishing_other_tokens_never_gives_one_page_two_owners() -> None:
    """The provisional end is thrown away and computed again: as a fork, or as a new sequence."""
    cache = make_cache(num_pages=6, page_size=4)
    base = begin(cache, A)
    drafts = []
    for token in (9, 7):
        draft = base.fork()
        draft.append([token] * 4)
        compute(draft).publish()
        drafts.append(draft)
    assert matched(cache, [*A, 9, 9, 9, 9]) == matched(cache, [*A, 7, 7, 7, 7]) == 8
    drafts[0].abort()
    drafts[1].close()
    base.close()
    assert cache.pages == PageCounts(free=3, private=0, evictable=3, locked=0, total=6)


# A02


def test_a02_a_prompt_shorter_than_a_page_matches_nothing_and_caches_nothing() -> None:
    cache = make_cache(num_pages=6, page_size=4)
    put(cache, A)
    assert cache.peek(A[:3]).matched_len == 0
    seq = begin(cache, [1, 2, 3])
    assert (seq.matched_len, cache.pages.private) == (0, 1)
    seq.close()
    assert cache.pages == (5, 0, 1, 0, 6)


@pytest.mark.parametrize("num_tokens", range(1, 17))
def test_a02_exactly_the_whole_pages_are_cached(num_tokens: int) -> None:
    cache = make_cache(num_pages=6, page_size=4)
    put(cache, run_of(0, num_tokens))
    whole = num_tokens // 4
    assert cache.pages == (6 - whole, 0, whole, 0, 6)
    assert matched(cache, run_of(0, num_tokens)) == 4 * whole


# A03


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a03_splits_and_first_children_keep_the_counters_true(order: tuple[int, ...]) -> None:
    cache = make_cache(num_pages=12, page_size=4)
    put(cache, A + B)
    holders = [cache.open([*A, *B, 0])]
    split = cache.open([*A, *C, 0])
    compute(split).close()
    put(cache, A + C + D)
    prompts = [[*A, 0], [*A, *B, 0], [*A, *C, 0], [*A, *C, *D, 0]]
    holders += [cache.open(prompts[number]) for number in order]
    for number in order:
        holders.pop(number % len(holders)).abort()
    for holder in holders:
        holder.close()
    assert is_idle(cache)
    assert set(tree_of(cache).values()) == {0}


def test_a03_ten_thousand_random_operations_keep_the_counters_true(rarely_checked: None) -> None:
    rng = random.Random(3)
    cache = make_cache(num_pages=20, page_size=2)
    live: list[Sequence] = []
    for operation in range(10_000):
        kind = rng.random()
        if kind < 0.45 and len(live) < 6:
            live.append(cache.open([rng.randrange(3) for _ in range(rng.randrange(1, 9))]))
        elif kind < 0.6:
            cache.evict(rng.randrange(3))
        elif live:
            seq = live.pop(rng.randrange(len(live)))
            if rng.random() < 0.3:
                seq.abort()
                continue
            try:
                compute(seq).close()
            except OutOfPages:
                seq.abort()
        if operation % 20 == 0:
            check(cache)
    for seq in live:
        seq.abort()
    check(cache)
    assert is_idle(cache)


# A04


@pytest.mark.parametrize("is_ahead", [False, True], ids=["just in time", "one step ahead"])
@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_a04_no_length_of_prompt_and_answer_leaks_or_frees_twice(page_size: int, is_ahead: bool) -> None:
    for prompt_len, answer_len in itertools.product(range(1, 3 * page_size + 1), repeat=2):
        cache = make_cache(num_pages=8 * page_size, page_size=page_size)
        seq = begin(cache, run_of(0, prompt_len))
        for number in range(answer_len):
            seq.append([1000 + number])
            if number < answer_len - 1:  # the last token is sampled and never computed
                seq.reserve(2 if is_ahead else 1)
                seq.advance(1)
            elif is_ahead:
                seq.reserve(1)
        tokens = run_of(0, prompt_len) + run_of(1000, answer_len)
        seq.close()
        written = prompt_len + answer_len - 1
        assert is_idle(cache)
        assert matched(cache, tokens) == written // page_size * page_size <= written
        assert cache.evict(99) == written // page_size
        assert cache.pages.free == 8 * page_size


# A05


@pytest.mark.parametrize("ending", ["close", "abort"])
@pytest.mark.parametrize("num_private", range(1, 10))
def test_a05_giving_up_at_any_length_after_a_match_leaks_nothing(num_private: int, ending: str) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A + B)
    tokens = [*A, *B, *run_of(900, num_private)]
    seq = begin(cache, tokens)
    getattr(seq, ending)()
    assert is_idle(cache)
    assert cache.pages.evictable == 2 + (num_private // 4 if ending == "close" else 0)
    again = begin(cache, tokens, resumed=True)
    assert again.computed_len == len(tokens)
    again.close()
    assert is_idle(cache)
    assert matched(cache, tokens) == len(tokens) // 4 * 4


@pytest.mark.parametrize("stop", range(1, 25))
def test_a05_giving_up_within_any_chunk_leaks_nothing(stop: int) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    seq = cache.open(run_of(0, 24))
    while seq.computed_len < stop:
        step = min(5, stop - seq.computed_len)
        seq.reserve(step)
        seq.advance(step)
        seq.publish()
    seq.abort()
    assert is_idle(cache)
    assert cache.pages.evictable == stop // 4


# A07


def end_after_finish(seq: Sequence) -> None:
    compute(seq).close()


def end_after_answer(seq: Sequence) -> None:
    compute(seq)
    for token in (1, 2, 3, 4, 5):
        seq.append([token])
        compute(seq)
    seq.close()


def end_before_anything(seq: Sequence) -> None:
    seq.abort()


def end_in_prefill(seq: Sequence) -> None:
    seq.reserve(2)
    seq.take_copies()
    seq.advance(min(1, seq.num_tokens - seq.computed_len))
    seq.abort()


def end_in_decode(seq: Sequence) -> None:
    compute(seq)
    seq.append([1])
    seq.reserve(1)
    seq.abort()


def end_by_preemption(seq: Sequence) -> None:
    compute(seq)
    seq.publish()
    seq.abort()


def end_by_an_error(seq: Sequence) -> None:
    with pytest.raises(InvalidArgument), seq:
        compute(seq).advance(99)


def end_with_a_fork(seq: Sequence) -> None:
    child = compute(seq).fork()
    seq.abort()
    child.close()


def end_without_closing_a_copy(seq: Sequence) -> None:
    child = compute(seq).fork()
    child.abort()
    seq.close()


ENDINGS = [
    end_after_finish,
    end_after_answer,
    end_before_anything,
    end_in_prefill,
    end_in_decode,
    end_by_preemption,
    end_by_an_error,
    end_with_a_fork,
    end_without_closing_a_copy,
]


@pytest.mark.parametrize("partial_reuse", [False, True])
def test_a07_ten_thousand_sequences_through_every_ending_leave_no_lock(
    rarely_checked: None, partial_reuse: bool
) -> None:
    rng = random.Random(7)
    cache = make_cache(num_pages=12, page_size=4, partial_reuse=partial_reuse)
    for number in range(5_000):
        prompt = [rng.randrange(2) for _ in range(rng.randrange(1, 17))]
        ENDINGS[number % len(ENDINGS)](cache.open(prompt, write=rng.random() < 0.9, read=rng.random() < 0.9))
        assert cache.pages.locked == 0
        assert cache.pages.private == 0
        if number % 50 == 0:
            check(cache)
    check(cache)


# A09


def test_a09_a_thousand_failed_second_allocations_leave_the_first_as_it_was(rarely_checked: None) -> None:
    """Admission needs pages and something else; when the other is refused, the pages come back."""
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A + B)
    before = cache.pages, pages_of(cache, A + B), cache._state.allocator.free_pages().tolist()
    for _ in range(1000):
        with pytest.raises(RuntimeError, match="no row"), begin(cache, [*A, *C]):
            raise RuntimeError("no row in the engine's batch")
    assert (cache.pages, pages_of(cache, A + B), cache._state.allocator.free_pages().tolist()) == before
    check(cache)


@pytest.mark.parametrize("partial_reuse", [False, True])
def test_a09_when_pages_themselves_are_refused_nothing_else_was_taken(partial_reuse: bool) -> None:
    cache = make_cache(num_pages=6, page_size=4, partial_reuse=partial_reuse)
    put(cache, A + B)
    other = begin(cache, run_of(900, 12))
    seq = cache.open([*A, *B[:3], *C, *D])
    before = dump(cache, without_failed_reserves=True)
    for _ in range(50):
        with pytest.raises(OutOfPages):
            seq.reserve(13)
    assert dump(cache, without_failed_reserves=True) == before
    for each in (seq, other):
        each.abort()


# A12


@pytest.mark.parametrize(
    ("num_tokens", "in_last_page"),
    [(1, 1), (3, 3), (4, 4), (5, 1), (8, 4)],
    ids=["1", "S-1", "S", "S+1", "2S"],
)
@pytest.mark.parametrize("order", ["first", "second"])
def test_a12_the_last_page_holds_the_remainder_and_sharing_releases_in_any_order(
    num_tokens: int, in_last_page: int, order: str
) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    first = begin(cache, run_of(0, num_tokens))
    num_pages = len(first.page_table)
    assert first.num_tokens - (num_pages - 1) * 4 == in_last_page
    assert len(first.slots((num_pages - 1) * 4, num_tokens)) == in_last_page
    first.publish()
    second = begin(cache, [*run_of(0, num_tokens), 9])
    for seq in (first, second) if order == "first" else (second, first):
        seq.close()
    assert is_idle(cache)
    cache.evict(99)
    assert cache.pages.free == 8


def test_a12_an_empty_prompt_is_refused_and_no_slots_are_no_slots() -> None:
    cache = make_cache()
    with pytest.raises(ValueError, match="at least one token"):
        cache.open([])
    seq = cache.open([1])
    assert seq.slots(0, 0).tolist() == []
    seq.abort()


# A13


def test_a13_a_page_given_back_twice_is_refused_and_stands_in_the_free_list_once() -> None:
    for num_pages in (3, 30):
        allocator = PageAllocator(num_pages)
        pages = allocator.alloc(num_pages)
        with pytest.raises(DoubleFree):
            allocator.free(pages + pages[:1])
        allocator.free(pages[:2])
        with pytest.raises(DoubleFree):
            allocator.free(pages)
        assert allocator.num_free == len(set(allocator.free_pages().tolist())) == 2


def test_a13_ending_a_sequence_twice_gives_back_once() -> None:
    cache = make_cache()
    seq = begin(cache, A)
    seq.abort()
    for verb in (seq.abort, seq.close, seq.publish):
        with pytest.raises(RuntimeError):
            verb()
    assert cache.pages.free == 8
