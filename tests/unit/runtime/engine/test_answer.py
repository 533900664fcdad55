from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.answer import AnswerText


class Pieces:
    """A token is an index into a list of texts."""

    def __init__(self, pieces: list[str], rest: str = "") -> None:
        self._pieces, self._rest = pieces, rest

    def push(self, token_id: int) -> str:
        return self._pieces[token_id]

    def finish(self) -> str:
        return self._rest


def read(pieces: list[str], stops: tuple[str, ...], rest: str = "") -> tuple[list[str], str, bool]:
    """Texts let out one by one, all of it, and whether a stop text ended it."""
    answer, out = AnswerText(Pieces(pieces, rest), stops), []
    for token in range(len(pieces)):
        text, stopped = answer.push(token)
        out.append(text)
        if stopped:
            return out, answer.text, True
    text, stopped = answer.finish()
    return [*out, text], answer.text, stopped


def test_without_stop_texts_everything_comes_at_once():
    assert read(["a", "", "bc"], ()) == (["a", "", "bc", ""], "abc", False)


def test_a_stop_text_over_several_tokens_is_never_shown():
    assert read(["x", "E", "N", "D", "y"], ("END",)) == (["x", "", "", ""], "x", True)


def test_what_only_began_like_a_stop_text_comes_later():
    assert read(["x", "E", "N", "O"], ("END",)) == (["x", "", "", "ENO", ""], "xENO", False)


def test_a_beginning_at_the_very_end_is_let_out():
    assert read(["x", "EN"], ("END",)) == (["x", "", "EN"], "xEN", False)


def test_the_stop_text_that_comes_first_counts():
    assert read(["one two three"], ("three", "two"))[1:] == ("one ", True)


def test_a_stop_text_may_end_in_what_was_held_back():
    assert read(["xEN"], ("END",), rest="D")[1:] == ("x", True)


def test_without_a_tokenizer_there_is_no_text():
    answer = AnswerText(None, ("END",))
    assert (answer.push(3), answer.finish(), answer.text) == (("", False), ("", False), "")


@given(
    st.text("ab", max_size=12),
    st.lists(st.integers(0, 12), max_size=5),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_cutting_a_text_into_tokens_changes_nothing(text, cuts, stops):
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:stop] for start, stop in pairwise(edges)]
    shown, found, stopped = read(pieces, tuple(stops))
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    first_to_complete = [text.find(stop) + len(stop) for stop in stops if stop in text]
    assert "".join(shown) == found
    assert stopped == bool(ends)
    if not ends:
        assert found == text
    else:
        assert not any(stop in found for stop in stops)
        assert text.startswith(found)
        assert min(ends) <= len(found) <= min(first_to_complete)
