"""A batch of questions, all there at once, behind the worked examples of a few tasks."""

# ruff: noqa: RUF009 - `Lengths` is frozen, one default may serve all

from dataclasses import dataclass

from runtime.workload.draws import Lengths, TokenSource, check_counts, seeded, zipf_weights
from runtime.workload.model import Session, Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot:
    """Offline evaluation: every prompt is a task's examples and one question.

    Sizes are of the order of five- to eight-shot MMLU and GSM8K prompts, one to two thousand.

    Attributes:
        num_questions: Requests, >= 1.
        num_tasks: Different sets of examples, >= 1.
        zipf_exponent: How unequally questions are spread over tasks, >= 0.
        num_shots: Examples in a prompt, >= 1.
        example_len: Tokens of an example.
        question_len: Tokens of a question.
        output_len: Tokens of an answer.
    """

    num_questions: int = 400
    num_tasks: int = 8
    zipf_exponent: float = 0.5
    num_shots: int = 8
    example_len: Lengths = Lengths(median=150, sigma=0.4, low=8, high=2048)
    question_len: Lengths = Lengths(median=90, sigma=0.5, low=4, high=2048)
    output_len: Lengths = Lengths(median=60, sigma=0.8, low=1, high=1024)

    def __post_init__(self) -> None:
        check_counts(num_questions=self.num_questions, num_tasks=self.num_tasks, num_shots=self.num_shots)
        zipf_weights(self.num_tasks, self.zipf_exponent)

    def generate(self, seed: int) -> Workload:
        """See `Generator`."""
        rng = seeded(seed)
        source = TokenSource(rng)
        lengths = self.example_len.draw_many(rng, self.num_tasks * self.num_shots)
        examples = lengths.reshape(self.num_tasks, self.num_shots).sum(axis=1)
        tasks = [source.literal(int(num_tokens)) for num_tokens in examples]
        popularity = zipf_weights(self.num_tasks, self.zipf_exponent)
        chosen = rng.choice(self.num_tasks, self.num_questions, p=popularity)
        sessions = [
            Session(
                session_id=f"question-{number}",
                start_s=0.0,
                turns=(
                    Turn(
                        segments=(tasks[task], source.literal(self.question_len.draw(rng))),
                        output_len=self.output_len.draw(rng),
                        kind="question",
                    ),
                ),
                tenant=f"task-{task}",
            )
            for number, task in enumerate(chosen)
        ]
        return Workload(
            name="few-shot",
            sessions=tuple(sessions),
            notes=("Generated: all requests arrive at once, tasks mixed at random.",),
        )
