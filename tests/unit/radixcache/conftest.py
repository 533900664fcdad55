"""What several of these files need."""

import pytest

from radixcache.eviction.trust import Trust


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learned policies are followed from the first request on, whatever they lose."""

    def decide(trust: Trust) -> bool:
        trust.follows_recency = False
        return False

    monkeypatch.setattr(Trust, "_decide", decide)
