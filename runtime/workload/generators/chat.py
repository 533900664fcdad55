"""Multi-turn chat: several system prompts of unequal popularity, shared by many conversations."""

# ruff: noqa: RUF009 - `Lengths` is frozen, one default may serve all

from dataclasses import dataclass, field

import numpy as np

from runtime.workload.arrivals import ArrivalProcess, Poisson
from runtime.workload.draws import (
    Lengths,
    TokenSource,
    check_counts,
    check_mean,
    check_seconds,
    geometric,
    seeded,
    zipf_weights,
)
from runtime.workload.model import Literal, OutputOf, Segment, Session, Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """People talking to assistants. Each prompt repeats the conversation so far.

    Sizes are of the order that LMSYS-Chat-1M reports (Zheng et al., 2023: some 70 prompt and 215
    answer tokens a turn) with the longer system prompts of deployed assistants.

    Attributes:
        num_sessions: Conversations, >= 1.
        arrivals: When they start.
        num_system_prompts: Different assistants, >= 1.
        zipf_exponent: How unequal their popularity is, >= 0.
        system_len: Tokens of a system prompt.
        mean_turns: Mean questions in a conversation (geometric), >= 1.
        user_len: Tokens of a question.
        output_len: Tokens of an answer.
        mean_think_s: Mean pause between an answer and the next question (exponential), seconds.
        max_context: A conversation ends before prompt and answer exceed this, tokens.
    """

    num_sessions: int = 200
    arrivals: ArrivalProcess = field(default_factory=lambda: Poisson(rate_per_s=2.0))
    num_system_prompts: int = 8
    zipf_exponent: float = 1.0
    system_len: Lengths = Lengths(median=900, sigma=0.5, low=64, high=4096)
    mean_turns: float = 5.0
    user_len: Lengths = Lengths(median=60, sigma=1.0, low=4, high=4096)
    output_len: Lengths = Lengths(median=200, sigma=0.7, low=4, high=2048)
    mean_think_s: float = 15.0
    max_context: int = 32768

    def __post_init__(self) -> None:
        check_counts(
            num_sessions=self.num_sessions,
            num_system_prompts=self.num_system_prompts,
            max_context=self.max_context,
        )
        zipf_weights(self.num_system_prompts, self.zipf_exponent)
        check_mean("mean_turns", self.mean_turns)
        check_seconds("mean_think_s", self.mean_think_s)

    def generate(self, seed: int) -> Workload:
        """See `Generator`."""
        rng = seeded(seed)
        source = TokenSource(rng)
        lengths = self.system_len.draw_many(rng, self.num_system_prompts)
        systems = [source.literal(int(length)) for length in lengths]
        popularity = zipf_weights(self.num_system_prompts, self.zipf_exponent)
        starts = self.arrivals.start_times(self.num_sessions, rng)
        chosen = rng.choice(self.num_system_prompts, self.num_sessions, p=popularity)
        sessions = [
            Session(
                session_id=f"chat-{number}",
                start_s=float(starts[number]),
                turns=self._turns(systems[chosen[number]], rng, source),
                tenant=f"assistant-{chosen[number]}",
            )
            for number in range(self.num_sessions)
        ]
        return Workload(
            name="chat",
            sessions=tuple(sessions),
            notes=("Generated: conversations share system prompts and nothing else.",),
        )

    def _turns(self, system: Literal, rng: np.random.Generator, source: TokenSource) -> tuple[Turn, ...]:
        turns: list[Turn] = []
        said: list[Segment | OutputOf] = [system]
        num_tokens = len(system)
        for number in range(geometric(rng, self.mean_turns, self.max_context)):
            question = source.literal(self.user_len.draw(rng))
            output_len = self.output_len.draw(rng)
            think_s = float(rng.exponential(self.mean_think_s)) if number else 0.0
            num_tokens += len(question) + output_len
            if number and num_tokens > self.max_context:
                break
            said.append(question)
            turns.append(
                Turn(
                    segments=tuple(said),
                    output_len=output_len,
                    after=(number - 1,) if number else (),
                    think_s=think_s,
                    kind="follow-up" if number else "first",
                )
            )
            said.append(OutputOf(number))
        return tuple(turns)
