"""Multi-turn chat on a simulated GPU, with the cache and without, from light load to overload."""

from statistics import median

from bench.benchmarks.load_figures import Load, censored_notes, figures, limits_note, pictures
from bench.errors import expect
from bench.harness.report import Report
from bench.options import Options
from bench.scenarios.load_point import LoadPoint, Window, require_no_hits, require_same_work
from bench.scenarios.simulated_load import (
    FCFS,
    K_LPM,
    LPM,
    NO_CACHE,
    Contender,
    chat_at,
    judged,
    offered_per_s,
    simulated,
)
from runtime.cost import CostModel, find_gpu, find_model
from runtime.lab.probe import Limits
from runtime.result import RunResult
from runtime.simulation import OpenLoop, Setup
from runtime.workload import Workload

MODEL, GPU = "Llama-3.1-8B", "H100-SXM"
CONTENDERS = (NO_CACHE, FCFS, K_LPM, LPM)
RATES = (1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0)
"""Conversations that start a second: the device is nearly idle at the first, and past its capacity with the
cache at the last."""
SPAN_S = 180.0
LIMITS = Limits(ttft_s=1.0, tpot_s=0.05)
UNIT = "conversations/s"
NOTES = (
    (
        "Simulated: cache and scheduler are the real ones, the GPU is a cost model, and no time is taken "
        "from a clock. The conversations are those of `radixcache simulate` by default, five requests each "
        "in the mean, every prompt containing the answers before it."
    ),
    (
        "Each sample is another seed, of all conversations and their times. The contenders of a seed get the "
        "same conversations."
    ),
    (
        "A question comes only when the one before is answered and read, so fewer requests arrive where "
        "answers take longer; the rate is that of conversations, which nothing delays."
    ),
    (
        "The figures are those of the requests that arrived in the second half of the time in which "
        "conversations started: in the first half their number still grows. All requests are served to the "
        "end. Past the capacity the queue grows all the while, and the TTFT tells how long the run was."
    ),
    (
        "Checked before: every request was finished, its prompt is what was matched and what was missed, all "
        "contenders had the same prompts and answers, nothing was matched without the cache, `check(cache)` "
        "found nothing at the end, and serving the first seed again at the lowest rate gave the same result."
    ),
    (
        "Hit rates stand beside the optimum (clairvoyant eviction, requests one after the other) and the "
        "ceiling (no limit of capacity), both in the contender's own order of admissions. Neither reckons "
        "with the pages that requests hold while they run, which are many at the highest rates."
    ),
)


def run(options: Options) -> Report:
    """See the module."""
    tiny = options.size == "tiny"
    rates, span_s = ((2.0, 8.0), 6.0) if tiny else (RATES, SPAN_S)
    seeds = range(options.seed, options.seed + options.pick(tiny=2, full=5))
    window = Window(span_s / 2, span_s)
    setup = Setup(cost=CostModel(model=find_model(MODEL), gpu=find_gpu(GPU)), page_size=options.page_size)
    runs: dict[str, dict[float, list[LoadPoint]]] = {each.name: {} for each in CONTENDERS}
    offered: list[tuple[float, float]] = []
    for rate in rates:
        workloads = [chat_at(rate, span_s, seed) for seed in seeds]
        offered.append((rate, median(offered_per_s(each, OpenLoop(), window) for each in workloads)))
        for number, workload in enumerate(workloads):
            what = f"{rate:g} {UNIT}, seed {seeds[number]}"
            served = serve_all(workload, CONTENDERS, setup, what)
            if rate == rates[0] and not number:
                again = serve_all(chat_at(rate, span_s, seeds[0]), CONTENDERS, setup, what)
                expect(f"{what}, served again, gives the same", again == served, wanted=True)
            for contender in CONTENDERS:
                point = judged(served[contender.name], workload, contender, setup, window, LIMITS)
                runs[contender.name].setdefault(rate, []).append(point)
    load = Load("serve_simulated", "simulated", UNIT, LIMITS, runs)
    pool = setup.cache_config()
    return Report(
        name="serve_simulated",
        question="how do TTFT, TPOT and goodput of a multi-turn chat change with load, simulated?",
        config={
            "workload": "chat",
            "rates": ", ".join(f"{rate:g} {UNIT}" for rate in rates),
            "span_s": span_s,
            "seeds": list(seeds),
            "model": MODEL,
            "gpu": GPU,
            "capacity_tokens": pool.num_pages * pool.page_size,
            "page_size": pool.page_size,
            "token_budget": setup.scheduler.token_budget,
            "max_running": setup.scheduler.max_running,
            "eviction": setup.eviction,
        },
        figures=figures(load),
        notes=(limits_note(LIMITS), *censored_notes(load), *NOTES),
        pictures=pictures(load, offered),
    )


def serve_all(
    workload: Workload, contenders: tuple[Contender, ...], setup: Setup, what: str
) -> dict[str, RunResult]:
    """The runs of all contenders on one workload, the first without a cache.

    Raises:
        WrongResult: They did not do the same work, or something was matched without a cache.
    """
    served = {each.name: simulated(workload, each, setup) for each in contenders}
    require_same_work(what, served)
    require_no_hits(what, served[contenders[0].name])
    return served
