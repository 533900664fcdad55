"""Questions over shared documents: retrieved documents stand before the question."""

# ruff: noqa: RUF009 - `Lengths` is frozen, one default may serve all

from dataclasses import dataclass, field

import numpy as np

from runtime.errors import WorkloadError
from runtime.workload.arrivals import ArrivalProcess, Poisson
from runtime.workload.draws import (
    Lengths,
    TokenSource,
    check_counts,
    check_probability,
    check_seconds,
    seeded,
    zipf_weights,
)
from runtime.workload.model import OutputOf, Segment, Session, Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Rag:
    """Retrieval-augmented questions. A prompt's documents stand in order of popularity.

    That order makes two prompts with the same favourites share a prefix. RAGCache (Jin et al.,
    2024) describes the skew of popularity, and prompts of a few thousand retrieved tokens.

    Attributes:
        num_sessions: Questions, follow-ups not counted, >= 1.
        arrivals: When they come.
        num_documents: Documents to retrieve from, >= 1.
        zipf_exponent: How unequal their popularity is, >= 0.
        documents_per_prompt: Different documents in a prompt, 1 to `num_documents`.
        document_len: Tokens of a document.
        instruction_len: Tokens of the instruction that all prompts begin with.
        question_len: Tokens of a question.
        output_len: Tokens of an answer.
        follow_up_probability: Chance of one more question over the same documents.
        mean_think_s: Mean pause before it (exponential), seconds.
    """

    num_sessions: int = 400
    arrivals: ArrivalProcess = field(default_factory=lambda: Poisson(rate_per_s=2.0))
    num_documents: int = 1000
    zipf_exponent: float = 1.0
    documents_per_prompt: int = 4
    document_len: Lengths = Lengths(median=700, sigma=0.4, low=32, high=8192)
    instruction_len: Lengths = Lengths(median=250, sigma=0.2, low=8, high=4096)
    question_len: Lengths = Lengths(median=40, sigma=0.6, low=4, high=1024)
    output_len: Lengths = Lengths(median=150, sigma=0.6, low=4, high=2048)
    follow_up_probability: float = 0.3
    mean_think_s: float = 20.0

    def __post_init__(self) -> None:
        check_counts(
            num_sessions=self.num_sessions,
            num_documents=self.num_documents,
            documents_per_prompt=self.documents_per_prompt,
        )
        if self.documents_per_prompt > self.num_documents:
            raise WorkloadError(
                f"documents_per_prompt {self.documents_per_prompt} exceeds the "
                f"{self.num_documents} documents there are"
            )
        zipf_weights(self.num_documents, self.zipf_exponent)
        check_probability("follow_up_probability", self.follow_up_probability)
        check_seconds("mean_think_s", self.mean_think_s)

    def generate(self, seed: int) -> Workload:
        """See `Generator`."""
        rng = seeded(seed)
        source = TokenSource(rng)
        instruction = source.literal(self.instruction_len.draw(rng))
        lengths = self.document_len.draw_many(rng, self.num_documents)
        documents = [source.literal(int(length)) for length in lengths]
        popularity = zipf_weights(self.num_documents, self.zipf_exponent)
        starts = self.arrivals.start_times(self.num_sessions, rng)
        sessions = []
        for number in range(self.num_sessions):
            chosen = rng.choice(self.num_documents, self.documents_per_prompt, replace=False, p=popularity)
            context = [instruction, *(documents[index] for index in sorted(chosen))]
            sessions.append(
                Session(
                    session_id=f"rag-{number}",
                    start_s=float(starts[number]),
                    turns=self._turns(tuple(context), rng, source),
                )
            )
        return Workload(
            name="rag",
            sessions=tuple(sessions),
            notes=("Generated: in every prompt the more popular document comes first.",),
        )

    def _turns(
        self, context: tuple[Segment, ...], rng: np.random.Generator, source: TokenSource
    ) -> tuple[Turn, ...]:
        question = source.literal(self.question_len.draw(rng))
        asked = Turn(segments=(*context, question), output_len=self.output_len.draw(rng), kind="first")
        if rng.random() >= self.follow_up_probability:
            return (asked,)
        again = source.literal(self.question_len.draw(rng))
        follow_up = Turn(
            segments=(*asked.segments, OutputOf(0), again),
            output_len=self.output_len.draw(rng),
            after=(0,),
            think_s=float(rng.exponential(self.mean_think_s)),
            kind="follow-up",
        )
        return (asked, follow_up)
