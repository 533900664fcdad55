import gc

import pytest

from bench.errors import WrongResult
from bench.harness.timing import Collector, Stopwatch, alternate, frozen_heap
from bench.scenarios.cached_prompt import CachedPrompt
from bench.scenarios.decoding_batch import DecodingBatch
from bench.scenarios.deep_path import DeepPath
from bench.scenarios.hot_prefix import HotPrefix
from bench.scenarios.leaf_churn import LeafChurn

PAGE_SIZE = 4


def test_cached_prompt_that_is_not_cached_is_refused():
    scenario = CachedPrompt(64, PAGE_SIZE, seed=0)
    scenario.verify()
    scenario.cache.reset()
    with pytest.raises(WrongResult, match="matched tokens: found 0, wanted 64"):
        scenario.verify()


def test_deep_path_keeps_its_nodes_while_it_is_opened_and_closed():
    scenario = DeepPath(6, PAGE_SIZE, seed=0)
    for _ in range(3):
        scenario.open_and_close()
        scenario.open_and_abort()
        scenario.verify()


def test_deep_path_that_lost_a_branch_is_refused():
    scenario = DeepPath(6, PAGE_SIZE, seed=0)
    scenario.cache.evict(1)
    with pytest.raises(WrongResult):
        scenario.verify()


def test_leaf_churn_keeps_what_an_lru_keeps():
    scenario = LeafChurn(10, PAGE_SIZE, seed=0)
    for shuffled in (False, True):
        scenario.churn(3, Stopwatch(), Stopwatch())
        scenario.touch_all(shuffled=shuffled)
        scenario.churn(13, Stopwatch(), Stopwatch())
        scenario.verify()
        scenario.evict_in_a_row(7, Stopwatch())
        scenario.verify()


def test_leaf_that_went_out_of_turn_is_noticed():
    scenario = LeafChurn(10, PAGE_SIZE, seed=0)
    scenario.cache.evict(1)
    with pytest.raises(WrongResult, match="leaf 0"):
        scenario.verify()


@pytest.mark.parametrize("depth", [1, 5])
def test_hot_prefix_is_held_once_for_each_sequence(depth):
    scenario = HotPrefix(depth, 7, PAGE_SIZE, seed=0)
    scenario.lock_and_unlock()
    scenario.open_and_abort()
    scenario.verify()
    scenario.release()


def test_calls_are_timed_in_turn_and_the_first_of_each_is_dropped():
    order: list[str] = []
    samples = alternate(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, num_samples=2, calls_per_sample=1
    )
    assert order == ["a", "b"] * 3
    assert {name: (len(taken["cpu"]), len(taken["wall"])) for name, taken in samples.items()} == {
        "a": (2, 2),
        "b": (2, 2),
    }


def test_heap_is_thawed_afterwards():
    with frozen_heap():
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()


def test_sections_with_a_garbage_collection_are_known():
    with Collector() as collector:
        watch = Stopwatch(collector)
        watch.time(lambda: None)
        watch.time(gc.collect)
    assert watch.collected == {1}


def decoding_batch() -> DecodingBatch:
    return DecodingBatch(3, 10, num_steps=12, page_size=PAGE_SIZE, seed=0)


def test_decoding_batch_times_building_and_copying_at_every_step():
    scenario, building, copying = decoding_batch(), Stopwatch(), Stopwatch()
    for _ in range(10):
        scenario.step(building, copying)
    scenario.verify()
    assert len(building.samples()["cpu"]) == len(copying.samples()["cpu"]) == 10


def test_decoding_batch_whose_builder_reads_old_pages_is_refused(monkeypatch):
    scenario = decoding_batch()
    scenario.step(Stopwatch(), Stopwatch())
    build = scenario.builder.build

    def stale(rows):
        metadata = build(rows)
        metadata.kv_indices[0] += 1
        return metadata

    monkeypatch.setattr(scenario.builder, "build", stale)
    with pytest.raises(WrongResult, match="pages"):
        scenario.step(Stopwatch(), Stopwatch())
