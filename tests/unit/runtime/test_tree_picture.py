import random

import pytest

from radixcache import CacheConfig, PrefixCache
from runtime.result import TreeBox
from runtime.simulation import tree_picture as module
from runtime.simulation.tree_picture import tree_picture
from tests.unit.scheduler.loop import ids


def cached(*prompts: list[int], page_size: int = 4, namespaces=(None,)) -> PrefixCache:
    cache = PrefixCache(CacheConfig(num_pages=4000, page_size=page_size))
    for number, prompt in enumerate(prompts):
        with cache.open(prompt, namespaces[number % len(namespaces)]) as seq:
            seq.reserve(len(prompt))
            seq.advance(len(prompt) - seq.computed_len)
    return cache


def boxes_of(boxes: list[TreeBox]) -> list[TreeBox]:
    return [box for each in boxes for box in (each, *boxes_of(each.children))]


def tokens_of(boxes: list[TreeBox]) -> int:
    return sum(box.num_tokens for box in boxes_of(boxes))


def bushy(seed: int, num_prompts: int) -> PrefixCache:
    rng = random.Random(seed)
    prompts = []
    for _ in range(num_prompts):
        base = rng.choice(prompts)[: 4 * rng.randrange(1, 12)] if prompts and rng.random() < 0.8 else []
        prompts.append(base + [rng.randrange(50) for _ in range(4 * rng.randrange(1, 6))])
    return cached(*prompts)


def assert_depths(boxes: list[TreeBox], depth: int = 0) -> None:
    for box in boxes:
        assert box.depth_tokens == depth
        assert_depths(box.children, depth + box.num_tokens)


def test_an_empty_cache_has_no_picture():
    assert tree_picture(cached()) == []


def test_one_path_is_one_box():
    (box,) = tree_picture(cached(ids(0, 16)))
    assert (box.depth_tokens, box.num_tokens, box.children, box.locked) == (0, 16, [], False)
    assert box.label == "0, 1, 2, 3 …"


def test_branches_stand_behind_what_they_share():
    (box,) = tree_picture(cached([*ids(0, 8), *ids(50, 8)], [*ids(0, 8), *ids(90, 12)]))
    assert box.num_tokens == 8
    assert sorted((child.depth_tokens, child.num_tokens) for child in box.children) == [(8, 8), (8, 12)]


def test_namespaces_are_roots_beside_each_other():
    boxes = tree_picture(cached(ids(0, 8), ids(0, 12), namespaces=(None, "other")))
    assert sorted(box.num_tokens for box in boxes) == [8, 12]


@pytest.mark.parametrize("num_prompts", [5, 100, 700])
def test_all_boxes_together_hold_every_cached_token(num_prompts):
    cache = bushy(num_prompts, num_prompts)
    boxes = tree_picture(cache)
    assert tokens_of(boxes) == 4 * cache.pages.evictable
    assert_depths(boxes)


@pytest.mark.parametrize("num_prompts", [700, 1500])
def test_there_are_never_more_than_a_few_hundred_boxes(num_prompts):
    cache = bushy(1, num_prompts)
    boxes = boxes_of(tree_picture(cache))
    assert len(boxes) <= 2 * module._MAX_BOXES
    assert cache.stats.num_nodes > module._MAX_BOXES


def test_small_branches_are_summed_up_beside_their_siblings(monkeypatch):
    monkeypatch.setattr(module, "_MAX_BOXES", 2)
    (box,) = tree_picture(cached(*[[*ids(0, 8), *ids(100 * n, 4 * n)] for n in range(1, 6)]))
    assert [(child.num_tokens, child.label) for child in box.children] == [
        (20, "500, 501, 502, 503 …"),
        (4 + 8 + 12 + 16, "4 smaller branches"),
    ]


def test_a_single_small_branch_is_called_one(monkeypatch):
    monkeypatch.setattr(module, "_MAX_BOXES", 2)
    (box,) = tree_picture(cached(*[[*ids(0, 8), *ids(100 * n, 4 * n)] for n in range(1, 3)]))
    assert [child.label for child in box.children] == ["200, 201, 202, 203 …", "1 smaller branch"]


def test_the_largest_branches_are_the_ones_drawn():
    cache = bushy(3, 900)
    drawn = [box for box in boxes_of(tree_picture(cache)) if "smaller" not in box.label]
    summed = [box for box in boxes_of(tree_picture(cache)) if "smaller" in box.label]
    assert len(drawn) == module._MAX_BOXES
    assert summed


def test_a_deep_chain_is_cut_without_losing_tokens():
    prompt = ids(0, 4 * 300)
    cache = cached(*[[*prompt[: 4 * depth], 7, 7, 7, 7] for depth in range(1, 300)])
    boxes = tree_picture(cache)
    assert tokens_of(boxes) == 4 * cache.pages.evictable
    assert_depths(boxes)


def test_looking_changes_nothing():
    cache = bushy(2, 50)
    before = (cache.stats, cache.snapshot())
    assert tree_picture(cache) == tree_picture(cache)
    assert (cache.stats, cache.snapshot()) == before
