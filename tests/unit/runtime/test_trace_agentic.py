import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.errors import TraceError
from runtime.workload import FRESH_TOKEN_BASE, Constant, Session, TraceOptions, load_trace, prompt_of
from runtime.workload.model import TokenArray
from runtime.workload.traces.agentic_format import common_blocks, compressed, first_blocks, joined

ALONE = TraceOptions(share_prefixes=False)


def request(t: float, num_input: int, hash_ids: list[int], **more: Any) -> dict[str, Any]:
    return {
        "t": t,
        "type": "n",
        "model": "m",
        "in": num_input,
        "out": 5,
        "hash_ids": hash_ids,
        "api_time": 2.0,
        "think_time": 1.0,
        **more,
    }


def packed(t: float, num_input: int, keep: int, runs: list[list[int]], **more: Any) -> dict[str, Any]:
    entry = request(t, num_input, [], keep=keep, runs=runs, **more)
    del entry["hash_ids"]
    return entry


def sub_agent(t: float, duration_ms: int | None, *requests: dict[str, Any]) -> dict[str, Any]:
    return {
        "t": t,
        "type": "subagent",
        "agent_id": "a",
        "duration_ms": duration_ms,
        "tool_tokens": 8,
        "system_tokens": 0,
        "requests": list(requests),
    }


def session(name: str, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "block_size": 4,
        "hash_id_scope": "local",
        "tool_tokens": 4,
        "system_tokens": 5,
        "requests": list(requests),
        **more,
    }


def load(path: Path, *sessions: dict[str, Any], options: TraceOptions | None = None) -> Any:
    path.write_text("\n".join(map(json.dumps, sessions)))
    return load_trace(path, options=options)


def prompts(loaded: Session) -> list[TokenArray]:
    return [prompt_of(turn, {}) for turn in loaded.turns]


def shared_len(a: TokenArray, b: TokenArray) -> int:
    length = min(len(a), len(b))
    differing = np.flatnonzero(a[:length] != b[:length])
    return int(differing[0]) if len(differing) else length


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.delta.jsonl"


def test_both_forms_are_read_alike(trace: Path, tmp_path: Path) -> None:
    listed = session("s", request(0, 14, [1, 2, 3]), request(5, 21, [1, 2, 7, 8, 9]))
    short = session("s", packed(0, 14, 0, [[1, 3]]), packed(5, 21, 2, [[7, 2], [9, 1]]))
    original = tmp_path / "trace.json"
    original.write_text(json.dumps(listed, indent=1))
    (one,) = load_trace(original).sessions
    (two,) = load(trace, short).sessions
    for a, b in zip(prompts(one), prompts(two), strict=True):
        assert a.tolist() == b.tolist()


def test_a_prompt_is_its_full_blocks_and_a_rest_of_its_own(trace: Path) -> None:
    workload = load(trace, session("s", request(0, 14, [1, 2, 3]), request(5, 14, [1, 2, 3])))
    first, second = prompts(workload.sessions[0])
    assert (len(first), len(second)) == (14, 14)
    assert shared_len(first, second) == 12
    assert not set(first[12:]) & set(second)
    assert max(first.max(), second.max()) < FRESH_TOKEN_BASE


def test_a_turn_follows_the_answer_and_the_recorded_pause(trace: Path) -> None:
    second = request(9, 8, [1, 2], think_time=3.5, input_types=["tool_result"])
    third = request(20, 8, [1, 2], think_time=None)
    workload = load(trace, session("s", request(0, 4, [1], think_time=0.0), second, third))
    turns = workload.sessions[0].turns
    assert [turn.after for turn in turns] == [(), (0,), (1,)]
    assert [turn.think_s for turn in turns] == [0.0, 3.5, 20 - 9 - 2.0]
    assert [turn.kind for turn in turns] == ["first", "tool result", "follow-up"]
    assert any(note.startswith("1 pause is not recorded") for note in workload.notes)


def test_the_main_agent_waits_for_its_sub_agents(trace: Path) -> None:
    workload = load(
        trace,
        session(
            "s",
            request(0, 4, [1]),
            sub_agent(12.5, 10_000, request(0, 8, [5, 6]), request(4, 12, [5, 6, 7])),
            sub_agent(8.0, 5_500, request(0, 8, [5, 9])),
            request(20, 8, [1, 2], think_time=18.0),
        ),
    )
    turns = workload.sessions[0].turns
    assert [turn.after for turn in turns] == [(), (0,), (1,), (0,), (0, 2, 3)]
    assert [turn.kind for turn in turns[1:4]] == ["sub-agent"] * 3
    assert turns[1].think_s == pytest.approx(12.5 - 10 - 2)
    assert turns[3].think_s == pytest.approx(8 - 5.5 - 2)
    assert turns[4].think_s == pytest.approx(20 - (2.5 + 4 + 2))


