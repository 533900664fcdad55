"""A conversation of one user: every prompt is all that was said before, and a question."""

from itertools import islice

from bench.errors import expect
from bench.scenarios.served_model import ServedModel
from bench.workloads.prose import sentences
from runtime.engine import Completion, Engine, SamplingParams

_MARK = "\x1f"
"""Stands for an answer in a rendered conversation; no question contains it."""


class Conversation:
    """Questions that are given, and answers as they were generated; the next prompt contains them.

    Args:
        model: Who answers.
        num_turns: Questions.
        question_tokens: Tokens of each, some more or less with a chat template around it.
        answer_tokens: Tokens of each answer.
        seed: For the questions.
    """

    def __init__(
        self, model: ServedModel, *, num_turns: int, question_tokens: int, answer_tokens: int, seed: int
    ) -> None:
        self._model = model
        self._answer_tokens = answer_tokens
        self.questions = [
            _question(model, seed + turn, question_tokens, follows=turn > 0) for turn in range(num_turns)
        ]

    def engine(self, *, cache: bool) -> Engine:
        """An engine that has room for the whole conversation."""
        total = sum(map(len, self.questions)) + len(self.questions) * self._answer_tokens
        return self._model.engine(self._model.engine_config(total + self._model.page_size, cache=cache))

    def turns(self, sides: dict[str, Engine]) -> list[dict[str, Completion]]:
        """The whole conversation, each turn on every side before the next begins.

        All get the same prompts: those that contain the answers of the first side.

        Raises:
            WrongResult: Answers differ, or a cache did not find all that it could.
        """
        said: list[int] = []
        answered: list[dict[str, Completion]] = []
        params = SamplingParams(max_new_tokens=self._answer_tokens, ignore_eos=True)
        for turn, question in enumerate(self.questions):
            prompt = said + question
            found = {side: engine.generate([prompt], params)[0] for side, engine in sides.items()}
            first = next(iter(found.values()))
            for side, completion in found.items():
                self._model.require_same(
                    f"turn {turn}, {side}", prompt, completion.token_ids, first.token_ids
                )
                self._verify_hit(turn, side, sides[side], completion, said)
            # a side whose answer differs by a tie has cached its own; the next prompt then finds less of it
            said = prompt + first.token_ids
            answered.append(found)
        return answered

    def _verify_hit(
        self, turn: int, side: str, engine: Engine, completion: Completion, said: list[int]
    ) -> None:
        """A cache finds all full pages that were said before; the last token said has no KV yet."""
        page_size = self._model.page_size
        full = max(len(said) - 1, 0) // page_size * page_size
        least = max(full - self._answer_tokens - page_size, 0)
        if engine.caches:
            found = least <= completion.cached_tokens <= full
            expect(f"turn {turn}, {side}, cached tokens within {least} to {full}", found, True)
        else:
            expect(f"turn {turn}, {side}, cached tokens", completion.cached_tokens, 0)


def _question(model: ServedModel, seed: int, num_tokens: int, *, follows: bool) -> list[int]:
    """What the user says, with all that a chat template puts between two answers."""
    if model.text is None:
        return model.prompt(seed, num_tokens)
    asked = ""
    for sentence in islice(sentences(seed), num_tokens):
        asked = f"{asked} {sentence}".lstrip()
        if len(model.text.encode(asked)) >= num_tokens:
            break
    question = {"role": "user", "content": f"{asked} What happened?"}
    if not follows:
        return model.text.encode_chat([question])
    before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _MARK}]
    rendered = model.text.apply_chat([*before, question])
    return model.text.encode(rendered.partition(_MARK)[2], add_special_tokens=False)
