"""How fast the engine is without a cache, beside transformers: whether "no cache" is an honest baseline."""

from typing import NamedTuple

from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import Stopwatch, frozen_heap
from bench.options import Options

LIMIT = Limit(statistic="median", factor=1 / 0.95)


class Case(NamedTuple):
    """A batch."""

    num_prompts: int
    prompt_len: int

    def __str__(self) -> str:
        return f"batch {self.num_prompts}, prompts of {self.prompt_len} tokens"


TINY = (Case(1, 48), Case(2, 24))
FULL = (Case(1, 512), Case(8, 256))


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with these, and no benchmark of the core should have it in its process
    import torch

    from bench.scenarios.batch_generation import (
        BatchGeneration,
        EngineGeneration,
        TransformersGeneration,
        transformers_twin,
    )
    from bench.scenarios.served_model import served_model

    model = served_model(options)
    twin = transformers_twin(model.decoder)
    cases = TINY if options.size == "tiny" else FULL
    num_tokens, repetitions = options.pick(tiny=4, full=33), options.pick(tiny=2, full=7)
    figures, compared = [], 0
    for case in cases:
        prompts = [model.prompt(options.seed + number, case.prompt_len) for number in range(case.num_prompts)]
        watches = {side: (Stopwatch(), Stopwatch()) for side in ("engine", "transformers")}
        with frozen_heap():
            for repetition in range(repetitions + 1):
                sides: dict[str, BatchGeneration] = {
                    "engine": EngineGeneration(model, prompts, num_tokens),
                    "transformers": TransformersGeneration(twin, prompts),
                }
                for side, generation in sides.items():
                    # the first repetition warms up
                    prefill, decode = watches[side] if repetition else (Stopwatch(), Stopwatch())
                    prefill.time(generation.prefill)
                    decode.time(lambda: generation.decode(num_tokens - 1))  # noqa: B023  # used at once
                compared += sum(
                    model.require_same(f"{case}", *each)
                    for each in zip(
                        prompts, sides["engine"].outputs, sides["transformers"].outputs, strict=True
                    )
                )
        counts = (case.num_prompts * case.prompt_len, case.num_prompts * (num_tokens - 1))
        figures += [
            Figure(
                name=f"{part} a token, {case}",
                unit="us",
                samples=watches["engine"][number].samples(counts[number]),
                bound=Bound(
                    name="transformers", samples=watches["transformers"][number].samples(counts[number])
                ),
                limits=(LIMIT,),
            )
            for number, part in enumerate(("prefill", "decode"))
        ]
    return Report(
        name="engine_throughput",
        question="is the engine without a cache as fast as transformers?",
        config={
            "model": model.name,
            "torch threads": torch.get_num_threads(),
            "output tokens": num_tokens,
            "repetitions": repetitions,
        },
        figures=tuple(figures),
        notes=(
            "1 / 0.95 of the time a token is 0.95 of the throughput. "
            + " ".join(f"{figure.name}: {_throughputs(figure)}." for figure in figures),
            (
                "Same process, weights, threads and prompts, in turn; greedy; all prompts in one step. "
                "transformers with its default kernels, logits of the last tokens only, and its own KV cache."
            ),
            (
                f"{compared} output tokens were compared and are the same, in every repetition; behind two "
                "tokens whose logits tie, texts differ and are compared no further."
            ),
            "The CPU clock is that of the thread that waits for torch's other threads.",
        ),
    )


def _throughputs(figure: Figure) -> str:
    """Medians by the wall clock, as tokens a second."""
    assert figure.bound is not None
    theirs = Figure(name="", unit="us", samples=figure.bound.samples)
    ours_us, theirs_us = figure.statistic("median", "wall"), theirs.statistic("median", "wall")
    return f"{1e6 / ours_us:,.1f} tokens/s, transformers {1e6 / theirs_us:,.1f}"
