"""Time to the first token in a long conversation with one user, with the cache and without."""

import statistics

from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import frozen_heap
from bench.options import Options

LIMIT = Limit(statistic="median", factor=1 / 5)


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with these, and no benchmark of the core should have it in its process
    import torch

    from bench.scenarios.conversation import Conversation
    from bench.scenarios.served_model import served_model

    model = served_model(options)
    num_turns, answer_tokens = options.pick(tiny=4, full=16), options.pick(tiny=4, full=16)
    repetitions = options.pick(tiny=1, full=5)
    conversation = Conversation(
        model,
        num_turns=num_turns,
        question_tokens=options.pick(tiny=30, full=115),
        answer_tokens=answer_tokens,
        seed=options.seed,
    )
    cached, uncached = list[float](), list[float]()
    by_repetition, prompts, hits = list[str](), list[int](), list[int]()
    for _ in range(repetitions):
        with frozen_heap():
            turns = conversation.turns(
                {"no cache": conversation.engine(cache=False), "cache": conversation.engine(cache=True)}
            )
        prompts = [turn["cache"].prompt_tokens for turn in turns]
        hits = [turn["cache"].cached_tokens for turn in turns]
        with_cache = [_ttft_us(turn["cache"].ttft_s) for turn in turns[1:]]
        without = [_ttft_us(turn["no cache"].ttft_s) for turn in turns[1:]]
        by_repetition.append(f"{statistics.median(without) / statistics.median(with_cache):.2f}")
        cached += with_cache
        uncached += without
    return Report(
        name="engine_conversation",
        question="how much sooner does an answer begin when the conversation so far is cached?",
        config={
            "model": model.name,
            "torch threads": torch.get_num_threads(),
            "prompt tokens": prompts,
            "cached tokens": hits,
            "answer tokens": answer_tokens,
            "repetitions": repetitions,
        },
        figures=(
            Figure(
                name=f"TTFT, turns 2 to {num_turns}, with the cache",
                unit="us",
                samples={"wall": cached},
                bound=Bound(name="no cache", samples={"wall": uncached}),
                limits=(LIMIT,),
            ),
        ),
        notes=(
            (
                "1 / 5 of the median is a p50 five times lower. Without the cache over with it, p50 by "
                f"repetition: {', '.join(by_repetition)}."
            ),
            (
                f"Closed loop, one user: {num_turns} turns, the last prompt has {prompts[-1]:,} tokens. "
                "Measured by the engine, from the arrival of the request to the commit of its first token."
            ),
            (
                "Answers are decoded on both sides, greedy, and are the same; the prompts contain them. Each "
                "turn runs without the cache, then with it."
            ),
        ),
    )


def _ttft_us(ttft_s: float | None) -> float:
    assert ttft_s is not None
    return ttft_s * 1e6
