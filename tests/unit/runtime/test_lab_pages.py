import random
from pathlib import Path

import numpy as np
import pytest

from radixcache import RadixCacheError
from runtime.errors import WorkloadError
from runtime.lab import PageTrace, TraceBuilder, page_trace
from runtime.lab.order import nominal_order
from runtime.workload import Literal, OutputOf, Session, Turn, Workload, load_trace, prompt_of
from tests.oracles.stack_distance import chained


def literal(*ids: int) -> Literal:
    return Literal(np.array(ids, dtype=np.int32))


def turn(*segments: Literal | OutputOf, output_len: int = 1, after: tuple[int, ...] = ()) -> Turn:
    return Turn(segments=segments, output_len=output_len, after=after)


def workload(*sessions: tuple[Turn, ...]) -> Workload:
    return Workload(
        name="test",
        sessions=tuple(
            Session(session_id=f"s{number}", start_s=float(number), turns=turns)
            for number, turns in enumerate(sessions)
        ),
    )


def reuses(trace: PageTrace) -> list[tuple[int, int, int, int]]:
    columns = (trace.request, trace.previous, trace.start, trace.stop)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def last_users(paths: list[list[int]]) -> list[tuple[int, int, int, int]]:
    """Reuses, page by page, joined where neighbours have the same last user."""
    last: dict[int, int] = {}
    found: list[tuple[int, int, int, int]] = []
    for number, path in enumerate(chained(paths)):
        for depth, page in enumerate(path):
            if page in last:
                request, previous, start, stop = found[-1] if found else (-1, -1, 0, 0)
                if (request, previous, stop) == (number, last[page], depth):
                    found[-1] = (number, previous, start, depth + 1)
                else:
                    found.append((number, last[page], depth, depth + 1))
        last.update(dict.fromkeys(path, number))
    return found


def test_runs_of_an_edge_are_what_pages_say_one_by_one() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        paths: list[list[int]] = []
        for _ in range(rng.randrange(1, 20)):
            path = [rng.randrange(2) for _ in range(rng.randrange(7))]
            paths.append(rng.choice(paths)[: rng.randrange(1, 7)] if paths and rng.random() < 0.3 else path)
        builder = TraceBuilder(1)
        for path in paths:
            keys = np.array(path, dtype=np.int32)
            builder.add(b"", keys, prompt_tokens=len(path), match_pages=len(path), used_pages=len(path))
        trace = builder.build()
        assert reuses(trace) == last_users(paths), seed
        assert trace.num_distinct == len({page for path in chained(paths) for page in path})


def test_namespaces_share_nothing() -> None:
    other = Turn(segments=(literal(1, 2, 3),), output_len=1, namespace="other")
    trace = page_trace(workload((turn(literal(1, 2, 3)),), (other,)), page_size=1)
    assert trace.num_distinct == trace.num_touches == 6


def test_the_last_token_of_a_prompt_is_never_found() -> None:
    one = turn(literal(1, 2, 3, 4))
    trace = page_trace(workload((one,), (one,)), page_size=2)
    assert trace.match_pages.tolist() == [1, 1]
    assert trace.path_pages.tolist() == [2, 2]
    assert trace.ceiling_pages == trace.num_unmatched == trace.num_untouched == 1


def test_a_partial_page_is_used_but_not_left() -> None:
    trace = page_trace(workload((turn(literal(1, 2, 3)),)), page_size=2)
    assert (trace.path_pages.tolist(), trace.used_pages.tolist()) == ([1], [2])


def test_outputs_are_left_but_for_their_last_token() -> None:
    trace = page_trace(workload((turn(literal(1, 2, 3), output_len=4),)), page_size=2)
    assert (trace.path_pages.tolist(), trace.used_pages.tolist()) == ([3], [3])
    trace = page_trace(workload((turn(literal(1, 2, 3), output_len=4),)), page_size=2, outputs=False)
    assert (trace.path_pages.tolist(), trace.used_pages.tolist()) == ([1], [2])


def test_a_later_turn_finds_what_the_earlier_one_generated() -> None:
    first = turn(literal(1, 2, 3), output_len=4)
    second = turn(literal(1, 2, 3), OutputOf(0), literal(8), after=(0,))
    sessions = workload((first, second), (first, second))
    trace = page_trace(sessions, page_size=2)
    assert trace.prompt_tokens.tolist() == [3, 8, 3, 8]
    # The first page is common to all; what was generated differs from session to session.
    assert trace.known_pages.tolist() == [0, 3, 1, 3]
    assert page_trace(sessions, page_size=2, outputs=False).known_pages.tolist() == [0, 1, 1, 1]


