"""An engine whose steps are timed in parts: what computes, and all that surrounds it."""

from collections.abc import Sequence

from torch import Tensor

from bench.harness.meter import Meter
from bench.harness.timing import Samples
from bench.scenarios.served_model import ServedModel, wrapped_engine
from runtime.engine import Chunk, EngineConfig, Sampler, SamplingError, SamplingParams
from runtime.executor import Executor, StepOutput
from runtime.models import Decoder
from runtime.models.ports import Attention, CacheT
from scheduler import StepPlan


class MeteredDecoder(Decoder):
    """A decoder whose passes are timed, attention and KV writes included."""

    meter: Meter

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        pool: CacheT,
        attention: Attention[CacheT],
        logit_rows: Tensor,
    ) -> Tensor:
        """See `Decoder`."""
        return self.meter.time(super().forward, token_ids, positions, slots, pool, attention, logit_rows)


class MeteredSampler(Sampler):
    """A sampler that is timed."""

    meter: Meter

    def sample(
        self, request_ids: Sequence[str], places: Sequence[int], logits: Tensor
    ) -> list[int | SamplingError]:
        """See `Sampler`."""
        return self.meter.time(super().sample, request_ids, places, logits)


class MeteredExecutor:
    """An executor that is timed.

    Args:
        executor: Runs the plans.
        meter: Takes the times.
    """

    def __init__(self, executor: Executor, meter: Meter) -> None:
        self._executor = executor
        self._meter = meter

    def execute(self, plan: StepPlan) -> StepOutput:
        """See `Executor`."""
        return self._meter.time(self._executor.execute, plan)


class MeteredEngine:
    """An engine with the cache, and the times of its steps.

    Args:
        model: Which model.
        config: Settings.

    Attributes:
        engine: The engine; its own `step` is timed by `step` here only.
    """

    def __init__(self, model: ServedModel, config: EngineConfig) -> None:
        self._step, self._execute, self._compute = Meter(), Meter(), Meter()
        self.num_steps = 0
        decoder = MeteredDecoder(model.decoder.config, model.decoder.weights)
        sampler = MeteredSampler(config.seed)
        decoder.meter = sampler.meter = self._compute
        self.engine = wrapped_engine(
            decoder, config, sampler, lambda executor: MeteredExecutor(executor, self._execute)
        )

    def add(self, prompts: Sequence[Sequence[int]], num_tokens: int) -> None:
        """Let requests wait, each for so many tokens."""
        params = SamplingParams(max_new_tokens=num_tokens, ignore_eos=True)
        for prompt in prompts:
            self.engine.add_request(prompt, params)

    def step(self) -> list[Chunk]:
        """One step, timed; returns what it brought."""
        brought = self._step.time(self.engine.step)
        for meter in (self._step, self._execute, self._compute):
            meter.lap()
        self.num_steps += 1
        return brought

    def forget(self) -> None:
        """Drop what was timed so far."""
        for meter in (self._step, self._execute, self._compute):
            meter.clear()
        self.num_steps = 0

    def steps(self) -> Samples:
        """Microseconds of each step."""
        return self._step.samples()

    def around(self) -> Samples:
        """Microseconds of each step outside of the decoder and the sampler."""
        return _minus(self._step, self._compute)

    def outside(self) -> Samples:
        """Microseconds of each step outside of the executor: scheduler, cache and engine."""
        return _minus(self._step, self._execute)

    def metadata(self) -> Samples:
        """Microseconds of each step inside of the executor, but not in the decoder or the sampler."""
        return _minus(self._execute, self._compute)


def _minus(whole: Meter, part: Meter) -> Samples:
    of_part = part.samples()
    return {
        clock: [max(one - other, 0.0) for one, other in zip(taken, of_part[clock], strict=True)]
        for clock, taken in whole.samples().items()
    }