def test_nobody_waits_for_a_sub_agent_in_the_background(trace: Path) -> None:
    background = sub_agent(3.0, None, request(0, 8, [5, 6]))
    follow = request(5, 8, [1, 2], think_time=1.5)
    turns = load(trace, session("s", request(0, 4, [1]), background, follow)).sessions[0].turns
    assert turns[1].after == (0,)
    assert turns[1].think_s == pytest.approx(1.0)
    assert (turns[2].after, turns[2].think_s) == ((0,), 1.5)


def test_a_sub_agent_without_requests_leaves_no_trace(trace: Path) -> None:
    follow = request(5, 8, [1, 2])
    turns = load(trace, session("s", request(0, 4, [1]), sub_agent(3, 100), follow)).sessions[0].turns
    assert [turn.after for turn in turns] == [(), (0,)]


def test_sessions_alike_share_tools_and_system_prompt(trace: Path) -> None:
    one = session("a", request(0, 16, [1, 2, 3, 4]))
    two = session("b", request(0, 16, [11, 12, 13, 14]))
    other = session("c", request(0, 16, [1, 2, 3, 4]), tool_tokens=8, system_tokens=1)
    a, b, c = [prompts(s)[0] for s in load(trace, one, two, other).sessions]
    assert shared_len(a, b) == (4 + 5) // 4 * 4
    assert shared_len(a, c) == 0
    workload = load(trace, one, two, other, options=ALONE)
    a, b, c = [prompts(s)[0] for s in workload.sessions]
    assert shared_len(a, b) == shared_len(a, c) == 0
    assert any("share nothing" in note for note in workload.notes)


def test_sharing_is_said_to_be_an_assumption(trace: Path) -> None:
    workload = load(trace, session("a", request(0, 16, [1, 2, 3, 4])))
    assert any("assumption" in note and "1 group." in note for note in workload.notes)


def test_a_list_that_leaves_the_claimed_prefix_early_shares_only_up_to_there(trace: Path) -> None:
    one = session("a", request(0, 16, [1, 2, 3, 4]), request(4, 16, [1, 8, 9, 10]))
    two = session("b", request(0, 16, [1, 2, 3, 4]))
    first, second = load(trace, one, two).sessions
    assert shared_len(*prompts(first)) == 4
    assert shared_len(prompts(second)[0], prompts(first)[1]) == 4


def test_models_have_namespaces_unless_told_otherwise(trace: Path) -> None:
    lines = session("s", request(0, 4, [1]), request(3, 4, [1], model="n"))
    assert [t.namespace for t in load(trace, lines).sessions[0].turns] == ["m", "n"]
    options = TraceOptions(model_namespaces=False)
    assert [t.namespace for t in load(trace, lines, options=options).sessions[0].turns] == [None] * 2


def test_start_times_are_drawn_by_the_seed(trace: Path) -> None:
    sessions = [session(f"s{i}", request(0, 4, [1])) for i in range(5)]
    one, again = (load(trace, *sessions, options=TraceOptions(seed=1)) for _ in range(2))
    other = load(trace, *sessions, options=TraceOptions(seed=2))
    starts = [[s.start_s for s in workload.sessions] for workload in (one, again, other)]
    assert starts[0] == starts[1] != starts[2]
    evenly = TraceOptions(arrivals=Constant(rate_per_s=4))
    spaced = [s.start_s for s in load(trace, *sessions, options=evenly).sessions]
    assert spaced == [0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (request(0, 9, [1]), "in 9 has 2 full blocks of 4 tokens, not 1"),
        (request(0, 0, []), ">= 1"),
        (request(-1, 4, [1]), ">= 0"),
        (request(0, 4, [-1]), ">= 0"),
        (request(0, 4, [1], out=-2), ">= 0.*-2"),
        (request(0, 4, [1], type="x"), "x"),
        (request(0, 4, [2**29]), "block ids up to 536870912"),
        (packed(0, 8, 1, [[1, 1]]), "keep 1 exceeds the 0 blocks"),
        (packed(0, 8, 0, [[1, 0]]), ">= 1"),
        (packed(0, 8, 0, [[1, 2, 3]]), "length 2"),
        ({**request(0, 4, []), "hash_ids": None}, "neither hash_ids nor runs"),
        (sub_agent(1, 0, request(0, 9, [1])), "in 9 has 2 full blocks"),
        ({"type": "n"}, "missing required field"),
        (7, "int"),
    ],
)
def test_a_bad_request_is_named(trace: Path, entry: Any, message: str) -> None:
    good = session("good", request(0, 4, [1]))
    with pytest.raises(TraceError, match=message) as caught:
        load(trace, good, session("bad", entry))
    assert str(caught.value).startswith(f"{trace}:2: ")
    assert "\n" not in str(caught.value)


