"""A workload through a real engine and through the simulator: the same arrivals, cache and scheduler."""

import statistics
from dataclasses import dataclass

import numpy as np

from bench.errors import expect
from bench.scenarios.served_model import ServedModel
from radixcache import PrefixCache, check
from runtime.clock import Clock, WallClock, seconds
from runtime.cost import StepCost
from runtime.engine import Engine, EngineConfig, FinishReason, SamplingParams
from runtime.executor import CostModelExecutor
from runtime.simulation import Pace, Simulation
from runtime.simulation.arrivals import Arrival, Arrivals
from runtime.workload import Session, Turn, Workload
from runtime.workload.model import Literal, OutputOf, Segment
from scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Served:
    """What a run of a workload came to.

    Attributes:
        ttfts_s: Time from arrival to first token of each request, by request id.
        makespan_s: From the start to the last token, time without any request included.
        output_tokens: Tokens generated.
        cached_tokens: Prompt tokens found in the cache.
    """

    ttfts_s: dict[str, float]
    makespan_s: float
    output_tokens: int
    cached_tokens: int

    @property
    def ttft_p50_s(self) -> float:
        """Median TTFT."""
        return statistics.median(self.ttfts_s.values())

    @property
    def tokens_per_s(self) -> float:
        """Throughput, output tokens a second."""
        return self.output_tokens / self.makespan_s


class SkippingClock:
    """A clock that can skip time in which nothing happens.

    Args:
        clock: Tells the time that passes by itself.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._skipped_ps = 0

    def now_ps(self) -> int:
        """Picoseconds that passed or were skipped."""
        return self._clock.now_ps() + self._skipped_ps

    def skip_to(self, time_ps: int) -> None:
        """Skip what is left until then, if anything."""
        self._skipped_ps += max(time_ps - self.now_ps(), 0)


def serve(model: ServedModel, config: EngineConfig, workload: Workload, pace: Pace) -> Served:
    """Serve a workload with the engine, as the simulator does: pauses of all users at once are skipped.

    Raises:
        WrongResult: An output is not as long as it should be.
    """
    clock = SkippingClock(WallClock())
    return _Serving(model.engine(config, clock), clock, workload, pace).run()


class _Serving:
    def __init__(self, engine: Engine, clock: SkippingClock, workload: Workload, pace: Pace) -> None:
        self._engine, self._clock = engine, clock
        self._arrivals = Arrivals(workload, pace)
        self._num_turns = workload.num_turns
        self._in_system: dict[str, tuple[Arrival, float]] = {}
        self._ttfts: dict[str, float] = {}
        self._output_tokens = self._cached_tokens = 0

    def run(self) -> Served:
        while True:
            self._submit_due()
            if self._engine.is_idle:
                next_ps = self._arrivals.next_time()
                if next_ps is None:
                    break
                self._clock.skip_to(next_ps)
                continue
            self._step()
        expect("answered requests", len(self._ttfts), self._num_turns)
        check(self._engine.cache)
        return Served(self._ttfts, seconds(self._clock.now_ps()), self._output_tokens, self._cached_tokens)

    def _submit_due(self) -> None:
        for arrival in self._arrivals.due(self._clock.now_ps()):
            params = SamplingParams(max_new_tokens=arrival.turn.output_len, ignore_eos=True)
            prompt = self._arrivals.prompt(arrival).tolist()
            waited_s = seconds(self._clock.now_ps() - arrival.time_ps)
            self._engine.add_request(prompt, params, request_id=arrival.request_id)
            self._in_system[arrival.request_id] = arrival, waited_s

    def _step(self) -> None:
        for chunk in self._engine.step():
            done = chunk.completion
            if done is None:
                continue
            arrival, waited_s = self._in_system.pop(done.request_id)
            expect(f"end of {done.request_id}", done.finish_reason, FinishReason.LENGTH)
            expect(f"tokens of {done.request_id}", len(done.token_ids), arrival.turn.output_len)
            assert done.ttft_s is not None
            self._ttfts[done.request_id] = waited_s + done.ttft_s
            self._output_tokens += len(done.token_ids)
            self._cached_tokens += done.cached_tokens
            self._arrivals.finished(arrival, done.token_ids, self._clock.now_ps())


def simulate(cost: StepCost, config: EngineConfig, workload: Workload, pace: Pace) -> Served:
    """The same with a cost model instead of the engine.

    Raises:
        WrongResult: Not every request was answered.
    """
    cache, executor = PrefixCache(config.cache_config()), CostModelExecutor(cost)
    scheduler = Scheduler(cache, config.scheduler, output_source=executor.tokens)
    run = Simulation(workload, pace, cache=cache, scheduler=scheduler, executor=executor).run()
    ttfts = {
        record.request_id: record.first_token_s - record.arrival_s
        for record in run.requests
        if record.first_token_s is not None
    }
    expect("answered requests, simulated", len(ttfts), workload.num_turns)
    return Served(
        ttfts,
        run.makespan_s,
        sum(record.output_tokens for record in run.requests),
        sum(record.matched_tokens + record.copied_tokens for record in run.requests),
    )


def chats(
    model: ServedModel,
    *,
    num_sessions: int,
    num_turns: int,
    question_tokens: int,
    output_tokens: int,
    mean_gap_s: float,
    seed: int,
) -> Workload:
    """Conversations that start with one system prompt and come at random times.

    Args:
        model: Whose tokens.
        num_sessions: Conversations.
        num_turns: Turns of each.
        question_tokens: Tokens of a question in the mean, from half of it to half as much again.
        output_tokens: Tokens of an answer in the mean, likewise.
        mean_gap_s: Seconds between two starts, and of a pause before a question, in the mean.
        seed: For everything.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.exponential(mean_gap_s, num_sessions))
    system = _literal(model, seed, 2 * question_tokens)
    sessions = []
    for number, start in enumerate(starts.tolist()):
        said: list[Segment | OutputOf] = [system]
        turns: list[Turn] = []
        for turn in range(num_turns):
            said.append(_literal(model, seed + 1 + number * num_turns + turn, _about(rng, question_tokens)))
            turns.append(
                Turn(
                    segments=tuple(said),
                    output_len=_about(rng, output_tokens),
                    after=(turn - 1,) if turn else (),
                    think_s=float(rng.exponential(mean_gap_s)) if turn else 0.0,
                )
            )
            said.append(OutputOf(turn))
        sessions.append(Session(session_id=f"chat-{number}", start_s=start, turns=tuple(turns)))
    return Workload(name="chats", sessions=tuple(sessions))


def tokens_of(workload: Workload) -> int:
    """Tokens that differ, at most: those of each session's last turn, and all outputs."""
    return sum(
        sum(turn.output_len for turn in session.turns)
        + sum(len(each) for each in session.turns[-1].segments if not isinstance(each, OutputOf))
        for session in workload.sessions
    )


def _about(rng: np.random.Generator, mean: int) -> int:
    return int(rng.integers(max(mean // 2, 1), mean + mean // 2 + 1))


def _literal(model: ServedModel, seed: int, num_tokens: int) -> Literal:
    return Literal(np.array(model.prompt(seed, num_tokens), dtype=np.int32))
