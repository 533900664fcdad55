from itertools import pairwise

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from runtime.cli.conversation import Conversation, MessageTooLong
from runtime.models.errors import ChatTemplateError
from tests.unit.runtime.tiny_model import tiny_text

TEXT = tiny_text()


def rendered(*said: tuple[str, str]) -> list[int]:
    return TEXT.encode_chat([{"role": role, "content": content} for role, content in said])


def talk(max_tokens: int = 10_000, system: str | None = None) -> Conversation:
    return Conversation(TEXT, max_tokens=max_tokens, system=system)


def test_a_prompt_is_the_conversation_as_the_template_writes_it() -> None:
    made = talk(system="be kind")
    assert made.ask("hi", 4) == (rendered(("system", "be kind"), ("user", "hi")), 0)
    made.answer("yo", TEXT.encode("yo"))
    assert made.ask("and?", 4)[0] == rendered(
        ("system", "be kind"), ("user", "hi"), ("assistant", "yo"), ("user", "and?")
    )


def test_answers_stay_the_tokens_that_were_generated() -> None:
    made = talk()
    before, _ = made.ask("hi", 4)
    made.answer("yo", [1, 2, 3])
    after, _ = made.ask("and?", 4)
    assert after[: len(before) + 3] == [*before, 1, 2, 3]
    assert TEXT.decode(after[len(before) + 3 :], skip_special_tokens=False).startswith("<|im_end|>\n")


def test_a_text_without_known_tokens_is_encoded() -> None:
    made = talk()
    made.ask("hi", 4)
    made.answer("yo", None)
    assert made.ask("and?", 4)[0] == rendered(("user", "hi"), ("assistant", "yo"), ("user", "and?"))


def test_a_question_that_is_taken_back_was_never_asked() -> None:
    made = talk()
    made.ask("hi", 4)
    made.answer("yo", [1])
    first = made.ask("and?", 4)
    made.take_back()
    assert made.ask("and?", 4) == first


def test_reset_leaves_the_system_prompt() -> None:
    made = talk(system="be kind")
    first = made.ask("hi", 4)
    made.answer("yo", [1])
    made.reset()
    assert made.ask("hi", 4) == first


def test_the_oldest_turns_go_until_half_of_the_context_is_free() -> None:
    made = talk(max_tokens=400, system="S")
    dropped = []
    for number in range(17):
        prompt, num_dropped = made.ask(f"question {number}", 20)
        made.answer("x" * 10, TEXT.encode("x" * 10))
        assert len(prompt) + 20 <= 400
        assert TEXT.decode(prompt, skip_special_tokens=False).startswith("<|im_start|>system\nS<")
        dropped.append(num_dropped)
        if num_dropped:
            assert len(prompt) <= 200
    assert sum(map(bool, dropped)) == 2
    assert [after for before, after in pairwise(dropped) if before] == [0, 0]


def test_turns_that_were_dropped_for_a_question_come_back_with_it() -> None:
    made = talk(max_tokens=180)
    made.ask("a" * 60, 20)
    made.answer("b", [1])
    _, num_dropped = made.ask("c" * 60, 20)
    assert num_dropped == 1
    made.take_back()
    short, num_dropped = made.ask("d", 20)
    assert num_dropped == 0
    assert "aaa" in TEXT.decode(short)


def test_a_long_answer_limit_drops_nothing_while_half_is_free() -> None:
    made = talk(max_tokens=400)
    made.ask("hi", 399)
    made.answer("yo", [1])
    assert made.ask("and?", 399)[1] == 0


def test_a_message_without_room_for_an_answer_is_refused_and_changes_nothing() -> None:
    made = talk(max_tokens=100)
    first = made.ask("hi", 4)
    made.answer("yo", [1])
    with pytest.raises(MessageTooLong, match="context of 100 no room"):
        made.ask("x" * 100, 4)
    made.reset()
    assert made.ask("hi", 4) == first
    room = 100 - len(rendered(("user", "")))
    made.reset()
    assert len(made.ask("x" * (room - 1), 4)[0]) == 99
    made.reset()
    with pytest.raises(MessageTooLong):
        made.ask("x" * room, 4)


def test_what_the_template_refuses_changes_nothing() -> None:
    template = "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('no!') }}{% endif %}"
    made = Conversation(tiny_text(template + "{{ m.content }}{% endfor %}"), max_tokens=100)
    with pytest.raises(ChatTemplateError, match="no!"):
        made.ask("no", 4)
    assert made.ask("yes", 4) == (TEXT.encode("yes"), 0)
