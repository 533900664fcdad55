"""A small engine as an embedder would write it: our scheduler, the suite's model, thirty lines of glue."""

from collections.abc import Mapping, Sequence

from radixcache import Namespace, PrefixCache
from radixcache.conformance import ToyModel
from scheduler import Request, RequestState, Scheduler, SchedulerConfig, StepPlan


class EmbeddedEngine:
    def __init__(self, cache: PrefixCache, model: ToyModel, *, token_budget: int = 24) -> None:
        self._model = model
        self._scheduler = Scheduler(cache, SchedulerConfig(token_budget=token_budget))
        self._requests: dict[str, Request] = {}

    def submit(
        self, request_id: str, prompt: Sequence[int], max_new_tokens: int, namespace: Namespace
    ) -> None:
        request = Request.of(request_id, list(prompt), max_new_tokens, namespace=namespace)
        self._scheduler.submit(request, now=0)
        self._requests[request_id] = request

    def step(self) -> None:
        plan = self._scheduler.schedule(now=0)
        if plan:
            self._scheduler.commit(plan, self.execute(plan), now=0)

    def execute(self, plan: StepPlan) -> dict[str, list[int]]:
        for order in plan.copies:
            self._model.copy(order)
        tokens = {}
        for row in plan.rows:
            seq, end = row.request.sequence, row.start + row.extend_len
            known = list(row.request.known_tokens())[row.start : end]
            following = self._model.forward(seq.slots(0, end), row.start, known) if known else None
            if row.max_tokens:
                tokens[row.request.request_id] = [following]
        return tokens

    def abort(self, request_id: str) -> None:
        self._scheduler.abort(request_id, now=0)

    def preempt(self, request_id: str) -> None:
        request = self._requests[request_id]
        if request.state is RequestState.RUNNING:
            self._scheduler.preempt(request_id)

    def outputs(self) -> Mapping[str, Sequence[int]]:
        finished = RequestState.FINISHED
        return {name: each.output for name, each in self._requests.items() if each.state is finished}

    def is_idle(self) -> bool:
        return self._scheduler.is_idle
