"""Looking up a cached prompt, and holding it, beside comparing the same bytes; at any length, in any tree."""

from bench.harness.promises import flat, median_point, scaled
from bench.harness.report import Bound, Figure, Limit, Picture, Points, Report
from bench.harness.timing import Samples, alternate
from bench.options import Options
from bench.scenarios.cached_prompt import CachedPrompt
from bench.scenarios.crowded_tree import CrowdedTree

LIMIT = Limit(statistic="median", factor=3.0, plus=3.0)
LIMITED = (8192, 32768, 131072)
TREE_TOKENS = 8192
PEEK, COMPARE = "peek", "== of the bytes"
CLOSE, ABORT = "open + page_table + close", "open + page_table + abort"
SAME, ELSEWHERE, OPEN = "peek the prompt", "peek another leaf each time", "open + close the prompt"
FLAT = Limit(statistic="median", factor=1.5, source="ours, for 'flat'")


def run(options: Options) -> Report:
    """See the module."""
    tiny = options.size == "tiny"
    lengths = (256, 1024) if tiny else (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
    counts = (20, 50) if tiny else (1_000, 10_000, 100_000)
    num_samples, calls = options.pick(tiny=5, full=200), options.pick(tiny=2, full=50)
    by_length = {length: _at_length(options, length, num_samples, calls) for length in lengths}
    num_tokens = options.pick(tiny=256, full=TREE_TOKENS)
    by_count = _in_trees(options, counts, num_tokens, num_samples, calls)
    figures = [
        Figure(
            name=f"{name}, {length:,} tokens",
            unit="us",
            samples=samples[name],
            bound=Bound(name=COMPARE, samples=samples[COMPARE]),
            limits=(LIMIT,) if name == PEEK and length in LIMITED else (),
        )
        for name in (PEEK, CLOSE, ABORT)
        for length, samples in by_length.items()
    ]
    smallest = by_count[counts[0]]
    figures += [
        Figure(
            name=f"{name}, {count:,} leaves",
            unit="us",
            samples=samples[name],
            bound=None if count == counts[0] else Bound(name=f"{counts[0]:,} leaves", samples=smallest[name]),
            limits=() if count == counts[0] or name == ELSEWHERE else (FLAT,),
        )
        for name in (SAME, ELSEWHERE, OPEN)
        for count, samples in by_count.items()
    ]
    return Report(
        name="peek",
        question="what does it take to find a cached prompt and to hold it, beside reading it once?",
        config={
            "tokens": list(lengths),
            "leaves": list(counts),
            "samples": num_samples,
            "calls_per_sample": calls,
        },
        figures=tuple(figures),
        notes=(
            "The prompt is a ready `Tokens`; making it is timed in making_tokens.",
            (
                "By length: the prompt lies on one edge; a path of many nodes is timed in deep_path. A "
                "sample is the mean of its calls, so max is the slowest sample and no single call."
            ),
            (
                f"By leaves: they and a prompt of {num_tokens:,} tokens hang behind one shared page. The "
                "other leaves that are looked up are some 1,000 in random order, so most of what a lookup "
                "touches is not in the processor's nearest cache."
            ),
        ),
        pictures=(_length_picture(by_length), _tree_picture(by_count)),
    )


def _at_length(options: Options, length: int, num_samples: int, calls: int) -> dict[str, Samples]:
    scenario = CachedPrompt(length, options.page_size, options.seed)
    scenario.verify()
    samples = alternate(
        {
            PEEK: scenario.peek,
            CLOSE: scenario.open_and_close,
            ABORT: scenario.open_and_abort,
            COMPARE: scenario.compare,
        },
        num_samples=num_samples,
        calls_per_sample=calls,
    )
    scenario.verify()
    return samples


def _in_trees(
    options: Options, counts: tuple[int, ...], num_tokens: int, num_samples: int, calls: int
) -> dict[int, dict[str, Samples]]:
    """Samples by leaves and name, all trees in turn."""
    trees = {count: CrowdedTree(count, num_tokens, options.page_size, options.seed) for count in counts}
    for tree in trees.values():
        tree.verify()
    samples = alternate(
        {
            f"{count} {name}": call
            for count, tree in trees.items()
            for name, call in (
                (SAME, tree.peek),
                (ELSEWHERE, tree.peek_elsewhere),
                (OPEN, tree.open_and_close),
            )
        },
        num_samples=num_samples,
        calls_per_sample=calls,
    )
    for tree in trees.values():
        tree.verify()
    return {count: {name: samples[f"{count} {name}"] for name in (SAME, ELSEWHERE, OPEN)} for count in counts}


def _lines(taken: dict[int, dict[str, Samples]]) -> dict[str, Points]:
    names = next(iter(taken.values()))
    return {name: [median_point(size, samples[name]) for size, samples in taken.items()] for name in names}


def _length_picture(by_length: dict[int, dict[str, Samples]]) -> Picture:
    lines = _lines(by_length)
    return Picture(
        name="peek_tokens",
        title="Finding and holding a cached prompt on one edge",
        x="tokens of the prompt",
        y="median CPU time [us]",
        lines=lines,
        promises={"peek, promised: 3 x == + 3 us": scaled(lines[COMPARE], LIMIT.factor, LIMIT.plus)},
    )


def _tree_picture(by_count: dict[int, dict[str, Samples]]) -> Picture:
    lines = _lines(by_count)
    return Picture(
        name="peek_leaves",
        title="Finding a prompt among ever more",
        x="leaves of the tree",
        y="median CPU time [us]",
        lines=lines,
        promises={f"promised: flat ({name})": flat(points) for name, points in lines.items()},
    )
