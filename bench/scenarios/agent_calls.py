"""Calls of agents, one after the other, on an engine with the cache; cold calls between them.

What a model said is fed as it was recorded: a call computes its prompt and one token, which nobody reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.errors import Unavailable, expect
from bench.harness.meter import Meter
from bench.options import Options
from bench.scenarios.served_model import ServedModel
from bench.workloads.agent_runs import read_runs
from radixcache import check
from runtime.cost import fit_nonnegative
from runtime.engine import Completion, Engine, SamplingParams

_ONE_TOKEN: Final = SamplingParams(max_new_tokens=1, ignore_eos=True)
_SHORTEST: Final = 32


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call had to compute, and how long that took.

    Attributes:
        cached_tokens: Tokens found.
        computed_tokens: Tokens computed.
        times_us: Microseconds by clock.
    """

    cached_tokens: int
    computed_tokens: int
    times_us: dict[str, float]

    @property
    def counts(self) -> tuple[int, int, int]:
        """One, tokens, and query-key pairs."""
        computed = self.computed_tokens
        return 1, computed, computed * self.cached_tokens + computed * (computed + 1) // 2


@dataclass(frozen=True, slots=True, eq=False)
class AgentPrompts:
    """Prompts of all calls.

    Attributes:
        prompts: Token ids of those that the model's context holds, in order.
        num_refused: Longer ones.
        num_runs: Runs they are of.
    """

    prompts: list[list[int]]
    num_refused: int
    num_runs: int


def agent_prompts(model: ServedModel, options: Options) -> AgentPrompts:
    """The recorded calls that the options name; for a tiny run, made-up ones.

    Raises:
        Unavailable: The options name none.
    """
    num_runs, num_calls = options.pick(tiny=2, full=6), options.pick(tiny=3, full=5)
    if model.text is None:
        shared = model.prompt(options.seed, 96)
        runs = [
            shared + model.prompt(options.seed + 1 + number, 20 * num_calls) for number in range(num_runs)
        ]
        ids = [run[: len(shared) + 20 * (call + 1)] for run in runs for call in range(num_calls)]
    else:
        if options.agents is None:
            raise Unavailable("no recorded agent runs were given: --agents FILE")
        tools = None if options.tools is None else Path(options.tools)
        recorded = read_runs(Path(options.agents), num_runs=num_runs, num_calls=num_calls, tools=tools)
        ids = [model.text.encode_chat(call) for run in recorded for call in run.calls]
        num_runs = len(recorded)
    longest = model.decoder.config.max_context - 1
    fitting = [prompt for prompt in ids if len(prompt) <= longest]
    return AgentPrompts(fitting, len(ids) - len(fitting), num_runs)


class AgentCalls:
    """One repetition.

    Args:
        model: Which model.
        prompts: Of the calls, in order.
        num_cold: Cold calls between them, of prompts cut to as many lengths.
        seed: For the order of the cold calls.
    """

    def __init__(
        self, model: ServedModel, prompts: Sequence[Sequence[int]], *, num_cold: int, seed: int
    ) -> None:
        self._model = model
        self._prompts = prompts
        longest = max(prompts, key=len)
        lengths = np.geomspace(_SHORTEST, len(longest), num_cold).astype(int)
        self._cold = [
            longest[:length] for length in np.random.default_rng(seed).permutation(lengths).tolist()
        ]
        held = sum(map(len, prompts)) + len(longest)
        self._engine: Engine = model.engine(model.engine_config(held + model.page_size * len(prompts)))
        self.cold: list[CallCost] = []
        self.warm: list[CallCost] = []
        self.first: list[CallCost] = []

    def run(self) -> None:
        """All calls, cold ones spread among them.

        Raises:
            WrongResult: A call did not find just what those before it had in common with it.
        """
        page_size, cold = self._model.page_size, self._cold
        self._call(self._prompts[0][:_SHORTEST], read=False)  # warms up
        for number, prompt in enumerate(self._prompts):
            for cut in cold[
                number * len(cold) // len(self._prompts) : (number + 1) * len(cold) // len(self._prompts)
            ]:
                self.cold.append(self._call(cut, read=False))
            cost = self._call(prompt, read=True)
            common = max((_common(prompt, earlier) for earlier in self._prompts[:number]), default=0)
            findable = min(common, len(prompt) - 1) // page_size * page_size
            expect(f"cached tokens of call {number}", cost.cached_tokens, findable)
            (self.warm if findable else self.first).append(cost)
        check(self._engine.cache)

    def _call(self, prompt: Sequence[int], *, read: bool) -> CallCost:
        self._engine.add_request(prompt, _ONE_TOKEN, read=read, write=read)
        meter, done = Meter(), list[Completion]()
        while not done:
            done += (chunk.completion for chunk in meter.time(self._engine.step) if chunk.completion)
        meter.lap()
        times = {clock: samples[0] for clock, samples in meter.samples().items()}
        expect("tokens, cached and computed", done[0].cached_tokens + done[0].computed_tokens, len(prompt))
        return CallCost(done[0].cached_tokens, done[0].computed_tokens, times)


def fitted(cold: Sequence[CallCost], clock: str) -> npt.NDArray[np.float64]:
    """a, b, c of a + b x tokens + c x pairs, fitted on cold calls. Unit: microseconds."""
    return fit_nonnegative(_counts(cold), np.array([call.times_us[clock] for call in cold]))


def measured_over_fitted(
    calls: Sequence[CallCost], coefficients: npt.NDArray[np.float64], clock: str
) -> tuple[float, list[float]]:
    """Measured over fitted time: of all calls together, and of each."""
    times, wanted = np.array([call.times_us[clock] for call in calls]), _counts(calls) @ coefficients
    return float(times.sum() / wanted.sum()), (times / wanted).tolist()


def _counts(calls: Sequence[CallCost]) -> npt.NDArray[np.float64]:
    return np.array([call.counts for call in calls], dtype=np.float64)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens with which both begin."""
    return next(
        (place for place, both in enumerate(zip(one, other, strict=False)) if both[0] != both[1]),
        min(len(one), len(other)),
    )
