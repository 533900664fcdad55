"""In exact integer arithmetic, cached pages are bit for bit those of a cold computation."""

import random
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field

import pytest

from radixcache import NullPrefixCache, PrefixCache, Sequence, check
from radixcache.errors import OutOfPages
from runtime.engine import Engine
from scheduler import Request, Row, StepPlan
from tests.fault.scheduler.toy_engine import ToyEngine, cold_kv
from tests.unit.runtime.engine.serving import assert_balanced, expected, tokens, toy_engine, wanted


def assert_pages_are_exact(engine: Engine) -> int:
    """Compares all of `snapshot` with cold computations; returns how many pages there were."""
    memory: ToyEngine = engine._executor.engine
    page_size = engine.cache.config.page_size
    known: dict[int, list[int]] = {}
    for stored in engine.cache.snapshot().stored:
        prefix = [] if stored.parent_page is None else known[stored.parent_page]
        ids = [*prefix, *stored.tokens]
        right = cold_kv(ids, stored.namespace)
        for number, page in enumerate(stored.pages, start=len(prefix) // page_size):
            end = (number + 1) * page_size
            assert page not in known
            known[page] = ids[:end]
            assert memory.page(page) == right[end - page_size : end]
    return len(known)


@dataclass
class Branches:
    """Sequences that a caller holds beside the engine's own; some are forks."""

    engine: Engine
    rng: random.Random
    held: list[tuple[Sequence, list[int]]] = field(default_factory=list)
    num_forks: int = 0

    def _compute(self, sequence: Sequence, ids: Tokens[int], extend_len: int) -> None:
        """What an engine does in a step: copies, rows, `advance`."""
        request = Request.of("branch", ids, 1, namespace=self.engine._namespace(None))
        request.sequence = sequence
        row = Row(request, sequence.computed_len, extend_len, 0)
        self.engine._executor.engine.execute(StepPlan(0, (row,), tuple(sequence.take_copies()), (), ()))
        sequence.advance(extend_len)

    def _go_on(self, sequence: Sequence, ids: list[int]) -> None:
        before = sequence.computed_len
        extend_len = min(len(ids) - before, self.rng.randrange(1, 8))
        sequence.reserve(extend_len)
        num_copied = sequence.computed_len - before
        self._compute(sequence, ids, max(0, extend_len - num_copied))

    def open(self) -> None:
        ids = tokens(100 * self.rng.randrange(3), self.rng.randrange(2, 18))
        cache = self.engine.cache
        sequence = cache.open(ids, self.engine._namespace(None), write=self.rng.random() < 0.8)
        self._keep(sequence, ids)

    def fork(self) -> None:
        sequence, ids = self.rng.choice(self.held)
        more = tokens(1000 + self.rng.randrange(3), self.rng.randrange(1, 6))
        child = sequence.fork()
        self.num_forks += 1
        child.append(more)
        self._keep(child, [*ids, *more])

    def _keep(self, sequence: Sequence, ids: list[int]) -> None:
        self.held.append((sequence, ids))
        self._go_on(sequence, ids)

    def act(self) -> None:
        """Open, fork, compute some more, publish or end; whatever finds no page is given up."""
        action = self.rng.random()
        try:
            if not self.held or (action < 0.3 and len(self.held) < 3):
                self.open()
            elif action < 0.5 and len(self.held) < 4:
                self.fork()
            elif action < 0.8:
                sequence, ids = self.rng.choice(self.held)
                if sequence.computed_len < len(ids):
                    self._go_on(sequence, ids)
                sequence.publish()
            else:
                sequence, _ = self.held.pop(self.rng.randrange(len(self.held)))
                self.rng.choice([sequence.close, sequence.abort])()
        except OutOfPages:
            self.end()

    def end(self) -> None:
        while self.held:
            self.held.pop()[0].abort()


@pytest.mark.parametrize("seed", range(24))
def test_cached_pages_are_those_of_a_cold_computation(seed):
    rng = random.Random(seed)
    page_size = rng.choice([1, 2, 4, 8])
    failing = {"share": 0.0}
    engine = toy_engine(
        num_pages=rng.randrange(60, 90) // page_size + 6,
        page_size=page_size,
        fails=lambda call, plan: rng.random() < failing["share"],
        partial_reuse=seed % 2 == 1 and page_size > 1,
        prefill_chunk_tokens=rng.choice([None, 2, 3]),
        token_budget=rng.choice([7, 64]),
        max_running=rng.randrange(2, 6),
        policy=rng.choice(["fcfs", "lpm", "dfs", "hrrn"]),
    )
    branches = Branches(engine, rng)
    prompts, found = {}, {}
    num_pages = 0
    for _ in range(150):
        failing["share"] = rng.choice([0.0, 0.0, 0.2])
        action = rng.random()
        if action < 0.3:
            prompt = tokens(100 * rng.randrange(3), rng.randrange(1, 20)) + tokens(rng.randrange(9), 3)
            prompts[engine.add_request(prompt, wanted(rng.randrange(1, 12)))] = prompt
        elif action < 0.5:
            branches.act()
        elif action < 0.55:
            running = [name for name, live in engine._live.items() if live.request.state == "running"]
            if running:
                engine.scheduler.preempt(rng.choice(running))
        elif action < 0.58 and engine._live:
            engine.abort(rng.choice(list(engine._live)))
        else:
            found |= {chunk.request_id: chunk.completion for chunk in engine.step() if chunk.completion}
        check(engine.cache)
        num_pages += assert_pages_are_exact(engine)
    branches.end()
    failing["share"] = 0.0
    while not engine.is_idle:
        found |= {chunk.request_id: chunk.completion for chunk in engine.step() if chunk.completion}
        num_pages += assert_pages_are_exact(engine)
    assert num_pages
    for name, prompt in prompts.items():
        assert found[name].token_ids == expected(prompt, len(found[name].token_ids))
    assert_balanced(engine)


def test_the_random_servings_meet_everything_there_is():
    """So that the test above cannot pass by never getting anywhere."""
    met = dict.fromkeys(("reused", "copied", "evicted", "preempted", "recomputed", "forks"), 0)
    for seed in range(8):
        rng = random.Random(seed)
        engine = toy_engine(num_pages=24, page_size=4, partial_reuse=True, prefill_chunk_tokens=3)
        branches = Branches(engine, rng)
        for _ in range(60):
            prompt = tokens(100 * rng.randrange(3), rng.randrange(1, 20)) + tokens(rng.randrange(9), 3)
            engine.add_request(prompt, wanted(rng.randrange(1, 12)))
            branches.act()
            requests = [live.request for live in engine._live.values()]
            if rng.random() < 0.2:
                running = [each.request_id for each in requests if each.state == "running"]
                if running:
                    engine.scheduler.preempt(rng.choice(running))
            engine.step()
            assert_pages_are_exact(engine)
            met["copied"] += sum(each.copied_len for each in requests)
            met["preempted"] += sum(each.num_preemptions for each in requests)
            met["recomputed"] += sum(each.recomputed_tokens for each in requests)
        met["forks"] += branches.num_forks
        met["reused"] += engine.cache.stats.matched_tokens
        met["evicted"] += engine.cache.stats.evicted_pages
    assert all(met.values()), met


def test_a_page_with_one_wrong_number_is_seen():
    engine = toy_engine()
    engine.generate([tokens(0, 9)], wanted(2))
    assert assert_pages_are_exact(engine) == 2
    (stored,) = engine.cache.snapshot().stored
    engine._executor.engine._memory[stored.pages[1] * 4 + 3] += 1
    with pytest.raises(AssertionError):
        assert_pages_are_exact(engine)


@pytest.mark.parametrize("cache", [PrefixCache, NullPrefixCache])
def test_what_is_not_to_be_left_behind_is_not(cache):
    engine = toy_engine(cache=cache)
    engine.add_request(tokens(0, 9), wanted(5), write=False)
    while not engine.is_idle:
        engine.step()
    assert assert_pages_are_exact(engine) == 0
    engine.generate([tokens(0, 9)], wanted(5))
    assert (assert_pages_are_exact(engine) > 0) == (cache is PrefixCache)
