"""Tree-of-thought search: branches from shared states, of which the best are kept and expanded."""

# ruff: noqa: RUF009 - `Lengths` is frozen, one default may serve all

from dataclasses import dataclass, field

import numpy as np

from runtime.workload.arrivals import ArrivalProcess, Poisson
from runtime.workload.draws import Lengths, TokenSource, check_counts, seeded
from runtime.workload.model import Literal, OutputOf, Segment, Session, Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOfThought:
    """Breadth-first search over generated thoughts.

    At each level every kept state proposes `branching` thoughts from one and the same prompt; each
    is judged by a short request that contains it; `beam` of them are kept, by the seed, and carry
    the thoughts on their path into the next prompts. The search is that of Yao et al., "Tree of
    Thoughts", 2023 (three levels, five candidates there).

    Attributes:
        num_sessions: Problems, >= 1.
        arrivals: When they come.
        depth: Levels, >= 1.
        branching: Thoughts proposed from a state, >= 1.
        beam: States kept after a level, >= 1.
        instruction_len: Tokens that all problems begin with.
        problem_len: Tokens of a problem.
        thought_len: Tokens of a thought.
        judge_len: Tokens of the question that a judgement ends with.
        verdict_len: Tokens of a judgement.
    """

    num_sessions: int = 30
    arrivals: ArrivalProcess = field(default_factory=lambda: Poisson(rate_per_s=1.0))
    depth: int = 3
    branching: int = 5
    beam: int = 2
    instruction_len: Lengths = Lengths(median=900, sigma=0.2, low=8, high=8192)
    problem_len: Lengths = Lengths(median=120, sigma=0.5, low=4, high=2048)
    thought_len: Lengths = Lengths(median=100, sigma=0.5, low=4, high=1024)
    judge_len: Lengths = Lengths(median=40, sigma=0.2, low=4, high=512)
    verdict_len: Lengths = Lengths(median=6, sigma=0.4, low=1, high=64)

    def __post_init__(self) -> None:
        check_counts(
            num_sessions=self.num_sessions,
            depth=self.depth,
            branching=self.branching,
            beam=self.beam,
        )

    def generate(self, seed: int) -> Workload:
        """See `Generator`."""
        rng = seeded(seed)
        source = TokenSource(rng)
        instruction = source.literal(self.instruction_len.draw(rng))
        judge = source.literal(self.judge_len.draw(rng))
        starts = self.arrivals.start_times(self.num_sessions, rng)
        sessions = [
            Session(
                session_id=f"problem-{number}",
                start_s=float(starts[number]),
                turns=self._turns((instruction, source.literal(self.problem_len.draw(rng))), judge, rng),
            )
            for number in range(self.num_sessions)
        ]
        return Workload(
            name="tree-of-thought",
            sessions=tuple(sessions),
            notes=("Generated: which thoughts are kept is drawn by the seed, not judged.",),
        )

    def _turns(self, root: tuple[Segment, ...], judge: Literal, rng: np.random.Generator) -> tuple[Turn, ...]:
        turns: list[Turn] = []
        states: list[tuple[OutputOf, ...]] = [()]
        verdicts: tuple[int, ...] = ()
        for _ in range(self.depth):
            candidates: list[tuple[OutputOf, ...]] = []
            after, verdicts = verdicts, ()
            for path in states:
                for _ in range(self.branching):
                    thought = self._propose(turns, (*root, *path), after, rng)
                    candidates.append((*path, thought))
                    verdicts += (self._judge(turns, (*root, *candidates[-1]), judge, rng),)
            kept = min(self.beam, len(candidates))
            chosen = rng.choice(len(candidates), kept, replace=False)
            states = [candidates[index] for index in sorted(chosen)]
        return tuple(turns)

    def _propose(
        self,
        turns: list[Turn],
        state: tuple[Segment | OutputOf, ...],
        after: tuple[int, ...],
        rng: np.random.Generator,
    ) -> OutputOf:
        output_len = self.thought_len.draw(rng)
        turns.append(Turn(segments=state, output_len=output_len, after=after, kind="thought"))
        return OutputOf(len(turns) - 1)

    def _judge(
        self,
        turns: list[Turn],
        candidate: tuple[Segment | OutputOf, ...],
        judge: Literal,
        rng: np.random.Generator,
    ) -> int:
        output_len = self.verdict_len.draw(rng)
        after = (len(turns) - 1,)
        segments = (*candidate, judge)
        turns.append(Turn(segments=segments, output_len=output_len, after=after, kind="verdict"))
        return len(turns) - 1
