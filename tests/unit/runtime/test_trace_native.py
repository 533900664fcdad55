import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from runtime import workload as workload_package
from runtime.errors import TraceError
from runtime.workload import OutputOf, Session, Workload, load_trace, prompt_of
from tests.unit.runtime.trace_lines import ASKED, FOLLOW_UP, HEADER, line, load, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def prompts(session: Session) -> list[list[int]]:
    """Prompts of a session whose turns answer with negative numbers."""
    outputs = {
        number: -1 - np.arange(turn.output_len, dtype=np.int32) for number, turn in enumerate(session.turns)
    }
    return [prompt_of(turn, outputs).tolist() for turn in session.turns]


def common(a: list[int], b: list[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def waits(workload: Workload) -> list[tuple[tuple[int, ...], float]]:
    return [(turn.after, turn.think_s) for session in workload.sessions for turn in session.turns]


def test_a_line_alone_is_a_session_of_one_turn(path: Path) -> None:
    given = line([7, 9], 6, 3, arrival=1.5, tenant="acme", namespace="lora", kind="first")
    (session,) = load(path, given).sessions
    (turn,) = session.turns
    assert (session.session_id, session.start_s, session.tenant) == ("request-2", 1.5, "acme")
    assert (turn.output_len, turn.after, turn.namespace, turn.kind) == (3, (), "lora", "first")
    assert prompts(session) == [[0, 1, 2, 3, 4, 5]]


def test_prompts_share_exactly_the_blocks_that_they_begin_with(path: Path) -> None:
    sessions = load(path, line(["a", "b", "c"], 12), line(["a", "b", "d"], 11), line(["b", "c"], 8)).sessions
    first, second, third = (prompts(session)[0] for session in sessions)
    assert common(first, second) == 8
    assert not set(third) & set(first)


def test_an_integer_and_its_text_are_two_ids(path: Path) -> None:
    first, second = (prompts(session)[0] for session in load(path, line([1], 4), line(["1"], 4)).sessions)
    assert common(first, second) == 0


@pytest.mark.parametrize(
    ("unit", "per_s"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9), ("ps", 10**12)]
)
def test_times_are_in_the_unit_of_the_header(path: Path, unit: str, per_s: int) -> None:
    given = line(["a"], 4, arrival=3 * per_s)
    assert load(path, given, header=HEADER | {"time_unit": unit}).sessions[0].start_s == 3.0


def test_lines_need_not_be_in_the_order_of_arrival(path: Path) -> None:
    sessions = load(path, line(["a"], 4, arrival=9.0), line(["b"], 4, arrival=2.0)).sessions
    assert [session.start_s for session in sessions] == [2.0, 9.0]


def test_a_list_is_a_namespace_of_parts(path: Path) -> None:
    turn = load(path, line(["a"], 4, namespace=["model", None])).sessions[0].turns[0]
    assert turn.namespace == ("model", None)


def test_no_output_becomes_one_token_and_is_said(path: Path) -> None:
    workload = load(path, line(["a"], 4, 0))
    assert workload.sessions[0].turns[0].output_len == 1
    assert workload.notes == ("1 request without output generates one token here.",)


def test_notes_of_the_header_are_notes_of_the_workload(path: Path) -> None:
    assert load(path, line(["a"], 4), header=HEADER | {"notes": ["Mind this."]}).notes == ("Mind this.",)


def test_gzip_blank_lines_and_a_byte_order_mark_are_read(path: Path) -> None:
    text = write(path, "", line(["a"], 4), "", line(["a"], 4)).read_text()
    path.write_bytes(gzip.compress(("\ufeff" + text).encode()))
    assert [session.session_id for session in load_trace(path).sessions] == ["request-3", "request-5"]


# Outputs


def test_a_prompt_that_contains_an_output_waits_for_it_and_holds_what_the_replay_generates(
    path: Path,
) -> None:
    (session,) = load(path, ASKED, FOLLOW_UP).sessions
    assert session.turns[1].segments[1] == OutputOf(0, 6)
    asked, follow_up = prompts(session)
    assert follow_up[:12] == [*asked, -1, -2, -3, -4, -5, -6]
    assert len(follow_up) == 18
    assert min(follow_up[12:]) >= 0
    assert (session.turns[1].after, session.turns[1].think_s) == ((0,), 3.0)


def test_a_request_that_came_before_the_output_was_there_does_not_contain_it(path: Path) -> None:
    early = FOLLOW_UP | {"arrival": 1.0}
    assert len(load(path, ASKED, early).sessions) == 2


def test_requests_of_another_tenant_are_never_linked(path: Path) -> None:
    assert len(load(path, ASKED, FOLLOW_UP | {"tenant": "other"}).sessions) == 2


def test_blocks_that_a_prompt_brought_first_were_not_generated(path: Path) -> None:
    known = line(["a", "b2", "c"], 12, arrival=0.0)
    sessions = load(path, known, ASKED | {"arrival": 1.0}, FOLLOW_UP).sessions
    assert len(sessions) == 3
    assert common(prompts(sessions[0])[0], prompts(sessions[2])[0]) == 12


def test_a_conversation_is_followed_through_all_its_turns(path: Path) -> None:
    second = FOLLOW_UP | {"finished": 6.0, "output_hash_ids": ["e2", "f1"], "output_length": 4}
    third = line(["a", "b2", "c", "d2", "e2", "g"], 24, arrival=8.0)
    (session,) = load(path, ASKED, second, third).sessions
    _asked, follow_up, last = prompts(session)
    assert common(last, [*follow_up, -1, -2, -3, -4]) == 20
    assert [turn.after for turn in session.turns] == [(), (0,), (1,)]


def test_two_answers_to_one_prompt_start_two_branches(path: Path) -> None:
    other = ASKED | {"finished": 1.0, "output_hash_ids": ["x2", "y", "z1"]}
    to_other = line(["a", "x2", "y", "q"], 16, arrival=5.0)
    sessions = load(path, ASKED, other, FOLLOW_UP, to_other).sessions
    assert [[turn.after for turn in session.turns] for session in sessions] == [[(), (0,)], [(), (0,)]]


def test_numbered_turns_wait_for_what_they_name_and_need_no_times(path: Path) -> None:
    session = {"session": "s", "arrival": None}
    root = ASKED | {"session": "s", "turn": 0, "arrival": 10.0, "finished": None}
    del root["finished"]
    left = line(["a", "b2", "c", "x"], 16, turn=1, after=[0], think=2.5, **session)
    right = line(["a", "b2", "c", "y"], 16, turn=2, after=[0], **session)
    join = line(["z"], 4, turn=3, after=[1, 2], **session)
    workload = load(path, join, right, left, root)
    assert waits(workload) == [((), 0), ((0,), 2.5), ((0,), 0), ((1, 2), 0)]
    asked, *others, _ = prompts(workload.sessions[0])
    assert [common(other, [*asked, -1, -2, -3, -4, -5, -6, -7]) for other in others] == [12, 12]


def test_turns_that_wait_for_nothing_contain_no_output(path: Path) -> None:
    named = {"session": "s", "after": []}
    (session,) = load(path, ASKED | named | {"turn": 0}, FOLLOW_UP | named | {"turn": 1}).sessions
    assert [turn.after for turn in session.turns] == [(), ()]
    assert session.turns[1].think_s == 5.0


def test_a_session_without_after_waits_for_what_finished_last(path: Path) -> None:
    lines = [
        line(["a"], 4, arrival=1.0, finished=2.0, session="s"),
        line(["b"], 4, arrival=1.0, finished=4.0, session="s"),
        line(["c"], 4, arrival=3.0, finished=9.0, session="s"),
        line(["d"], 4, arrival=7.0, session="s"),
    ]
    assert waits(load(path, *lines)) == [((), 0), ((), 0), ((0,), 1.0), ((1,), 3.0)]


def test_a_session_without_finish_times_is_an_open_loop(path: Path) -> None:
    lines = [line(["a"], 4, arrival=time, session="s") for time in (1.0, 2.0, 4.5)]
    workload = load(path, *lines)
    assert workload.sessions[0].start_s == 1.0
    assert waits(workload) == [((), 0), ((), 1.0), ((), 3.5)]


def test_pauses_between_integers_are_exact(path: Path) -> None:
    first = ASKED | {"arrival": 1, "finished": 9_007_199_254_740_993}
    later = FOLLOW_UP | {"arrival": 9_007_199_254_740_996}
    turns = load(path, first, later, header=HEADER | {"time_unit": "ps"}).sessions[0].turns
    assert turns[1].think_s == 3e-12


def test_how_many_prompts_contain_outputs_is_said(path: Path) -> None:
    (note,) = load(path, ASKED, FOLLOW_UP).notes
    assert note.startswith("1 of 2 prompts contain recorded output")


def test_a_long_session_is_no_problem(path: Path) -> None:
    lines = [
        line(
            [*range(number + 1)], 4 * number + 4, arrival=float(number), session="s", turn=number, after=after
        )
        for number in range(400)
        for after in [[number - 1] if number else []]
    ]
    assert load(path, *lines).num_turns == 400


def test_more_blocks_than_token_ids_are_refused(path: Path) -> None:
    lines = [line([1], 1), line([*range(3)], 3 * 2**29)]
    with pytest.raises(TraceError, match=r"trace\.jsonl:3: more than 2 different blocks of 536870912 tokens"):
        load(path, *lines, header=HEADER | {"block_size": 2**29})


# What is wrong with a file

BAD_LINES = [
    (line(["a"], 4, arrival=-1), ">= 0"),
    (line(["a"], 4, arrival="late"), "late"),
    (line(["a"], 4, arrival=None), "arrival is missing"),
    (line(["a"], 4) | {"after": []}, "session is missing"),
    (line(["a"], 4, turn=3), "session is missing"),
    (line(["a"], 4, think=3), "think 3 means a pause"),
    (line(["a"], 4, finished=3, arrival=4), "finished 3 is before arrival 4"),
    (line(["a"], 5), "input_length 5 needs 2 hash_ids of 4 tokens, not 1"),
    (line([], 0), ">= 1"),
    (line(["a"], 4, -1), "-1"),
    (line([-3], 4), "-3|>= 0"),
    (line([1.5], 4), "hash_ids"),
    (line(["a"], 4, 4, output_hash_ids=[]), "needs 1 output_hash_ids of 4 tokens, not 0"),
    (line(["a"], 3, 4, output_hash_ids=["b"]), "needs 2 output_hash_ids of 4 tokens, not 1"),
    (line(["a"], 4, thinktime=3), "thinktime"),
    (line(["a"], 4, session="s", turn=1, after=[1]), "turn 1 cannot wait for turn 1"),
    (line(["a"], 4, session="s", turn=1, after=[0]), "waits for turn 0, which is not there"),
    (line(["a"], 4, session="s", after=[0]), "after .0. needs numbered turns"),
    ("[1]", "array"),
    ("{bad", "no JSON"),
    ('{"arrival": 1e999}', "1e999|range"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_LINES)
def test_a_bad_line_is_named_with_its_value_on_one_line(path: Path, bad, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        load(path, line(["a"], 4), "", bad, line(["a"], 4))
    assert str(caught.value).startswith(f"{path}:4: ")
    assert "\n" not in str(caught.value)


BAD_SESSIONS = [
    ([{"turn": 0}, {"turn": 0}], "turn 0 stands in line 2, too"),
    ([{"turn": 0}, {}], "turn is None, but in line 2 it is 0"),
    ([{"tenant": "a"}, {"tenant": "b"}], "tenant 'b' is not 'a', as in line 2"),
]


@pytest.mark.parametrize(("fields", "message"), BAD_SESSIONS)
def test_lines_of_a_session_that_contradict_each_other_are_named(path: Path, fields, message: str) -> None:
    lines = [line(["a"], 4, session="s", **each) for each in fields]
    with pytest.raises(TraceError, match=rf"jsonl:3: session 's': {message}"):
        load(path, *lines)


BAD_HEADERS = [
    (HEADER | {"version": 2}, "version 2 is not known, only 1 is"),
    (HEADER | {"format": "other"}, "other"),
    (HEADER | {"block_size": 0}, ">= 1"),
    (HEADER | {"time_unit": "h"}, "h"),
    (HEADER | {"tokens": 3}, "tokens"),
]


@pytest.mark.parametrize(("header", "message"), BAD_HEADERS)
def test_a_bad_header_is_named(path: Path, header, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        load_trace(write(path, line(["a"], 4), header=header), "radixcache")
    assert caught.value.line == 1


def test_a_file_without_requests_is_refused(path: Path) -> None:
    with pytest.raises(TraceError, match="holds no request"):
        load(path)


def test_missing_empty_and_broken_files_are_named(tmp_path: Path, path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.jsonl: no such file"):
        load_trace(tmp_path / "nowhere.jsonl", "radixcache")
    path.write_text("\n \n")
    with pytest.raises(TraceError, match="is empty"):
        load_trace(path, "radixcache")
    path.write_bytes(gzip.compress(write(path, line(["a"], 4)).read_bytes())[:-20])
    with pytest.raises(TraceError, match="broken gzip"):
        load_trace(path, "radixcache")
    with pytest.raises(TraceError, match="cannot be read"):
        load_trace(tmp_path, "radixcache")


def test_the_example_of_the_documentation_is_right(path: Path) -> None:
    folder = Path(workload_package.__file__).parent
    (example,) = re.findall(r"```json\n(.*?)```", (folder / "TRACE_FORMAT.md").read_text(), re.DOTALL)
    path.write_text(example)
    sessions = load_trace(path).sessions
    assert [(session.session_id, len(session.turns)) for session in sessions] == [("s", 2), ("request-4", 1)]
    assert OutputOf(0, 24) in sessions[0].turns[1].segments
