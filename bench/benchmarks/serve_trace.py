"""A recorded trace on a simulated GPU, with the cache and without, at several densities."""

from bench.benchmarks.load_figures import Load, censored_notes, figures, limits_note, pictures
from bench.benchmarks.serve_simulated import GPU, MODEL, serve_all
from bench.benchmarks.traces import workload_of
from bench.harness.report import Report
from bench.options import Options
from bench.scenarios.load_point import LoadPoint, Window
from bench.scenarios.simulated_load import FCFS, NO_CACHE, judged, offered_per_s
from runtime.cost import CostModel, find_gpu, find_model
from runtime.lab.probe import Limits
from runtime.simulation import OpenLoop, Setup

CONTENDERS = (NO_CACHE, FCFS)
RATES = (0.1, 0.2, 0.3, 0.4)
"""Times as densely as recorded. This GPU keeps up with 0.3 times the Mooncake conversation trace."""
LIMITS = Limits(ttft_s=10.0, tpot_s=0.1)
"""Ten times and twice those of the chat: prompts have 12,000 tokens in the mean, and up to 126,000."""
UNIT = "x recorded rate"
NOTES = (
    (
        "Simulated: cache and scheduler are the real ones, the GPU is a cost model. One recording, one order "
        "of the queue (fcfs), one sample a figure: there are no seeds, and no spread."
    ),
    (
        "Requests come as recorded, whatever becomes of those before them. The figures are those of the "
        "requests that arrived in the second half; all are served to the end. Generated tokens are made up, "
        "and no later prompt of a trace contains them."
    ),
    (
        "Checked before: every request was finished, both contenders had the same prompts and answers, and "
        "nothing was matched without the cache."
    ),
)


def run(options: Options) -> Report:
    """See the module."""
    workload = workload_of(options)
    rates = (0.5, 1.0) if options.size == "tiny" else RATES
    cost = CostModel(model=find_model(MODEL), gpu=find_gpu(GPU))
    runs: dict[str, dict[float, list[LoadPoint]]] = {each.name: {} for each in CONTENDERS}
    offered = []
    for rate in rates:
        setup = Setup(cost=cost, page_size=options.page_size, pace=OpenLoop(rate))
        last_s = workload.sessions[-1].start_s / rate
        window = Window(last_s / 2, last_s)
        offered.append((rate, offered_per_s(workload, OpenLoop(rate), window)))
        served = serve_all(workload, CONTENDERS, setup, f"{rate:g} {UNIT}")
        for contender in CONTENDERS:
            point = judged(served[contender.name], workload, contender, setup, window, LIMITS)
            runs[contender.name][rate] = [point]
    load = Load("serve_trace", "simulated", UNIT, LIMITS, runs)
    pool = setup.cache_config()
    return Report(
        name="serve_trace",
        question="how do TTFT, TPOT and goodput of a trace change with its density, simulated?",
        config={
            "trace": workload.name,
            "requests": workload.num_turns,
            "rates": ", ".join(f"{rate:g}" for rate in rates),
            "model": MODEL,
            "gpu": GPU,
            "capacity_tokens": pool.num_pages * pool.page_size,
            "page_size": pool.page_size,
        },
        figures=figures(load),
        notes=(limits_note(LIMITS), *censored_notes(load), *NOTES),
        pictures=pictures(load, offered),
    )