def test_bad_sessions_are_named(trace: Path) -> None:
    good = request(0, 4, [1])
    for broken, message in [
        (session("s", good, hash_id_scope="global"), "hash_id_scope 'global'"),
        (session("s"), "length >= 1"),
        (session("s", sub_agent(0, 5)), "session s has no requests"),
        (session("s", good, block_size=0), ">= 1.*0"),
    ]:
        with pytest.raises(TraceError, match=message):
            load(trace, broken)


def test_a_folder_without_sessions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"holds no \.json file"):
        load_trace(tmp_path)


def test_run_arithmetic() -> None:
    assert compressed([]) == []
    assert joined([(1, 2)], [(3, 4), (9, 1)]) == [(1, 6), (9, 1)]
    assert first_blocks([(1, 2), (9, 3)], 0) == []
    assert common_blocks([(1, 2), (9, 3)], [(1, 2), (9, 5)]) == 5
    assert common_blocks([(1, 2), (9, 3)], [(1, 4)]) == 2
    assert common_blocks([], [(1, 4)]) == 0


def block_ids(requests: list[dict[str, Any]]) -> list[list[int]]:
    """Block ids of a list of packed requests, unpacked the long way."""
    lists: list[list[int]] = []
    for entry in requests:
        before = lists[-1] if lists else []
        new = [first + i for first, count in entry["runs"] for i in range(count)]
        lists.append(before[: entry["keep"]] + new)
    return lists


@pytest.fixture(scope="module")
def sessions_raw(shared: Path) -> list[dict[str, Any]]:
    with gzip.open(shared / "data/traces/agentic_coding.delta.jsonl.gz") as file:
        return [json.loads(line) for line in file]


@pytest.mark.shared_data
@pytest.mark.parametrize("options", [ALONE, TraceOptions()], ids=["alone", "shared prefixes"])
def test_prompts_share_exactly_the_recorded_blocks(
    shared: Path, sessions_raw: list[dict[str, Any]], options: TraceOptions
) -> None:
    workload = load_trace(shared / "data/traces/agentic_coding.delta.jsonl.gz", options=options)
    assert (len(workload.sessions), workload.num_turns) == (355, 23_491 + 524)
    for raw, loaded in list(zip(sessions_raw, workload.sessions, strict=True))[::12]:
        main = [entry for entry in raw["requests"] if entry["type"] != "subagent"]
        expected = block_ids(main)
        turns = [turn for turn in loaded.turns if turn.kind != "sub-agent"]
        made = [prompt_of(turn, {}) for turn in turns]
        assert [len(prompt) for prompt in made] == [entry["in"] for entry in main]
        for k in range(1, len(made)):
            a, b = (np.array(expected[j], dtype=np.int32) for j in (k - 1, k))
            assert shared_len(made[k - 1], made[k]) == 64 * shared_len(a, b)


def pack(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A list of original requests in the packed form."""
    before: list[int] = []
    result = []
    for entry in requests:
        if entry["type"] == "subagent":
            result.append({**entry, "requests": pack(entry["requests"])})
            continue
        now = entry["hash_ids"]
        keep = shared_len(np.array(before, dtype=np.int32), np.array(now, dtype=np.int32))
        rest = {name: value for name, value in entry.items() if name != "hash_ids"}
        result.append({**rest, "keep": keep, "runs": [list(run) for run in compressed(now[keep:])]})
        before = now
    return result


@pytest.mark.shared_data
def test_originals_equal_their_packed_form(shared: Path, trace: Path) -> None:
    folder = shared / "data/traces/agentic_coding_originals"
    raw = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    packed_sessions = [{**whole, "requests": pack(whole["requests"])} for whole in raw]
    originals, again = load_trace(folder), load(trace, *packed_sessions)
    assert (len(originals.sessions), originals.num_turns) == (4, 97)
    for one, two in zip(originals.sessions, again.sessions, strict=True):
        assert one.session_id == two.session_id
        for a, b in zip(one.turns, two.turns, strict=True):
            assert prompt_of(a, {}).tolist() == prompt_of(b, {}).tolist()
            assert (a.output_len, a.after, a.think_s, a.kind) == (
                b.output_len,
                b.after,
                b.think_s,
                b.kind,
            )


@pytest.mark.shared_data
def test_recorded_sub_agents_start_right_after_the_answer_that_asked_for_them(shared: Path) -> None:
    workload = load_trace(shared / "data/traces/agentic_coding.delta.jsonl.gz")
    starts = [
        turn.think_s
        for loaded in workload.sessions
        for turn in loaded.turns
        if turn.kind == "sub-agent" and loaded.turns[turn.after[0]].kind != "sub-agent"
    ]
    assert len(starts) == 48
    assert max(starts) < 2.0
