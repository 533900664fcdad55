import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from radixcache.errors import UnknownName
from runtime.errors import WorkloadError
from runtime.workload import (
    FRESH_TOKEN_BASE,
    GENERATORS,
    Constant,
    OutputOf,
    Session,
    Workload,
    find_generator,
    prompt_of,
)
from runtime.workload.draws import Lengths
from runtime.workload.generators import Agents, Chat, FewShot, Rag, SubAgents, TreeOfThought
from runtime.workload.model import TokenArray

NAMES = sorted(GENERATORS)


def small(name: str, seed: int = 0, **settings: Any) -> Workload:
    size = "num_questions" if name == "few-shot" else "num_sessions"
    return find_generator(name)(**{size: 12, **settings}).generate(seed)


def prompts(session: Session) -> Iterator[TokenArray]:
    """Prompts in turn order, outputs numbered from the first fresh id."""
    outputs: dict[int, TokenArray] = {}
    fresh = FRESH_TOKEN_BASE
    for number, turn in enumerate(session.turns):
        yield prompt_of(turn, outputs)
        outputs[number] = np.arange(fresh, fresh + turn.output_len, dtype=np.int32)
        fresh += turn.output_len


def digest(workload: Workload) -> str:
    state = hashlib.sha256(repr((workload.name, workload.notes)).encode())
    for session in workload.sessions:
        state.update(repr((session.session_id, session.start_s, session.tenant)).encode())
        for turn, prompt in zip(session.turns, prompts(session), strict=True):
            rest = (turn.output_len, turn.after, turn.think_s, turn.namespace, turn.kind)
            state.update(repr(rest).encode() + prompt.tobytes())
    return state.hexdigest()


def shared_len(a: TokenArray, b: TokenArray) -> int:
    length = min(len(a), len(b))
    differing = np.flatnonzero(a[:length] != b[:length])
    return int(differing[0]) if len(differing) else length


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_workload_and_another_seed_another(name: str) -> None:
    assert digest(small(name, 3)) == digest(small(name, 3))
    assert digest(small(name, 3)) != digest(small(name, 4))


@pytest.mark.parametrize("name", NAMES)
def test_sessions_are_in_order_and_their_names_unique(name: str) -> None:
    sessions = small(name).sessions
    starts = [session.start_s for session in sessions]
    assert starts == sorted(starts)
    assert len({session.session_id for session in sessions}) == len(sessions)


@pytest.mark.parametrize("name", NAMES)
def test_literal_ids_leave_room_for_outputs(name: str) -> None:
    for session in small(name).sessions:
        for turn in session.turns:
            for segment in turn.segments:
                if not isinstance(segment, OutputOf):
                    tokens = segment.tokens()
                    assert tokens.dtype == np.int32
                    assert 0 <= tokens.min() <= tokens.max() < FRESH_TOKEN_BASE


@pytest.mark.parametrize("name", NAMES)
def test_prompts_of_two_sessions_share_whole_segments_or_nothing(name: str) -> None:
    first = [(s.turns[0], next(prompts(s))) for s in small(name).sessions]
    some_shared = 0
    for i, (turn_a, prompt_a) in enumerate(first):
        ends = np.cumsum([0, *(len(s) for s in turn_a.segments if not isinstance(s, OutputOf))])
        for _, prompt_b in first[i + 1 :]:
            shared = shared_len(prompt_a, prompt_b)
            assert shared in ends
            some_shared += shared > 0
    assert some_shared


@pytest.mark.parametrize("name", NAMES)
def test_default_sizes_are_those_of_real_use(name: str) -> None:
    workload = find_generator(name)().generate(0)
    lengths = [len(prompt) for session in workload.sessions for prompt in prompts(session)]
    assert 500 < np.mean(lengths) < 20_000
    assert max(lengths) < 70_000
    assert 200 <= workload.num_turns < 5_000


