"""Tool-using agents: shared tool schemas, tool results appended, sub-agents in parallel."""

# ruff: noqa: RUF009 - `Lengths` is frozen, one default may serve all

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from runtime.workload.arrivals import ArrivalProcess, Poisson
from runtime.workload.draws import (
    Lengths,
    TokenSource,
    check_counts,
    check_mean,
    check_probability,
    check_seconds,
    geometric,
    seeded,
    zipf_weights,
)
from runtime.workload.model import Literal, OutputOf, Segment, Session, Turn, Workload

NOTE: Final = (
    "Generated: agents of a kind share tools and system prompt; all sub-agents share theirs; a "
    "parent reads only the last answer of each of its sub-agents."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgents:
    """How agents delegate.

    Attributes:
        probability: Chance that a step starts sub-agents instead of calling a tool.
        fan_out: Sub-agents started at once, >= 1.
        prefix_len: Tokens of the tools and system prompt that all sub-agents share.
        brief_len: Tokens of the task description that sub-agents started together share.
        mean_steps: Mean requests of a sub-agent (geometric), >= 1.
    """

    probability: float = 0.08
    fan_out: int = 3
    prefix_len: Lengths = Lengths(median=3000, sigma=0.2, low=64, high=16384)
    brief_len: Lengths = Lengths(median=400, sigma=0.5, low=8, high=4096)
    mean_steps: float = 4.0

    def __post_init__(self) -> None:
        check_probability("probability", self.probability)
        check_counts(fan_out=self.fan_out)
        check_mean("mean_steps", self.mean_steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """Agents that call tools until their task is done.

    Sizes lie below those of recorded coding agents (the agentic-coding trace has 10 to 17 thousand
    tokens of tools and system prompt and some 50 requests a session), nearer to customer-service
    agents (tau-bench: about 4.6 thousand tokens of policy and tools, some ten requests).

    Attributes:
        num_sessions: Tasks, >= 1.
        arrivals: When they start.
        num_agents: Different agents, each with tools and a system prompt of its own, >= 1.
        zipf_exponent: How unequal their popularity is, >= 0.
        prefix_len: Tokens of tools and system prompt.
        task_len: Tokens of the task.
        mean_steps: Mean requests of the main agent (geometric), >= 1.
        action_len: Tokens of an answer: a thought and a tool call.
        result_len: Tokens of a tool's result.
        mean_tool_s: Mean time a tool takes (exponential), seconds.
        sub_agents: How they delegate.
        max_context: An agent stops before prompt and answer exceed this, tokens.
    """

    num_sessions: int = 100
    arrivals: ArrivalProcess = field(default_factory=lambda: Poisson(rate_per_s=0.5))
    num_agents: int = 4
    zipf_exponent: float = 1.0
    prefix_len: Lengths = Lengths(median=4500, sigma=0.3, low=64, high=16384)
    task_len: Lengths = Lengths(median=250, sigma=0.7, low=8, high=4096)
    mean_steps: float = 12.0
    action_len: Lengths = Lengths(median=120, sigma=0.7, low=4, high=2048)
    result_len: Lengths = Lengths(median=350, sigma=1.2, low=4, high=8192)
    mean_tool_s: float = 2.0
    sub_agents: SubAgents = SubAgents()
    max_context: int = 65536

    def __post_init__(self) -> None:
        check_counts(
            num_sessions=self.num_sessions,
            num_agents=self.num_agents,
            max_context=self.max_context,
        )
        zipf_weights(self.num_agents, self.zipf_exponent)
        check_mean("mean_steps", self.mean_steps)
        check_seconds("mean_tool_s", self.mean_tool_s)

    def generate(self, seed: int) -> Workload:
        """See `Generator`."""
        rng = seeded(seed)
        source = TokenSource(rng)
        prefixes = [source.literal(self.prefix_len.draw(rng)) for _ in range(self.num_agents)]
        sub_prefix = source.literal(self.sub_agents.prefix_len.draw(rng))
        popularity = zipf_weights(self.num_agents, self.zipf_exponent)
        chosen = rng.choice(self.num_agents, self.num_sessions, p=popularity)
        starts = self.arrivals.start_times(self.num_sessions, rng)
        sessions = [
            Session(
                session_id=f"agent-{number}",
                start_s=float(starts[number]),
                turns=_Run(self, rng, source, sub_prefix).turns_of(prefixes[chosen[number]]),
                tenant=f"agent-kind-{chosen[number]}",
            )
            for number in range(self.num_sessions)
        ]
        return Workload(name="agents", sessions=tuple(sessions), notes=(NOTE,))


class _Run:
    """The turns of one session as they are drawn."""

    def __init__(
        self, config: Agents, rng: np.random.Generator, source: TokenSource, sub_prefix: Literal
    ) -> None:
        self._config = config
        self._rng = rng
        self._source = source
        self._sub_prefix = sub_prefix
        self._turns: list[Turn] = []

    def turns_of(self, prefix: Literal) -> tuple[Turn, ...]:
        config = self._config
        task = self._source.literal(config.task_len.draw(self._rng))
        context: list[Segment | OutputOf] = [prefix, task]
        after: tuple[int, ...] = ()
        kind, pause_s = "first", 0.0
        for _ in range(geometric(self._rng, config.mean_steps, config.max_context)):
            number = self._add(context, after, pause_s, kind)
            if number is None:
                break
            context.append(OutputOf(number))
            if self._rng.random() < config.sub_agents.probability:
                after = self._delegate(number)
                context.extend(map(OutputOf, after))
                kind, pause_s = "sub-agents done", 0.0
            else:
                context.append(self._result())
                after = (number,)
                kind, pause_s = "tool result", self._tool_s()
        return tuple(self._turns)

    def _delegate(self, parent: int) -> tuple[int, ...]:
        """Sub-agents started by turn `parent`; returns the last turn of each."""
        settings = self._config.sub_agents
        brief = self._source.literal(settings.brief_len.draw(self._rng))
        return tuple(self._sub_agent(parent, brief) for _ in range(settings.fan_out))

    def _sub_agent(self, parent: int, brief: Literal) -> int:
        settings = self._config.sub_agents
        part = self._source.literal(self._config.task_len.draw(self._rng))
        context: list[Segment | OutputOf] = [self._sub_prefix, brief, part]
        last, pause_s = parent, 0.0
        for _ in range(geometric(self._rng, settings.mean_steps, self._config.max_context)):
            number = self._add(context, (last,), pause_s, "sub-agent")
            if number is None:
                break
            last, pause_s = number, self._tool_s()
            context += [OutputOf(number), self._result()]
        return last

    def _add(
        self,
        context: list[Segment | OutputOf],
        after: tuple[int, ...],
        pause_s: float,
        kind: str,
    ) -> int | None:
        """Add a turn; None where it would not fit the context, unless it is the agent's first."""
        output_len = self._config.action_len.draw(self._rng)
        num_tokens = output_len + sum(
            self._turns[part.turn].output_len if isinstance(part, OutputOf) else len(part) for part in context
        )
        is_first = not any(isinstance(part, OutputOf) for part in context)
        if num_tokens > self._config.max_context and not is_first:
            return None
        self._turns.append(
            Turn(
                segments=tuple(context),
                output_len=output_len,
                after=after,
                think_s=pause_s,
                kind=kind,
            )
        )
        return len(self._turns) - 1

    def _result(self) -> Literal:
        return self._source.literal(self._config.result_len.draw(self._rng))

    def _tool_s(self) -> float:
        return float(self._rng.exponential(self._config.mean_tool_s))
