"""Scenarios that are measured by size: what they check, and that the checks notice."""

from types import SimpleNamespace

import pytest

from bench.benchmarks import replay
from bench.benchmarks.traces import replayed_pages
from bench.errors import WrongResult
from bench.harness.timing import Stopwatch
from bench.scenarios.cached_prompt import CachedPrompt
from bench.scenarios.crowded_tree import CrowdedTree
from bench.scenarios.published_pages import PublishedPages
from bench.workloads import page_lru
from bench.workloads.generated_trace import generate
from runtime.lab import lru_curve

PAGE_SIZE = 4


def test_cached_prompt_is_held_and_let_go():
    scenario = CachedPrompt(64, PAGE_SIZE, seed=0)
    scenario.open_and_close()
    scenario.open_and_abort()
    scenario.verify()


def test_cached_prompt_that_somebody_still_holds_is_refused():
    scenario = CachedPrompt(64, PAGE_SIZE, seed=0)
    seq = scenario.cache.open(scenario.prompt)
    with pytest.raises(WrongResult, match="locked pages at rest: found 16, wanted 0"):
        scenario.verify()
    seq.abort()


@pytest.mark.parametrize("num_leaves", [1, 9])
def test_prompt_and_leaves_of_a_crowded_tree_are_found(num_leaves):
    scenario = CrowdedTree(num_leaves, 8 * PAGE_SIZE, PAGE_SIZE, seed=0)
    for _ in range(2 * num_leaves):
        assert scenario.peek_elsewhere().matched_len == 2 * PAGE_SIZE
    assert scenario.peek().matched_len == 8 * PAGE_SIZE
    scenario.open_and_close()
    scenario.verify()


def test_other_leaves_are_looked_up_each_in_its_turn():
    scenario = CrowdedTree(9, 8 * PAGE_SIZE, PAGE_SIZE, seed=0)
    assert len({int(scenario.peek_elsewhere().pages[1]) for _ in range(9)}) == 9


def test_crowded_tree_that_lost_a_leaf_is_refused():
    scenario = CrowdedTree(9, 8 * PAGE_SIZE, PAGE_SIZE, seed=0)
    scenario.cache.evict(1)
    with pytest.raises(WrongResult, match="matched tokens of leaves"):
        scenario.verify()


@pytest.mark.parametrize(("num_pages", "num_leaves"), [(1, 1), (1, 7), (5, 1)])
def test_every_round_publishes_what_nobody_has(num_pages, num_leaves):
    scenario = PublishedPages(num_pages, num_leaves, 4, PAGE_SIZE, seed=0)
    watches = [Stopwatch() for _ in range(3)]
    for _ in range(4):
        scenario.publish(*watches)
    scenario.verify()
    assert [len(watch.samples()["cpu"]) for watch in watches] == [4, 4, 4]
    assert scenario.cache.stats.published_pages == 2 + (num_leaves - 1) + 4 * num_pages


def test_round_that_publishes_nothing_new_is_refused(monkeypatch):
    scenario = PublishedPages(3, 1, 4, PAGE_SIZE, seed=0)
    monkeypatch.setattr(
        scenario.cache, "open", lambda prompt: type(scenario.cache).open(scenario.cache, prompt, write=False)
    )
    with pytest.raises(WrongResult, match="published tokens"):
        scenario.publish(Stopwatch(), Stopwatch(), Stopwatch())


def test_published_pages_that_were_evicted_are_noticed():
    scenario = PublishedPages(3, 1, 4, PAGE_SIZE, seed=0)
    for _ in range(2):
        scenario.publish(Stopwatch(), Stopwatch(), Stopwatch())
    scenario.cache.evict(2)
    with pytest.raises(WrongResult):
        scenario.verify()


TRACE = generate(400, seed=1)


@pytest.mark.parametrize("capacity", [130_000, 200_000, 1_000_000, 4_000_000])
def test_curve_of_a_replayed_trace_is_the_replay(capacity):
    oracle = page_lru.replay(TRACE, num_pages=capacity // 16, page_size=16)
    pages = replayed_pages(TRACE, page_size=16)
    assert oracle.matched_tokens > 0
    assert int(lru_curve(pages).hit_tokens(capacity)) == oracle.matched_tokens
    assert pages.ceiling_pages * 16 == page_lru.infinite_matched_tokens(TRACE, page_size=16)


@pytest.mark.parametrize(
    ("matched", "optimum", "fits"), [(160, 200, True), (176, 200, True), (192, 200, False), (160, 144, False)]
)
def test_hits_that_the_bounds_deny_are_refused(matched, optimum, fits):
    pages = SimpleNamespace(page_size=16, num_untouched=1, num_unmatched=0)
    bounds = {replay.CURVE: 160, replay.OPTIMUM: optimum, replay.CEILING: 320}
    if fits:
        replay._check_bounds(matched, bounds, pages)
    else:
        with pytest.raises(WrongResult):
            replay._check_bounds(matched, bounds, pages)
