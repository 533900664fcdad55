"""Roofline time of one engine step, in integer picoseconds.

A step takes `launch overhead + max(compute, memory) + tensor-parallel all-reduce`. Every term is
an integer coefficient times an integer count, so sums of steps do not depend on their order, and a
long run of decode steps has a closed form that equals the loop to the picosecond.

Left out, and so too fast in the model: reading and writing activations, re-reading KV for each tile
of queries in prefill, sampling, and kernels that reach less of the peak on small shapes.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from radixcache.errors import InvalidArgument, InvalidConfig
from runtime.clock import PS_PER_S
from runtime.cost.gpus import Gpu
from runtime.cost.load import StepLoad
from runtime.cost.placement import Placement
from runtime.cost.shape import EMBEDDING_BYTES, ModelShape

ASSUMPTIONS: Final = {
    "flops_fraction": "0.38-0.43 of the bf16 peak in training on 16,384 H100 (Grattafiori et al., "
    "'The Llama 3 Herd of Models', 2024), 0.76 for large prefill batches (Pope et al., "
    "'Efficiently Scaling Transformer Inference', 2022)",
    "bandwidth_fraction": "0.55-0.60 with tensor parallelism (Databricks, 'LLM Inference "
    "Performance Engineering', 2023), 0.69 on one A100 (gpt-fast, Llama-2-7B in bf16: 1,397 of "
    "2,039 GB/s)",
    "launch_overhead_s": "assumed: CPU work and kernel launches of a step with CUDA graphs",
    "all_reduce_latency_s": "assumed: small-message all-reduce among the GPUs of one host",
}
"""Where the defaults of the achieved fractions and fixed times come from."""


class Coefficients(NamedTuple):
    """Picoseconds for one unit of each count, to the nearest; what takes any time takes >= 1."""

    step_overhead: int
    compute_token: int
    compute_row: int
    compute_pair: int
    memory_weights: int
    memory_kv_read_token: int
    memory_kv_write_token: int
    all_reduce_step: int
    all_reduce_token: int


@dataclass(frozen=True, slots=True)
class CostModel:
    """Time and memory of a model on `tp` GPUs of one kind.

    Dense products run at the peak of `weight_dtype`, attention and output head at the bf16 peak.
    With `tp` > 1 weights, query heads and FLOPs are split evenly; KV heads are split while there
    are enough of them, and replicated when `tp` exceeds their number. Two ring all-reduces a layer
    move 16-bit activations.

    Attributes:
        model: Shape of the model.
        gpu: Data sheet of the GPU.
        tp: Tensor-parallel degree.
        weight_dtype: Format of the weights of the blocks.
        kv_dtype: Format of the KV; storage only.
        flops_fraction: Achieved share of peak FLOP/s, in (0, 1]; defaults: see `ASSUMPTIONS`.
        bandwidth_fraction: Achieved share of memory and link bandwidth, in (0, 1].
        launch_overhead_s: Fixed time of a step, seconds.
        all_reduce_latency_s: Fixed time of one all-reduce, seconds; nothing at `tp` 1.

    Raises:
        UnknownName: No such dtype, or the GPU does not compute in `weight_dtype`.
        InvalidConfig: A fraction or a time out of range; heads that `tp` does not divide.
    """

    model: ModelShape
    gpu: Gpu
    tp: int = 1
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    flops_fraction: float = 0.55
    bandwidth_fraction: float = 0.7
    launch_overhead_s: float = 0.0005
    all_reduce_latency_s: float = 0.000008
    placement: Placement = field(init=False, repr=False, compare=False)
    coefficients: Coefficients = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        placement = Placement(
            model=self.model,
            gpu=self.gpu,
            tp=self.tp,
            weight_dtype=self.weight_dtype,
            kv_dtype=self.kv_dtype,
        )
        object.__setattr__(self, "placement", placement)
        for name in ("flops_fraction", "bandwidth_fraction"):
            if not 0 < getattr(self, name) <= 1:
                raise InvalidConfig(f"{name} {getattr(self, name)} lies outside (0, 1]")
        for name in ("launch_overhead_s", "all_reduce_latency_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidConfig(f"{name} {value} must be a finite number >= 0")
        object.__setattr__(self, "coefficients", self._coefficients())

    def _coefficients(self) -> Coefficients:
        model, tp = self.model, self.tp
        dense_rate = self.gpu.peak(self.weight_dtype) * Fraction(self.flops_fraction) * tp
        bf16_rate = self.gpu.peak("bf16") * Fraction(self.flops_fraction) * tp
        memory_rate = self.gpu.bandwidth * Fraction(self.bandwidth_fraction)
        link_rate = self.gpu.link_bandwidth * Fraction(self.bandwidth_fraction)
        kv_bytes = self.placement.kv_bytes_per_token
        all_reduces = 2 * model.layers if tp > 1 else 0
        moved_bytes = Fraction(2 * (tp - 1), tp) * model.hidden * EMBEDDING_BYTES
        return Coefficients(
            step_overhead=_picoseconds(Fraction(self.launch_overhead_s)),
            compute_token=_picoseconds(model.flops_per_token / dense_rate),
            compute_row=_picoseconds(model.flops_per_logit_row / bf16_rate),
            compute_pair=_picoseconds(model.flops_per_attention_pair / bf16_rate),
            memory_weights=_picoseconds(model.streamed_bytes(self.weight_dtype) / memory_rate / tp),
            memory_kv_read_token=_picoseconds(kv_bytes / memory_rate),
            memory_kv_write_token=_picoseconds(kv_bytes / memory_rate),
            all_reduce_step=_picoseconds(all_reduces * Fraction(self.all_reduce_latency_s)),
            all_reduce_token=_picoseconds(all_reduces * moved_bytes / link_rate),
        )

    def compute_ps(self, load: StepLoad) -> int:
        """Time of the arithmetic alone, picoseconds."""
        c = self.coefficients
        return (
            c.compute_token * load.num_tokens
            + c.compute_row * load.num_rows
            + c.compute_pair * load.attention_pairs
        )

    def memory_ps(self, load: StepLoad) -> int:
        """Time of the memory traffic alone, picoseconds: weights once, KV read, KV written."""
        c = self.coefficients
        return (
            c.memory_weights
            + c.memory_kv_read_token * load.kv_read_tokens
            + c.memory_kv_write_token * load.num_tokens
        )

    def step_ps(self, load: StepLoad) -> int:
        """Time of one step, picoseconds. A step that computes no token takes none. O(1)."""
        if load.num_tokens == 0:
            return 0
        return self._fixed_ps(load) + max(self.compute_ps(load), self.memory_ps(load))

    def _fixed_ps(self, load: StepLoad) -> int:
        c = self.coefficients
        return c.step_overhead + c.all_reduce_step + c.all_reduce_token * load.num_tokens

    def decode_run_ps(self, load: StepLoad, num_steps: int) -> int:
        """Time of `num_steps` decode steps in a row, each row's context growing by one a step.

        Exactly the sum of `step_ps` over them: compute and memory both grow linearly, so the larger
        of the two changes at most once, and either side of that is an arithmetic series.

        Args:
            load: The first step. Every row computes one token and needs logits.
            num_steps: Steps, >= 0.

        Raises:
            InvalidArgument: `num_steps` is negative, or `load` is no pure decode step.

        Complexity:
            O(1).
        """
        if num_steps < 0:
            raise InvalidArgument(f"num_steps {num_steps} must be >= 0")
        if load.num_tokens != load.num_rows:
            raise InvalidArgument(
                f"a pure decode step computes one token a row, not {load.num_tokens} for {load.num_rows} rows"
            )
        if load.num_tokens == 0:
            return 0
        compute, memory = self.compute_ps(load), self.memory_ps(load)
        compute_growth = self.coefficients.compute_pair * load.num_rows
        memory_growth = self.coefficients.memory_kv_read_token * load.num_rows
        ahead, gains = compute - memory, compute_growth - memory_growth
        if gains > 0:
            turn = min(max(-(ahead // gains), 0), num_steps)
            first, second = (memory, memory_growth), (compute, compute_growth)
        else:
            sooner = ahead // -gains + 1 if gains else num_steps * (ahead >= 0)
            turn = min(max(sooner, 0), num_steps)
            first, second = (compute, compute_growth), (memory, memory_growth)
        return num_steps * self._fixed_ps(load) + _series(*first, 0, turn) + _series(*second, turn, num_steps)

    def pool_tokens(
        self, *, memory_fraction: float = 0.9, page_size: int = 1, chunk_tokens: int = 8192
    ) -> int:
        """Tokens of KV that fit beside the weights. See `Placement.pool_tokens`."""
        return self.placement.pool_tokens(
            memory_fraction=memory_fraction, page_size=page_size, chunk_tokens=chunk_tokens
        )

    def describe(self) -> dict[str, object]:
        """Everything the times rest on, as JSON values, for reports."""
        return {
            "model": self.model.name,
            "model_source": self.model.source,
            "num_parameters": self.model.num_parameters,
            "gpu": self.gpu.name,
            "gpu_source": self.gpu.source,
            "tp": self.tp,
            "weight_dtype": self.weight_dtype,
            "kv_dtype": self.kv_dtype,
            "weight_bytes": self.model.weight_bytes(self.weight_dtype),
            "kv_bytes_per_token_per_gpu": self.placement.kv_bytes_per_token,
            "flops_fraction": self.flops_fraction,
            "bandwidth_fraction": self.bandwidth_fraction,
            "launch_overhead_s": self.launch_overhead_s,
            "all_reduce_latency_s": self.all_reduce_latency_s,
            "assumptions": dict(ASSUMPTIONS),
            "coefficients_ps": self.coefficients._asdict(),
        }


def _picoseconds(time_s: Fraction) -> int:
    """Seconds in picoseconds, to the nearest; what takes any time takes at least one."""
    return max(round(time_s * PS_PER_S), 1) if time_s else 0


def _series(start: int, growth: int, first: int, end: int) -> int:
    """Sum of `start + k * growth` for k in [first, end)."""
    return (end - first) * start + growth * (end * (end - 1) - first * (first - 1)) // 2
