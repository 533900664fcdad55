"""What bounded waiting costs in hits, and what it saves those who would wait longest."""

from typing import NamedTuple

from bench.benchmarks.traces import workload_of
from bench.errors import expect
from bench.harness.report import Bound, Figure, Limit, Report
from bench.options import Options
from runtime.cost import CostModel, find_gpu, find_model
from runtime.metrics import RunSummary, summarise
from runtime.simulation import Experiment, OpenLoop, Setup, run_experiment
from runtime.workload import Workload
from scheduler import SchedulerConfig

MODEL, GPU = "Llama-3.1-8B", "H100-SXM"
RATE_SCALES = (0.4, 1.0)
"""Of the Mooncake conversation trace: both are more than this GPU can serve in arrival order."""
ONE_POINT = 0.01
HALF, A_TENTH_MORE = Limit(statistic="median", factor=0.5), Limit(statistic="median", factor=1.1)


class Order(NamedTuple):
    """An order of the queue, and how often it may let a request be overtaken; `None`: the default."""

    policy: str
    max_overtakes: int | None = None

    def __str__(self) -> str:
        bound = "" if self.max_overtakes is None else f", bound {self.max_overtakes}"
        return f"{self.policy}{bound}"


ORDERS = tuple(Order(policy, bound) for policy in ("k-lpm", "hrrn") for bound in (None, 512, 128, 32))


def run(options: Options) -> Report:
    """See the module."""
    workload = workload_of(options)
    cost = CostModel(model=find_model(MODEL), gpu=find_gpu(GPU))
    figures: list[Figure] = []
    notes = []
    for rate_scale in (1000.0,) if options.size == "tiny" else RATE_SCALES:
        setup = Setup(cost=cost, pace=OpenLoop(rate_scale), baseline=False, bounds=False)
        fcfs = _serve(Order("fcfs"), setup, workload)
        lpm = _serve(Order("lpm"), setup, workload)
        figures += _figures(f"lpm, rate x {rate_scale:g}", lpm, fcfs, lpm)
        for order in ORDERS:
            found = _serve(order, setup, workload)
            name = f"{order}, rate x {rate_scale:g}"
            figures += _figures(name, found, fcfs, lpm, *_limits(order, rate_scale, lpm))
        notes.append(
            f"Rate x {rate_scale:g}: {fcfs.max_waiting:,} waited at most under fcfs (offered load "
            f"{fcfs.offered_load:.2f}), {lpm.max_waiting:,} under lpm ({lpm.offered_load:.2f})."
        )
    pool = Setup(cost=cost).cache_config()
    return Report(
        name="bounded_waiting",
        question="what does bounded waiting cost in hits, and what does it save in waiting?",
        config={
            "trace": workload.name,
            "requests": workload.num_turns,
            "model": MODEL,
            "gpu": GPU,
            "capacity_tokens": pool.num_pages * pool.page_size,
            "page_size": pool.page_size,
        },
        figures=tuple(figures),
        notes=(
            "Simulated: a repetition gives the same times, so each has one sample. TTFT includes the queue.",
            "Hit rates are held against lpm, which bounds nothing; times against fcfs, which keeps order.",
            "The default bound is 512, or as many as waited when the request came.",
            *notes,
        ),
    )


def _serve(order: Order, setup: Setup, workload: Workload) -> RunSummary:
    ordered = Setup(
        cost=setup.cost,
        scheduler=SchedulerConfig(policy=order.policy, max_overtakes=order.max_overtakes),
        pace=setup.pace,
        baseline=False,
        bounds=False,
    )
    result = run_experiment(Experiment(workload=workload, workload_config={}, setup=ordered, seed=0))
    summary = summarise(result.runs[0])
    expect(f"requests finished under {order}", summary.finished, workload.num_turns)
    return summary


def _limits(order: Order, rate_scale: float, lpm: RunSummary) -> tuple[tuple[Limit, ...], ...]:
    """For hit rate, mean TTFT and p99 TTFT; where the queue is ten times what fits, nobody waits briefly."""
    if order != Order("k-lpm") or lpm.hit_rate is None:
        return (), (), ()
    hits = (Limit(statistic="median", plus=1.0, low=lpm.hit_rate - ONE_POINT),)
    return hits, (HALF,) if rate_scale == RATE_SCALES[0] else (), (A_TENTH_MORE,)


def _figures(
    name: str,
    found: RunSummary,
    fcfs: RunSummary,
    lpm: RunSummary,
    hits: tuple[Limit, ...] = (),
    mean: tuple[Limit, ...] = (),
    p99: tuple[Limit, ...] = (),
) -> list[Figure]:
    assert found.ttft_s is not None
    assert fcfs.ttft_s is not None
    return [
        _figure(f"hit rate, {name}", "share", found.hit_rate, ("lpm", lpm.hit_rate), hits),
        _figure(f"mean TTFT, {name}", "s", found.ttft_s.mean, ("fcfs", fcfs.ttft_s.mean), mean),
        _figure(f"p99 TTFT, {name}", "s", found.ttft_s.p99, ("fcfs", fcfs.ttft_s.p99), p99),
    ]


def _figure(
    name: str, unit: str, value: float | None, against: tuple[str, float | None], limits: tuple[Limit, ...]
) -> Figure:
    bound = Bound(name=against[0], samples={"value": [against[1] or 0.0]})
    return Figure(name=name, unit=unit, samples={"value": [value or 0.0]}, bound=bound, limits=limits)
