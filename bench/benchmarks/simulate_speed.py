"""How long simulating a request takes, with every metric."""

from bench.benchmarks.traces import workload_of
from bench.errors import expect
from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import Samples, Stopwatch, frozen_heap
from bench.options import Options
from radixcache import PrefixCache
from runtime.cost import CostModel, find_gpu, find_model
from runtime.executor import CostModelExecutor
from runtime.lab.order import first_requests
from runtime.metrics import summarise
from runtime.result import RunResult, SimulationResult, to_json
from runtime.simulation import Experiment, OpenLoop, Setup, Simulation, run_experiment
from runtime.workload import Workload
from scheduler import Scheduler, SchedulerConfig

MODEL, GPU = "Llama-3.1-8B", "H100-SXM"
SERVABLE = 0.3
"""Rate scale at which this GPU keeps up with the Mooncake conversation trace, and nearly is at its limit."""
LPM, FCFS = Limit(statistic="median", plus=1000.0), Limit(statistic="median", plus=2000.0)
CASES = (("lpm", SERVABLE, LPM), ("fcfs", SERVABLE, FCFS), ("lpm", 1.0, LPM))
NUM_STEPPED = 200


def run(options: Options) -> Report:
    """See the module."""
    workload = workload_of(options)
    repetitions = options.pick(tiny=1, full=5)
    _verify(workload)
    figures, notes = [], []
    for policy, rate_scale, limit in CASES:
        simulated, reported = Stopwatch(), Stopwatch()
        documents = set()
        for _ in range(repetitions):
            results: list[SimulationResult] = []
            experiment = _experiment(workload, policy, rate_scale)
            with frozen_heap():
                simulated.time(lambda: results.append(run_experiment(experiment)))  # noqa: B023  # used at once
                reported.time(lambda: documents.add(_report(results[0])))  # noqa: B023
            _check(results[0], workload)
        expect("different documents", len(documents), 1)
        name = f"{policy}, rate x {rate_scale:g}"
        num_requests = workload.num_turns
        figures.append(
            Figure(
                name=f"a request, {name}",
                unit="us",
                samples=_sum(simulated.samples(num_requests), reported.samples(num_requests)),
                bound=Bound(name="metrics and document", samples=reported.samples(num_requests)),
                limits=(limit,),
            )
        )
        notes.append(_describe(name, results[0].runs[0]))
    return Report(
        name="simulate_speed",
        question="how long does simulating a request take, with all metrics?",
        config={
            "trace": workload.name,
            "requests": workload.num_turns,
            "model": MODEL,
            "gpu": GPU,
            "page_size": Setup(cost=_cost()).page_size,
            "repetitions": repetitions,
        },
        figures=tuple(figures),
        notes=(
            "1,000 us a request are 1,000 requests a second, 2,000 us are 500.",
            (
                "As `radixcache simulate --no-baseline`: the run, its optimum and ceiling, all metrics, and "
                "result.json; the pages of the pool are what the GPU has room for."
            ),
            (
                f"Before the timing, the first {NUM_STEPPED} requests were simulated step by step, too, and "
                "gave the same result; after it, all repetitions gave the same bytes, every request was "
                "finished, and its tokens added up."
            ),
            *notes,
        ),
    )


def _cost() -> CostModel:
    return CostModel(model=find_model(MODEL), gpu=find_gpu(GPU))


def _experiment(workload: Workload, policy: str, rate_scale: float) -> Experiment:
    setup = Setup(
        cost=_cost(), scheduler=SchedulerConfig(policy=policy), pace=OpenLoop(rate_scale), baseline=False
    )
    return Experiment(workload=workload, workload_config={}, setup=setup, seed=0)


def _report(result: SimulationResult) -> bytes:
    for each in result.runs:
        summarise(each)
    return to_json(result)


def _sum(one: Samples, other: Samples) -> Samples:
    return {clock: [a + b for a, b in zip(one[clock], other[clock], strict=True)] for clock in one}


def _verify(workload: Workload) -> None:
    """Raise `WrongResult` unless counting on decodes together gives what looking at each of them does."""
    setup = _experiment(workload, "lpm", SERVABLE).setup
    first = first_requests(workload, NUM_STEPPED)
    found = []
    for plain in (True, False):
        cache, executor = PrefixCache(setup.cache_config()), CostModelExecutor(setup.cost)
        output_source = None if plain else executor.tokens
        scheduler = Scheduler(cache, setup.scheduler, output_source=output_source)
        found.append(
            Simulation(
                first, setup.pace, cache=cache, scheduler=scheduler, executor=executor, coalesce=not plain
            ).run()
        )
    expect("the step calendar gives the same result", found[0] == found[1], wanted=True)


def _check(result: SimulationResult, workload: Workload) -> None:
    (found,) = result.runs
    expect(
        "finished requests", [each.status for each in found.requests].count("finished"), workload.num_turns
    )
    for each in found.requests:
        known = each.matched_tokens + each.copied_tokens + sum(each.miss.values())
        expect(f"tokens of {each.request_id}", known, each.prompt_tokens)


def _describe(name: str, run: RunResult) -> str:
    summary = summarise(run)
    assert summary.hit_rate is not None
    assert summary.of_optimum is not None
    return (
        f"{name}: offered load {summary.offered_load:.2f}, {summary.max_waiting:,} waited at most, "
        f"{run.counters['steps']:,} steps, hit rate {summary.hit_rate:.4f}, {summary.of_optimum:.3f} of the "
        f"optimum in the same order."
    )
