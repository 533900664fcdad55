"""Traffic at a rate through the real cache and scheduler on a simulated GPU."""

from dataclasses import dataclass, replace

from bench.errors import expect
from bench.scenarios.load_point import LoadPoint, Window, load_point, possible, require_served
from radixcache import check
from runtime.executor import CostModelExecutor
from runtime.lab.probe import Limits
from runtime.result import BASELINE_LABEL, CACHE_LABEL, RunResult
from runtime.simulation import OpenLoop, Setup, Simulation
from runtime.simulation.experiment import CACHES
from runtime.workload import Poisson, Session, Workload
from runtime.workload.generators.chat import Chat
from scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Contender:
    """A cache and an order of the queue.

    Attributes:
        name: What it is called.
        label: Its cache, a name in `CACHES`.
        policy: Its order, a name in `scheduler.QUEUE_POLICIES`.
    """

    name: str
    label: str
    policy: str = "fcfs"

    @property
    def caches(self) -> bool:
        """Whether it has a cache."""
        return self.label == CACHE_LABEL


NO_CACHE = Contender("no cache", BASELINE_LABEL)
FCFS, K_LPM, LPM = (Contender(f"cache, {policy}", CACHE_LABEL, policy) for policy in ("fcfs", "k-lpm", "lpm"))


def nominal_arrivals(session: Session) -> list[float]:
    """When each turn arrives if answers take no time. Unit: seconds."""
    times: list[float] = []
    for turn in session.turns:
        ready = max((times[earlier] for earlier in turn.after), default=session.start_s)
        times.append(ready + turn.think_s)
    return times


def chat_at(rate_per_s: float, span_s: float, seed: int) -> Workload:
    """Conversations that start at a rate; what would nominally arrive behind the span is cut off.

    Args:
        rate_per_s: Conversations that start a second.
        span_s: For so long. Unit: simulated seconds.
        seed: For everything.
    """
    drawn = Chat(
        num_sessions=round(1.5 * rate_per_s * span_s) + 20, arrivals=Poisson(rate_per_s=rate_per_s)
    ).generate(seed)
    expect("conversations reach behind the span", drawn.sessions[-1].start_s >= span_s, wanted=True)
    kept = []
    for session in drawn.sessions:
        num_turns = sum(time_s < span_s for time_s in nominal_arrivals(session))
        if num_turns:
            kept.append(replace(session, turns=session.turns[:num_turns]))
    return replace(drawn, sessions=tuple(kept))


def offered_per_s(workload: Workload, pace: OpenLoop, window: Window) -> float:
    """Requests that arrive a second of the window if answers take no time."""
    scaled = (replace(session, start_s=session.start_s / pace.rate_scale) for session in workload.sessions)
    count = sum(window.holds(time_s) for session in scaled for time_s in nominal_arrivals(session))
    return count / window.length_s


def simulated(workload: Workload, contender: Contender, setup: Setup) -> RunResult:
    """Serve a workload to its end.

    Raises:
        WrongResult: A request was not finished, or its tokens do not add up.
        InvariantViolation: The cache is not what it should be when all is done.
    """
    cache, executor = CACHES[contender.label](setup.cache_config()), CostModelExecutor(setup.cost)
    config = replace(setup.scheduler, policy=contender.policy)
    scheduler = Scheduler(cache, config, output_source=executor.tokens)
    run = Simulation(workload, setup.pace, cache=cache, scheduler=scheduler, executor=executor).run()
    check(cache)
    require_served(contender.name, run, workload.num_turns)
    return run


def judged(
    run: RunResult, workload: Workload, contender: Contender, setup: Setup, window: Window, limits: Limits
) -> LoadPoint:
    """What the requests of a window saw, and what a cache could have found for them."""
    bounds = possible(run, workload, window, setup.cache_config()) if contender.caches else None
    return load_point(run, window, limits, bounds)
