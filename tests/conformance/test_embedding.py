"""The embedder's conformance suite passes over our own engine, and catches engines that break it."""

import pytest

from radixcache import PrefixCache
from radixcache.conformance import ConformanceFailure, ToyModel, run_conformance
from scheduler import StepPlan
from tests.conformance.embedded_engine import EmbeddedEngine


class NeverCopies(EmbeddedEngine):
    def execute(self, plan: StepPlan) -> dict[str, list[int]]:
        return super().execute(
            StepPlan(plan.number, plan.rows, copies=(), preempted=plan.preempted, failed=plan.failed)
        )


class KeepsItsFirstPageTable(EmbeddedEngine):
    def execute(self, plan: StepPlan) -> dict[str, list[int]]:
        kept = self.__dict__.setdefault("kept", {})
        tokens = {}
        for row in plan.rows:
            seq, end = row.request.sequence, row.start + row.extend_len
            slots = seq.slots(0, end)
            old = kept.get(row.request.request_id, slots)
            slots[: len(old)] = old[: len(slots)]
            kept[row.request.request_id] = slots
            known = list(row.request.known_tokens())[row.start : end]
            following = self._model.forward(slots, row.start, known)
            if row.max_tokens:
                tokens[row.request.request_id] = [following]
        return tokens


class RecomputesTheMatch(EmbeddedEngine):
    def execute(self, plan: StepPlan) -> dict[str, list[int]]:
        tokens = {}
        for row in plan.rows:
            end = row.start + row.extend_len
            known = list(row.request.known_tokens())[:end]
            following = self._model.forward(row.request.sequence.slots(0, end), 0, known)
            if row.max_tokens:
                tokens[row.request.request_id] = [following]
        return tokens


class ForgetsToClose(EmbeddedEngine):
    def __init__(self, cache: PrefixCache, model: ToyModel) -> None:
        super().__init__(cache, model)
        self._cache = cache

    def abort(self, request_id: str) -> None:
        super().abort(request_id)
        self._cache.open([1, 2, 3])


class DropsTheLastToken(EmbeddedEngine):
    def outputs(self):
        return {name: output[:-1] for name, output in super().outputs().items()}


def test_our_own_engine_passes_every_scenario():
    report = run_conformance(EmbeddedEngine)

    assert not report.skipped
    assert len(report.passed) == 27


def test_small_chunks_pass_too():
    run_conformance(lambda cache, model: EmbeddedEngine(cache, model, token_budget=3))


@pytest.mark.parametrize(
    ("engine", "scenario"),
    [
        (NeverCopies, "starts of pages are copied"),
        (KeepsItsFirstPageTable, "every length around a page edge"),
        (RecomputesTheMatch, "warm equals cold"),
        (ForgetsToClose, "abort at every step"),
        (DropsTheLastToken, "warm equals cold"),
    ],
)
def test_a_broken_engine_is_caught(engine, scenario):
    with pytest.raises(ConformanceFailure, match=scenario):
        run_conformance(engine, page_sizes=[4])


def test_an_engine_without_preemption_is_told_what_was_skipped():
    class NeverPreempts(EmbeddedEngine):
        def preempt(self, request_id: str) -> None:
            raise NotImplementedError

    assert run_conformance(NeverPreempts, page_sizes=[4]).skipped == ("preempt at every step, page size 4",)