def test_unknown_generator_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown workload 'agent': did you mean agents"):
        find_generator("agent")


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Chat, {"num_sessions": 0}, "num_sessions 0"),
        (Chat, {"mean_turns": 0.5}, "mean_turns 0.5"),
        (Chat, {"mean_think_s": -1.0}, "mean_think_s -1.0"),
        (Chat, {"zipf_exponent": -1.0}, "exponent -1.0"),
        (Agents, {"num_agents": 0}, "num_agents 0"),
        (Agents, {"mean_tool_s": float("nan")}, "mean_tool_s nan"),
        (SubAgents, {"probability": 1.5}, "probability 1.5"),
        (SubAgents, {"fan_out": 0}, "fan_out 0"),
        (Rag, {"follow_up_probability": -0.1}, "follow_up_probability -0.1"),
        (Rag, {"documents_per_prompt": 9, "num_documents": 8}, "documents_per_prompt 9"),
        (FewShot, {"num_shots": 0}, "num_shots 0"),
        (TreeOfThought, {"beam": 0}, "beam 0"),
    ],
)
def test_settings_out_of_range_are_named(kind: type, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        kind(**settings)


def test_chat_prompts_grow_by_answer_and_question() -> None:
    session = max(small("chat").sessions, key=lambda session: len(session.turns))
    before = None
    for turn, prompt in zip(session.turns, prompts(session), strict=True):
        if before is not None:
            assert prompt[: len(before)].tolist() == before.tolist()
            assert prompt[len(before)] >= FRESH_TOKEN_BASE
        before = prompt
        assert turn.kind == ("follow-up" if turn.after else "first")


def test_chat_keeps_to_the_context() -> None:
    workload = small("chat", mean_turns=50.0, max_context=4000)
    for session in workload.sessions:
        for turn, prompt in list(zip(session.turns, prompts(session), strict=True))[1:]:
            assert len(prompt) + turn.output_len <= 4000


def test_popular_system_prompts_are_used_more() -> None:
    tenants = [session.tenant for session in Chat(num_sessions=500).generate(0).sessions]
    assert tenants.count("assistant-0") > 2 * tenants.count("assistant-7")


def test_arrivals_are_a_choice() -> None:
    starts = [s.start_s for s in small("rag", arrivals=Constant(rate_per_s=2.0)).sessions]
    assert starts == [number / 2 for number in range(12)]


def delegating() -> Workload:
    return small("agents", sub_agents=SubAgents(probability=0.5, fan_out=3, mean_steps=2.0))


def test_sub_agents_run_in_parallel_and_report_to_their_parent() -> None:
    seen = 0
    for session in delegating().sessions:
        for turn in session.turns:
            if turn.kind != "sub-agents done":
                continue
            seen += 1
            assert len(turn.after) == 3
            assert turn.segments[-3:] == tuple(map(OutputOf, turn.after))
            assert {session.turns[number].kind for number in turn.after} == {"sub-agent"}
    assert seen


def test_sub_agents_share_their_prefix_with_one_another_and_not_with_the_parent() -> None:
    for session in delegating().sessions:
        prompts_of = list(prompts(session))
        subs = [prompts_of[number] for number, turn in enumerate(session.turns) if turn.kind == "sub-agent"]
        for sub in subs[1:]:
            assert shared_len(subs[0], sub) > 64
            assert shared_len(prompts_of[0], sub) == 0


def test_rag_documents_stand_in_order_of_popularity() -> None:
    workload = small("rag", document_len=Lengths(median=100, sigma=0))
    order = {}
    for session in workload.sessions:
        documents = [id(segment) for segment in session.turns[0].segments[1:-1]]
        assert len(set(documents)) == 4
        for earlier, later in pairwise(documents):
            order[earlier, later] = True
    assert not any((later, earlier) in order for earlier, later in order)


def test_rag_follow_ups_keep_the_documents() -> None:
    session = next(s for s in small("rag").sessions if len(s.turns) == 2)
    first, second = prompts(session)
    assert shared_len(first, second) == len(first)


def test_few_shot_requests_are_all_there_at_once() -> None:
    assert {session.start_s for session in small("few-shot").sessions} == {0.0}


def test_thoughts_of_a_state_have_one_prompt_and_carry_the_path() -> None:
    session = small("tree-of-thought", depth=3, branching=4, beam=2).sessions[0]
    thoughts = [turn for turn in session.turns if turn.kind == "thought"]
    assert len(thoughts) == 4 + 2 * 4 + 2 * 4
    prompts_of = {turn.segments for turn in thoughts}
    assert len(prompts_of) == 1 + 2 + 2
    generated = [sum(isinstance(s, OutputOf) for s in segments) for segments in prompts_of]
    assert sorted(generated) == [0, 1, 1, 2, 2]


def test_a_level_waits_for_the_verdicts_on_the_one_before() -> None:
    session = small("tree-of-thought", depth=2, branching=3, beam=2).sessions[0]
    verdicts = tuple(n for n, turn in enumerate(session.turns[:6]) if turn.kind == "verdict")
    assert len(verdicts) == 3
    assert session.turns[6].after == verdicts
