"""The rows of a comparison that one cache takes part in, on any contender."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic

from bench.errors import WrongResult, expect
from bench.harness.report import Figure, Setting
from bench.harness.timing import CPU, WALL, Stopwatch, alternate, frozen_heap
from bench.options import Options
from bench.peers.contender import Build, Contender
from bench.peers.oracle import Expected
from bench.workloads.material import DeepPath, Leaves, random_ids
from bench.workloads.trace import FreshOutputs, Trace

PATIENCE_S = 3.0
"""A series of single calls ends after this, with what it has, but not before `FEWEST` calls."""
FEWEST = 5


def settings(options: Options) -> dict[str, Setting]:
    """Every setting of these rows that a rerun needs."""
    return {
        "long_hit_tokens": list(_lengths(options)),
        "deep_path_nodes": _num_nodes(options),
        "leaves": list(_leaf_counts(options)),
        "samples": _num_samples(options),
        "evictions": _num_evictions(options),
        "patience_s": PATIENCE_S,
    }


def peek(build: Build, options: Options) -> Iterator[Figure]:
    """Finding a cached prompt of one edge, tokens ready made.

    Raises:
        WrongResult: Other tokens are found than are cached; so for every row.
    """
    for num_tokens in _lengths(options):
        contender = build(num_tokens // options.page_size + 1, options.page_size)
        tokens = contender.make_tokens(random_ids(options.seed, num_tokens + 1))
        expect("tokens found in an empty cache", contender.serve(tokens, None), 0)
        expect("tokens found", contender.peek(tokens), num_tokens)
        yield _timed(f"peek, {num_tokens:,} tokens", partial(contender.peek, tokens), options)


def hold(build: Build, options: Options) -> Iterator[Figure]:
    """A whole lookup on a path that something branches off behind each node."""
    num_nodes = _num_nodes(options)
    source = DeepPath(num_nodes=num_nodes, page_size=options.page_size, seed=options.seed)
    contender = build(2 * num_nodes + 2, options.page_size)
    prompt = contender.make_tokens(source.prompt)
    contender.serve(prompt, None)
    for branch in source.branches():
        contender.serve(contender.make_tokens(branch), None)
    expect("tokens found", contender.hold(prompt), num_nodes * options.page_size)
    name = f"look up, lock, page table, unlock, {num_nodes} nodes"
    yield _timed(name, partial(contender.hold, prompt), options)
    expect("tokens found afterwards", contender.peek(prompt), num_nodes * options.page_size)


def churn(build: Build, options: Options) -> Iterator[Figure]:
    """One page out and one leaf in, just after all leaves were touched, and afterwards."""
    leaves = Leaves(page_size=options.page_size)
    for count in _leaf_counts(options):
        contender = build(count + 2, options.page_size)
        fresh = _fill(contender, leaves, count)
        for state in ("all just touched", "steady"):
            watch = Stopwatch()
            with frozen_heap():
                fresh = _insert(contender, leaves, fresh, _num_evictions(options), watch)
            name = f"evict a page and insert a leaf, {state}, {count:,} leaves"
            yield Figure(name=name, unit="us", samples=watch.samples())
        newest = contender.make_tokens(leaves.touching_prompt(fresh - 1))
        oldest = contender.make_tokens(leaves.touching_prompt(0))
        expect("tokens found of the newest leaf", contender.peek(newest), 2 * options.page_size)
        expect("tokens found of the first victim", contender.peek(oldest), options.page_size)


def _fill(contender: Contender, leaves: Leaves, count: int) -> int:
    """Insert so many leaves, touch all, insert more until the first goes; returns the number of the next."""
    gc.disable()  # nothing is timed here, and passes over a growing heap would take most of the time
    try:
        for number in range(count):
            contender.serve(contender.make_tokens(leaves.prompt(number)), None)
        for number in range(count):
            found = contender.serve(contender.make_tokens(leaves.touching_prompt(number)), None)
            expect(f"tokens found of leaf {number}", found, 2 * leaves.page_size)
        held, fresh = 0, count
        while held < (held := contender.cached_tokens()):
            contender.serve(contender.make_tokens(leaves.prompt(fresh)), None)
            fresh += 1
        return fresh
    finally:
        gc.enable()


def _insert(contender: Contender, leaves: Leaves, fresh: int, times: int, watch: Stopwatch) -> int:
    end = monotonic() + PATIENCE_S
    for number in range(fresh, fresh + times):
        tokens = contender.make_tokens(leaves.prompt(number))
        watch.time(partial(contender.serve, tokens, None))
        if monotonic() > end and number - fresh + 1 >= FEWEST:
            return number + 1
    return fresh + times


def replay(
    build: Build,
    options: Options,
    trace: Trace,
    expected: Expected,
    capacities: tuple[int, ...],
    *,
    exact: bool,
) -> Iterator[Figure]:
    """The whole trace, request by request, on a fresh cache of each capacity.

    Args:
        build: Makes the contender.
        options: As given to the run.
        trace: What is served.
        expected: What should be found.
        capacities: Tokens of capacity.
        exact: Whether the contender evicts as the oracle does; otherwise only an infinite cache bounds it.
    """
    page_size = options.page_size
    start = trace.first(expected.start_requests)
    roomy = build(expected.start_pages, page_size)
    found, _ = _serve_all(roomy, start, Stopwatch())
    expect("tokens found while nothing is evicted", found, expected.start_matched)
    del roomy
    for capacity in capacities:
        contender = build(capacity // page_size, page_size)
        found, watch = _serve_all(contender, trace, Stopwatch())
        if exact:
            expect("tokens found over the trace", found, expected.matched[capacity])
        elif found > expected.infinite_matched:
            raise WrongResult(f"{found} tokens found, more than an infinite cache finds")
        cpu, wall = watch.mean()
        name = f"a request of the trace, {capacity:,} tokens of capacity"
        yield Figure(name=name, unit="us", samples={CPU: [cpu], WALL: [wall]})
        yield Figure(
            name=f"hit rate, {capacity:,} tokens of capacity",
            unit="share of prompt tokens",
            samples={"value": [found / int(trace.prompt_lens.sum())]},
        )


def _serve_all(contender: Contender, trace: Trace, watch: Stopwatch) -> tuple[int, Stopwatch]:
    outputs, matched_tokens = FreshOutputs(), 0
    found: list[int] = []
    with frozen_heap():
        for request in range(len(trace)):
            prompt = contender.make_tokens(trace.prompt(request))
            output = contender.make_tokens(outputs.take(int(trace.output_lens[request])))
            watch.time(lambda prompt=prompt, output=output: found.append(contender.serve(prompt, output)))  # type: ignore[misc]
            matched_tokens += found.pop()
    return matched_tokens, watch


def convert(build: Build, options: Options) -> Iterator[Figure]:
    """Making tokens in a contender's own type, out of what a tokenizer returns and out of an array."""
    contender = build(1, options.page_size)
    for num_tokens in _lengths(options):
        ids = random_ids(options.seed, num_tokens)
        listed = ids.tolist()
        expect("tokens made", len(contender.make_tokens(listed)), len(contender.make_tokens(ids)))
        for source, given in (("a Python list", listed), ("NumPy int32", ids)):
            make = partial(contender.make_tokens, given)
            yield _timed(f"make tokens of {source}, {num_tokens:,} tokens", make, options)


def _timed(name: str, call: Callable[[], object], options: Options) -> Figure:
    samples = alternate({name: call}, num_samples=_num_samples(options), calls_per_sample=1)
    return Figure(name=name, unit="us", samples=samples[name])


def _lengths(options: Options) -> tuple[int, ...]:
    return (1024,) if options.size == "tiny" else (8192, 32768, 131072)


def _num_nodes(options: Options) -> int:
    return options.pick(tiny=8, full=512)


def _leaf_counts(options: Options) -> tuple[int, ...]:
    return (20,) if options.size == "tiny" else (1_000, 10_000, 100_000)


def _num_evictions(options: Options) -> int:
    return options.pick(tiny=3, full=1_000)


def _num_samples(options: Options) -> int:
    return options.pick(tiny=3, full=50)
