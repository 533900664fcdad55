"""What the forest keeps, and what it does for each change, stay small however many wait."""

import gc
from types import FunctionType, ModuleType

import pytest

from radixcache import CacheConfig, PrefixCache
from scheduler import QUEUE_POLICIES, PolicyOptions, Request
from scheduler.waiting import HEAVIEST, WaitingForest
from scheduler.waiting.node import WaitNode
from tests.property.forest_checker import walk
from tests.unit.scheduler.waiting.grove import Grove, pages


def nodes_reached_from(order: object) -> list[WaitNode]:
    """Whatever holds them, but functions, through which the whole program is reached."""
    found, seen, pending = [], set(), [order]
    while pending:
        item = pending.pop()
        if id(item) in seen or isinstance(item, FunctionType | ModuleType | type):
            continue
        seen.add(id(item))
        if isinstance(item, WaitNode):
            found.append(item)
        pending += gc.get_referents(item)
    return found


def num_entries(grove: Grove) -> int:
    nodes = list(walk(grove.forest))
    return len(nodes) + sum(len(node.cold) for node in nodes) + len(grove.forest._anchors._at_page)


def test_nodes_are_at_most_two_a_request():
    grove = Grove()
    for number in range(200):
        grove.add(number // 100, 100 + number // 10, 1000 + number)
    assert len(list(walk(grove.forest))) - 1 <= 2 * 200


def test_what_left_leaves_no_entries_behind():
    grove = Grove()
    requests = [grove.add(100 + number) for number in range(1_000)]
    for request in requests[1:]:
        grove.forest.remove(request)
    assert num_entries(grove) <= 16
    assert grove.first() is requests[0]
    grove.forest.remove(requests[0])
    assert num_entries(grove) == 0
    assert not grove.forest._anchors.roots


def test_no_prompt_is_kept_that_waits_no_longer():
    grove = Grove()
    requests = [grove.add(1, *([2] * (number % 3)), 100 + number) for number in range(30)]
    for place in (0, 28, 1, 3, *range(26, 4, -1)):
        grove.forest.remove(requests[place])
        waiting = {id(request.prompt.data) for request in requests if request.number in grove.forest._node_of}
        runs = [node for node in walk(grove.forest) if node.parent is not None]
        assert runs
        assert {id(node.source) for node in runs} <= waiting


@pytest.mark.parametrize("policy", QUEUE_POLICIES)
@pytest.mark.parametrize("stays", [0, 1, 3])
def test_no_prompt_is_kept_by_what_an_order_still_has_of_nodes_that_left(policy, stays):
    """Nodes that were removed and nodes that were merged, cold ones and points."""
    cache = PrefixCache(CacheConfig(num_pages=64, page_size=2))
    order = QUEUE_POLICIES[policy](cache, PolicyOptions())

    def add(number: int, *names: int) -> Request:
        request = Request.of(f"r{number}", [*pages(*names), 0], 1)
        request.number, request.submitted_at = number, float(number)
        order.add(request)
        assert order.head(1e3) is not None
        return request

    for number in range(stays):
        add(number, 1, 50 + number)
    left: set[bytes] = set()
    for number in range(stays, 60, 2):
        comers = [add(number, 1, 2, 100 + number), add(number + 1, 1, 2, 101 + number)]
        if number % 3 == 0:
            with cache.open(comers[0].prompt) as sequence:
                sequence.reserve(len(comers[0].prompt))
                sequence.advance(len(comers[0].prompt) - sequence.computed_len)
        for request in comers:
            order.remove(request)
            left.add(request.prompt.data)
    nodes = nodes_reached_from(order)
    assert nodes or not stays
    assert left.isdisjoint(node.source for node in nodes)


def test_a_source_that_leaves_is_replaced_without_looking_at_who_left_before(monkeypatch):
    """By the youngest, who leaves last where the oldest goes first."""
    replaced: list[bytes] = []
    real = WaitingForest._youngest_child
    monkeypatch.setattr(
        WaitingForest, "_youngest_child", lambda node: replaced.append(node.source) or real(node)
    )
    grove = Grove()
    requests = [grove.add(1, 100 + number) for number in range(300)]
    for request in requests:
        grove.forest.remove(request)
    assert replaced == [requests[0].prompt.data]


def test_going_back_and_forth_leaves_no_entries_behind():
    grove = Grove(num_pages=64)
    requests = [grove.add(100 + number, 1) for number in range(20)]
    for round_number in range(200):
        name = 100 + round_number % 20
        grove.cached(name, 1)
        grove.cache.evict(2)
    assert num_entries(grove) <= 16 * len(requests)


def test_a_publication_does_no_work_for_each_request(monkeypatch):
    grove = Grove()
    for number in range(500):
        grove.add(1, 2, 3, 4, 100 + number)
    touched: list[WaitNode] = []
    anchors = grove.forest._anchors
    real = anchors.put
    monkeypatch.setattr(anchors, "put", lambda node, *rest: (touched.append(node), real(node, *rest)))
    leader = grove.cache.open([*[1] * 2, *[2] * 2, *[3] * 2, *[4] * 2, 0])
    for _ in range(4):
        leader.reserve(2)
        leader.advance(2)
        leader.publish()
    assert len(touched) == 4
    leader.abort()
    grove.cache.evict(4)
    assert len(touched) <= 8


def test_the_heaviest_subtree_is_known_after_every_change():
    grove = Grove(choice=HEAVIEST)
    light = [grove.add(1, 10)]
    heavy = [grove.add(2, 20 + number) for number in range(3)]
    assert grove.first() is heavy[0]
    grove.forest.remove(heavy[0])
    grove.forest.remove(heavy[1])
    light.append(grove.add(1, 11))
    assert grove.first() is light[0]
