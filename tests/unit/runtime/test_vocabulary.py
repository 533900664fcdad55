import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import WorkloadError
from runtime.workload import (
    FRESH_TOKEN_BASE,
    GENERATORS,
    Blocks,
    OutputOf,
    Session,
    Turn,
    Workload,
    prompt_of,
)
from runtime.workload.generators.small import SMALL_GENERATORS
from runtime.workload.vocabulary import in_vocabulary, map_tokens

ids = st.lists(st.integers(0, 2**31 - 1), max_size=20)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@given(ids, ids, ids, st.integers(1, 2**18))
def test_equal_prefixes_stay_equal_and_every_id_is_known(prefix, first, second, vocab):
    one, other = map_tokens(array(prefix + first), vocab), map_tokens(array(prefix + second), vocab)
    assert one[: len(prefix)].tolist() == other[: len(prefix)].tolist()
    assert one.dtype == np.int32
    assert all(0 <= token < vocab for token in one.tolist())


@given(ids, st.integers(1, 2**31 - 1))
def test_ids_that_the_model_knows_stay_as_they_are(tokens, vocab):
    mapped = map_tokens(array(tokens), vocab).tolist()
    assert [new for old, new in zip(tokens, mapped, strict=True) if old < vocab] == [
        old for old in tokens if old < vocab
    ]


def test_blocks_a_vocabulary_apart_do_not_become_one():
    vocab, size = 3 * 2**14, 512
    pages = [
        map_tokens(np.arange(block * size, block * size + 16, dtype=np.int32), vocab).tobytes()
        for block in range(200, 4200)
    ]
    assert len(set(pages)) == len(pages)


def test_ids_are_spread_evenly():
    found = np.bincount(map_tokens(np.arange(10**6, 10**6 + 64_000, dtype=np.int32), 64), minlength=64)
    assert found.min() > 850
    assert found.max() < 1150


def test_outputs_are_left_alone_and_a_note_says_what_was_done():
    blocks = Blocks(array([FRESH_TOKEN_BASE // 512 - 1]), 512, 8)
    turns = (
        Turn(segments=(blocks,), output_len=2),
        Turn(segments=(blocks, OutputOf(0)), output_len=1, after=(0,)),
    )
    session = Session(session_id="s", start_s=0.0, turns=turns)
    workload = in_vocabulary(Workload(name="w", sessions=(session,), notes=("as it was",)), 100)
    prompt = prompt_of(workload.sessions[0].turns[1], {0: array([98, 99])}).tolist()
    assert prompt[8:] == [98, 99]
    assert max(prompt[:8]) < 100
    assert len(workload.sessions[0].turns[0].segments[0]) == 8
    assert workload.notes[0] == "as it was"
    assert "hashed" in workload.notes[1]


def test_a_model_without_tokens_is_refused():
    with pytest.raises(WorkloadError, match="vocab 0"):
        in_vocabulary(Workload(name="w", sessions=()), 0)


def test_every_generator_has_a_small_size_that_fits_a_small_model():
    assert SMALL_GENERATORS.keys() == GENERATORS.keys()
    for name, generator in SMALL_GENERATORS.items():
        assert isinstance(generator, GENERATORS[name])
        workload = generator.generate(0)
        fixed = [
            sum(len(segment) for segment in turn.segments if not isinstance(segment, OutputOf))
            for session in workload.sessions
            for turn in session.turns
        ]
        assert max(fixed) < 2048
        assert sum(fixed) < 30_000