def test_turns_come_by_start_and_pauses_and_then_in_the_order_they_became_known() -> None:
    def session(name: str, start_s: float, *pauses_s: float) -> Session:
        turns = [Turn(segments=(literal(1),), output_len=1)]
        turns += [
            Turn(segments=(literal(1),), output_len=1, after=(number,), think_s=pause_s)
            for number, pause_s in enumerate(pauses_s)
        ]
        return Session(session_id=name, start_s=start_s, turns=tuple(turns))

    served = nominal_order(
        Workload(name="", sessions=(session("a", 0, 2, 0), session("b", 1, 0.5), session("c", 2)))
    )
    assert [f"{session.session_id}{number}" for session, number in served] == [
        *("a0", "b0", "b1", "a1", "c0", "a2")
    ]


def test_a_turn_waits_for_all_it_depends_on() -> None:
    turns = (
        turn(literal(1)),
        Turn(segments=(literal(1),), output_len=1, after=(0,), think_s=5.0),
        Turn(segments=(literal(1),), output_len=1, after=(0,), think_s=1.0),
        turn(literal(1), after=(1, 2)),
    )
    assert [number for _, number in nominal_order(workload(turns))] == [0, 2, 1, 3]


def test_an_order_of_ones_own() -> None:
    sessions = workload((turn(literal(1, 2)),), (turn(literal(3)),), (turn(literal(1, 5, 6)),))
    trace = page_trace(sessions, page_size=1, order=[("s2", 0), ("s0", 0)])
    assert trace.prompt_tokens.tolist() == [3, 2]
    assert trace.known_pages.tolist() == [0, 1]


@pytest.mark.parametrize("order", [[("nobody", 0)], [("s0", 2)], [("s0", -1)]])
def test_an_order_that_names_unknown_turns_is_refused(order: list[tuple[str, int]]) -> None:
    with pytest.raises(WorkloadError, match=r"the order names turn -?\d of '.*', which test lacks"):
        page_trace(workload((turn(literal(1)), turn(literal(1)))), page_size=1, order=order)


def test_an_order_that_names_an_answer_before_its_question_is_refused() -> None:
    sessions = workload((turn(literal(1)), turn(literal(1), OutputOf(0), after=(0,))))
    with pytest.raises(WorkloadError, match="output of turn 0 is not there yet"):
        page_trace(sessions, page_size=1, order=[("s0", 1)])


def test_turns_that_need_too_many_pages_are_left_out_and_counted() -> None:
    sessions = workload((turn(literal(1, 2, 3)),), (turn(literal(1, 2)),), (turn(literal(1), output_len=3),))
    trace = page_trace(sessions, page_size=1, max_pages=2)
    assert (trace.prompt_tokens.tolist(), trace.num_left_out) == ([2], 2)


def test_a_capacity_is_whole_pages_and_holds_every_request() -> None:
    trace = page_trace(workload((turn(literal(1, 2, 3)),)), page_size=2)
    assert trace.require_capacity(5) == 2
    with pytest.raises(RadixCacheError, match=r"capacity of 3 tokens is less .* needs: 4 tokens"):
        trace.require_capacity(3)


def test_no_sessions_make_an_empty_trace() -> None:
    trace = page_trace(workload(), page_size=16)
    assert len(trace) == trace.num_touches == trace.ceiling_pages == trace.max_used_pages == 0


@pytest.mark.shared_data
def test_blocks_and_their_tokens_make_the_same_trace(shared: Path) -> None:
    whole = load_trace(shared / "data" / "traces" / "mooncake_conversation.jsonl")
    sessions = whole.sessions[:600]
    expanded = tuple(
        Session(
            session_id=session.session_id,
            start_s=session.start_s,
            turns=(turn(Literal(prompt_of(session.turns[0], {})), output_len=session.turns[0].output_len),),
        )
        for session in sessions
    )
    by_blocks = page_trace(Workload(name="", sessions=sessions), page_size=16)
    by_tokens = page_trace(Workload(name="", sessions=expanded), page_size=16)
    assert reuses(by_blocks) == reuses(by_tokens)
    assert by_blocks.path_pages.tolist() == by_tokens.path_pages.tolist()
