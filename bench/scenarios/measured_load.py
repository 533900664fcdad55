"""Traffic at a rate through a real model; the clock goes on by what each step took."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.errors import expect
from bench.scenarios.load_point import LoadPoint, Window, load_point, possible, require_served
from bench.scenarios.served_model import ServedModel
from radixcache import CacheConfig, check
from runtime.engine import TorchMachine
from runtime.lab.probe import Limits
from runtime.result import BASELINE_LABEL, RunResult
from runtime.simulation import ClosedLoop, Pace, Simulation
from runtime.simulation.experiment import CACHES
from runtime.workload import Workload
from scheduler import Request, Scheduler, SchedulerConfig


@dataclass(frozen=True, slots=True)
class Text:
    """What was asked and answered, as token ids."""

    prompt: list[int]
    output: list[int]


@dataclass(frozen=True, slots=True)
class Measured:
    """A run, and the text of each request by its id."""

    run: RunResult
    texts: dict[str, Text]


class MeasuredLoad:
    """Serves one workload with one model, again and again.

    Args:
        model: Who answers, greedily.
        workload: What arrives, in tokens of the model.
        cache: Settings of the cache and its pages.
        scheduler: Settings of the scheduler.
    """

    def __init__(
        self, model: ServedModel, workload: Workload, cache: CacheConfig, scheduler: SchedulerConfig
    ) -> None:
        self._model, self._workload = model, workload
        self._machine = TorchMachine(model.decoder, model.name)
        self._cache, self._scheduler = cache, scheduler

    def warm_up(self) -> None:
        """Serve one session, so that what a library does when it is first asked burdens no run."""
        self._serve(
            BASELINE_LABEL, ClosedLoop(1), replace(self._workload, sessions=self._workload.sessions[:1])
        )

    def serve(self, label: str, pace: Pace) -> Measured:
        """Serve everything.

        Args:
            label: Which cache, a name in `CACHES`.
            pace: When sessions start.

        Raises:
            WrongResult: Not every request was finished, or its tokens do not add up.
            InvariantViolation: The cache is not what it should be when all is done.
        """
        return self._serve(label, pace, self._workload)

    def _serve(self, label: str, pace: Pace, workload: Workload) -> Measured:
        cache, settled = CACHES[label](self._cache), list[Request]()
        run = Simulation(
            workload,
            pace,
            cache=cache,
            scheduler=Scheduler(cache, self._scheduler),
            executor=self._machine.executor(self._cache),
            max_context=self._machine.max_context,
            on_settled=settled.append,
        ).run()
        check(cache)
        require_served(label, run, workload.num_turns)
        texts = {each.request_id: Text(each.prompt.numpy().tolist(), list(each.output)) for each in settled}
        return Measured(run, texts)

    def judge(self, label: str, run: RunResult, window: Window, limits: Limits) -> LoadPoint:
        """What the requests of a window saw, and what a cache could have found for them.

        What was possible is reckoned as if no two answers were alike.
        """
        has_cache = label != BASELINE_LABEL
        bounds = possible(run, self._workload, window, self._cache) if has_cache else None
        return load_point(run, window, limits, bounds)

    def require_same_texts(self, what: str, found: Mapping[str, Text], wanted: Mapping[str, Text]) -> int:
        """Check that two runs said the same; behind a tie of two tokens a session is compared no further.

        Returns:
            Output tokens that were compared.

        Raises:
            WrongResult: Prompts or answers differ where no tie did it.
        """
        compared = 0
        for session in self._workload.sessions:
            for turn in range(len(session.turns)):
                name = f"{session.session_id}/{turn}"
                one, other = found[name], wanted[name]
                expect(f"{what}, prompt of {name} is the same", one.prompt == other.prompt, wanted=True)
                same = self._model.require_same(f"{what}, {name}", one.prompt, one.output, other.output)
                compared += same
                if one.output != other.output:
                    break
        return compared
