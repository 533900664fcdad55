"""Policies that promise it lose no more than a point of hit rate to LRU at any capacity."""

import pytest

from bench.scenarios.lru_loss import GUARDED, losses
from radixcache.eviction.trust import Trust

SIZES = {"chat": 30, "rag": 80, "few-shot": 100, "tree-of-thought": 3}
SHARES = (0.1, 0.2, 0.3, 0.5)


@pytest.mark.parametrize("workload", SIZES)
def test_no_policy_loses_more_than_a_point(workload: str) -> None:
    for loss in losses({workload: SIZES[workload]}, range(2), shares=SHARES):
        for policy in GUARDED:
            assert loss.points(policy) <= 1.0, loss


def test_without_trust_they_would(monkeypatch) -> None:
    def decide(trust: Trust) -> bool:
        trust.follows_recency = False
        return False

    monkeypatch.setattr(Trust, "_decide", decide)
    monkeypatch.setattr(Trust, "allowance", lambda trust: float("inf"))
    found = list(losses({"chat": 30, "few-shot": 100}, range(2), shares=SHARES))
    assert max(loss.points(policy) for loss in found for policy in GUARDED) > 1.0
