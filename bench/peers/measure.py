"""The workloads of a comparison, on any contender."""

from collections.abc import Callable
from functools import partial
from time import monotonic

from bench.errors import expect
from bench.harness.report import Figure
from bench.harness.timing import CPU, WALL, Stopwatch, alternate, frozen_heap
from bench.options import Options
from bench.peers.contender import Contender
from bench.workloads.material import DeepPath, Leaves, random_ids
from bench.workloads.trace import FreshOutputs, Trace

Build = Callable[[int, int], Contender]
"""Makes a contender of (pages, tokens of a page)."""

PATIENCE_S = 8.0  # a series of single calls ends after this, with what it has


def measure(build: Build, options: Options, trace: Trace, capacities: tuple[int, ...]) -> list[Figure]:
    """Every figure of one contender.

    Raises:
        WrongResult: It found other tokens than are cached.
    """
    return [
        *_peek(build, options),
        _hold(build, options),
        *_churn(build, options),
        *(figure for capacity in capacities for figure in _replay(build, options, trace, capacity)),
    ]


def _peek(build: Build, options: Options) -> list[Figure]:
    figures = []
    for num_tokens in (1024,) if options.size == "tiny" else (8192, 32768, 131072):
        contender = build(num_tokens // options.page_size + 1, options.page_size)
        tokens = contender.make_tokens(random_ids(options.seed, num_tokens + 1))
        contender.serve(tokens, None)
        expect("tokens found", contender.peek(tokens), num_tokens)
        num_samples = options.pick(tiny=3, full=50)
        samples = alternate(
            {"peek": partial(contender.peek, tokens)}, num_samples=num_samples, calls_per_sample=1
        )
        figures.append(Figure(name=f"peek, {num_tokens:,} tokens", unit="us", samples=samples["peek"]))
    return figures


def _hold(build: Build, options: Options) -> Figure:
    num_nodes = options.pick(tiny=8, full=512)
    source = DeepPath(num_nodes=num_nodes, page_size=options.page_size, seed=options.seed)
    contender = build(2 * num_nodes + 2, options.page_size)
    prompt = contender.make_tokens(source.prompt)
    contender.serve(prompt, None)
    for branch in source.branches():
        contender.serve(contender.make_tokens(branch), None)
    expect("tokens found", contender.hold(prompt), num_nodes * options.page_size)
    samples = alternate(
        {"hold": partial(contender.hold, prompt)},
        num_samples=options.pick(tiny=3, full=50),
        calls_per_sample=1,
    )
    expect("tokens found", contender.peek(prompt), num_nodes * options.page_size)
    name = f"look up, lock, page table, unlock, {num_nodes} nodes"
    return Figure(name=name, unit="us", samples=samples["hold"])


def _churn(build: Build, options: Options) -> list[Figure]:
    figures = []
    leaves = Leaves(page_size=options.page_size)
    for count in (20,) if options.size == "tiny" else (1_000, 10_000, 100_000):
        contender = build(count + 2, options.page_size)
        for number in range(count):
            contender.serve(contender.make_tokens(leaves.prompt(number)), None)
        for number in range(count):
            found = contender.serve(contender.make_tokens(leaves.touching_prompt(number)), None)
            expect(f"tokens found of leaf {number}", found, 2 * options.page_size)
        contender.serve(contender.make_tokens(leaves.prompt(count)), None)  # takes the last empty page
        fresh = count + 1
        for state in ("all just touched", "steady"):
            watch = Stopwatch()
            with frozen_heap():
                fresh = _insert(contender, leaves, fresh, options.pick(tiny=3, full=1_000), watch)
            name = f"evict a page and insert a leaf, {state}, {count:,} leaves"
            figures.append(Figure(name=name, unit="us", samples=watch.samples()))
    return figures


def _insert(contender: Contender, leaves: Leaves, fresh: int, times: int, watch: Stopwatch) -> int:
    end = monotonic() + PATIENCE_S
    for number in range(fresh, fresh + times):
        tokens = contender.make_tokens(leaves.prompt(number))
        watch.time(partial(contender.serve, tokens, None))
        if monotonic() > end:
            return number + 1
    return fresh + times


def _replay(build: Build, options: Options, trace: Trace, capacity: int) -> list[Figure]:
    contender = build(capacity // options.page_size, options.page_size)
    outputs, watch, matched_tokens = FreshOutputs(), Stopwatch(), 0
    found: list[int] = []
    with frozen_heap():
        for request in range(len(trace)):
            prompt = contender.make_tokens(trace.prompt(request))
            output = contender.make_tokens(outputs.take(int(trace.output_lens[request])))
            watch.time(lambda prompt=prompt, output=output: found.append(contender.serve(prompt, output)))  # type: ignore[misc]
            matched_tokens += found.pop()
    cpu, wall = watch.mean()
    name = f"a request of the trace, {capacity:,} tokens of capacity"
    return [
        Figure(name=name, unit="us", samples={CPU: [cpu], WALL: [wall]}),
        Figure(
            name=f"hit rate, {capacity:,} tokens of capacity",
            unit="share of prompt tokens",
            samples={"value": [matched_tokens / int(trace.prompt_lens.sum())]},
        ),
    ]
