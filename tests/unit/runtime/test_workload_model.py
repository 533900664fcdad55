from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import WorkloadError
from runtime.workload import (
    FRESH_TOKEN_BASE,
    Blocks,
    Literal,
    OutputOf,
    Session,
    Spans,
    Turn,
    Workload,
    prompt_of,
)
from runtime.workload.model import TokenArray


def ids(*tokens: int) -> TokenArray:
    return np.array(tokens, dtype=np.int32)


def turn(*segments: Any, **settings: Any) -> Turn:
    return Turn(segments=segments or (Literal(ids(1)),), **{"output_len": 1, **settings})


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(1, 7), st.data())
def test_blocks_expand_to_id_times_size_plus_offset(
    block_ids: list[int], block_size: int, data: st.DataObject
) -> None:
    missing = data.draw(st.integers(0, block_size - 1))
    num_tokens = len(block_ids) * block_size - missing
    blocks = Blocks(ids(*block_ids), block_size, num_tokens)
    expected = [block * block_size + i for block in block_ids for i in range(block_size)]
    assert blocks.tokens().tolist() == expected[:num_tokens]
    assert len(blocks) == num_tokens


@pytest.mark.parametrize("num_blocks", [1, 3])
def test_blocks_that_do_not_match_the_token_count_are_refused(num_blocks: int) -> None:
    with pytest.raises(WorkloadError, match=f"600 tokens are 2 blocks of 512, not {num_blocks}"):
        Blocks(ids(*range(num_blocks)), 512, 600)


def test_block_ids_beyond_the_literal_range_are_named() -> None:
    limit = FRESH_TOKEN_BASE // 512
    assert Blocks(ids(limit - 1), 512, 512).tokens()[-1] == FRESH_TOKEN_BASE - 1
    with pytest.raises(WorkloadError, match=f"block id {limit} lies outside"):
        Blocks(ids(3, limit), 512, 1024)
    with pytest.raises(WorkloadError, match="block id -1 lies outside"):
        Blocks(ids(-1), 512, 512)


def test_spans_are_runs_of_consecutive_ids() -> None:
    spans = Spans(np.array([[5, 3], [100, 2]], dtype=np.int32), 5)
    assert spans.tokens().tolist() == [5, 6, 7, 100, 101]
    assert len(spans) == 5


def test_prompt_holds_earlier_outputs_in_place() -> None:
    asked = turn(Literal(ids(1, 2)), OutputOf(0), Literal(ids(3)), after=(0,))
    prompt = prompt_of(asked, {0: ids(8, 9)})
    assert prompt.tolist() == [1, 2, 8, 9, 3]
    assert prompt.dtype == np.int32
    assert prompt.flags.c_contiguous


def test_prompt_of_one_segment_is_contiguous_int32() -> None:
    prompt = prompt_of(turn(Blocks(ids(4, 9), 512, 1000)), {})
    assert prompt.shape == (1000,)
    assert prompt.dtype == np.int32
    assert prompt.flags.c_contiguous


def test_missing_output_is_named() -> None:
    with pytest.raises(WorkloadError, match="output of turn 3"):
        prompt_of(turn(OutputOf(3)), {2: ids(1)})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"output_len": 0}, "output_len 0"),
        ({"think_s": -1.0}, "think_s -1.0"),
        ({"think_s": float("nan")}, "think_s nan"),
    ],
)
def test_turn_settings_out_of_range_are_named(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        turn(**setting)


def test_a_turn_without_segments_is_refused() -> None:
    with pytest.raises(WorkloadError, match="segment"):
        Turn(segments=(), output_len=1)


@pytest.mark.parametrize("earlier", [1, 2, -1])
def test_a_turn_waits_for_earlier_turns_only(earlier: int) -> None:
    with pytest.raises(WorkloadError, match=f"turn 1 cannot wait for turn {earlier}"):
        Session(session_id="s", start_s=0, turns=(turn(), turn(after=(earlier,))))


@pytest.mark.parametrize("named", [0, 1, 7, -1])
def test_a_prompt_may_not_hold_an_output_that_need_not_be_there(named: int) -> None:
    with pytest.raises(WorkloadError, match=f"contains the output of turn {named}"):
        Session(session_id="s", start_s=0, turns=(turn(), turn(OutputOf(named))))


def test_waiting_for_a_turn_means_waiting_for_what_it_waited_for() -> None:
    turns = (turn(), turn(after=(0,)), turn(OutputOf(0), OutputOf(1), after=(1,)))
    assert len(Session(session_id="s", start_s=0, turns=turns).turns) == 3


@pytest.mark.parametrize("start_s", [-0.1, float("inf")])
def test_a_session_starts_at_a_finite_time(start_s: float) -> None:
    with pytest.raises(WorkloadError, match=f"start_s {start_s}"):
        Session(session_id="s", start_s=start_s, turns=(turn(),))


def test_a_session_has_turns() -> None:
    with pytest.raises(WorkloadError, match="session s has no turns"):
        Session(session_id="s", start_s=0, turns=())


def test_workload_counts_its_turns() -> None:
    one = Session(session_id="a", start_s=0, turns=(turn(),))
    two = Session(session_id="b", start_s=1, turns=(turn(), turn()))
    assert Workload(name="w", sessions=(one, two)).num_turns == 3
