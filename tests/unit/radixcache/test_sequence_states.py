"""Every verb in every state: legal ones work, all others raise and change nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from radixcache import OutOfPages, PrefixCache, RadixCacheError, Sequence, check
from radixcache.errors import SequenceStateError
from radixcache.lifecycle import LEGAL_STATES, SequenceState
from tests.property.dump import dump
from tests.steps import begin, make_cache, put, run_of

PROMPT = run_of(0, 5)

CALLS: dict[str, Callable[[Sequence], Any]] = {
    "reserve": lambda seq: seq.reserve(1),
    "advance": lambda seq: seq.advance(0),
    "append": lambda seq: seq.append([7]),
    "publish": lambda seq: seq.publish(),
    "fork": lambda seq: seq.fork(),
    "take_copies": lambda seq: seq.take_copies(),
    "page_table": lambda seq: seq.page_table,
    "slots": lambda seq: seq.slots(0, 0),
    "close": lambda seq: seq.close(),
    "abort": lambda seq: seq.abort(),
}


def bring(cache: PrefixCache, state: SequenceState) -> Sequence:
    """A sequence in that state, with cached and private pages where it is live."""
    seq = cache.open(PROMPT)
    if state is SequenceState.OPEN:
        return seq
    seq.reserve(1)
    seq.advance(1)
    if state is SequenceState.CLOSED:
        seq.close()
    elif state is SequenceState.ABORTED:
        seq.abort()
    return seq


@pytest.fixture
def cache() -> PrefixCache:
    cache = make_cache(num_pages=8, page_size=2)
    put(cache, PROMPT[:2])
    return cache


def test_the_table_names_every_verb() -> None:
    assert set(LEGAL_STATES) == set(CALLS)


def test_the_table_is_the_contract() -> None:
    live = {SequenceState.OPEN, SequenceState.ACTIVE}
    assert {verb: set(states) for verb, states in LEGAL_STATES.items()} == {
        **dict.fromkeys(CALLS, live),
        "advance": {SequenceState.ACTIVE},
    }


@pytest.mark.parametrize("state", SequenceState)
@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_works_in_its_legal_states_and_changes_nothing_in_all_others(
    cache: PrefixCache, verb: str, state: SequenceState
) -> None:
    seq = bring(cache, state)
    assert seq.state is state
    if state in LEGAL_STATES[verb]:
        CALLS[verb](seq)
    else:
        before = dump(cache), dump(seq)
        with pytest.raises(
            SequenceStateError, match=f"{verb} needs a sequence that is .*, this one is {state}"
        ):
            CALLS[verb](seq)
        assert (dump(cache), dump(seq)) == before
    check(cache)


@pytest.mark.parametrize(
    ("verb", "after"),
    [
        ("reserve", SequenceState.ACTIVE),
        ("append", SequenceState.OPEN),
        ("publish", SequenceState.OPEN),
        ("fork", SequenceState.OPEN),
        ("close", SequenceState.CLOSED),
        ("abort", SequenceState.ABORTED),
    ],
)
def test_where_verbs_lead_from_open(cache: PrefixCache, verb: str, after: SequenceState) -> None:
    seq = bring(cache, SequenceState.OPEN)
    CALLS[verb](seq)
    assert seq.state is after


def test_a_failed_reserve_leaves_the_state(cache: PrefixCache) -> None:
    seq = bring(cache, SequenceState.OPEN)
    with pytest.raises(OutOfPages):
        seq.reserve(99)
    assert seq.state is SequenceState.OPEN


@pytest.mark.parametrize("verb", ["advance", "fork"])
def test_untaken_copies_stand_in_the_way_and_nothing_changes(cache: PrefixCache, verb: str) -> None:
    parent = begin(cache, PROMPT)
    child = parent.fork()
    before = dump(cache)
    with pytest.raises(SequenceStateError, match=f"{verb} needs take_copies first: 1 copies wait"):
        CALLS[verb](child)
    assert dump(cache) == before
    child.take_copies()
    CALLS[verb](child)
    check(cache)


@pytest.mark.parametrize("verb", ["close", "abort", "publish", "reserve", "append"])
def test_untaken_copies_stand_in_no_other_verbs_way(cache: PrefixCache, verb: str) -> None:
    child = begin(cache, PROMPT).fork()
    CALLS[verb](child)
    check(cache)


def test_the_error_is_ours_and_a_runtime_error() -> None:
    assert issubclass(SequenceStateError, RadixCacheError)
    assert issubclass(SequenceStateError, RuntimeError)


def test_a_with_block_closes_on_success(cache: PrefixCache) -> None:
    with cache.open(PROMPT) as seq:
        seq.reserve(3)
        seq.advance(3)
    assert seq.state is SequenceState.CLOSED
    assert cache.peek([*PROMPT, 0]).matched_len == 4


def test_a_with_block_aborts_on_an_exception_and_lets_it_pass(cache: PrefixCache) -> None:
    with pytest.raises(KeyboardInterrupt), begin(cache, PROMPT) as seq:
        raise KeyboardInterrupt
    assert seq.state is SequenceState.ABORTED
    assert cache.peek([*PROMPT, 0]).matched_len == 2


@pytest.mark.parametrize("verb", ["close", "abort"])
def test_a_with_block_accepts_a_sequence_that_ended_within(cache: PrefixCache, verb: str) -> None:
    with cache.open(PROMPT) as seq:
        CALLS[verb](seq)
    check(cache)


def test_the_text_form_says_what_it_holds(cache: PrefixCache) -> None:
    seq = begin(cache, PROMPT)
    assert repr(seq) == "<Sequence active: 5 tokens, 5 computed, 2 published, 3 pages>"
    seq.close()
    assert repr(seq).startswith("<Sequence closed: 5 tokens")
