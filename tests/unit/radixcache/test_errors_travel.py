import pickle

import pytest

from radixcache import OutOfPages, RadixCacheError
from radixcache.errors import InvariantViolation, UnknownName
from runtime.errors import TraceError
from scheduler import QueueFull, RequestTooLong
from scheduler.errors import Interrupted


@pytest.mark.parametrize(
    "error",
    [
        OutOfPages(needed=4, free=1, evictable=2, locked=3),
        InvariantViolation(["I1 one", "I2 two"]),
        RequestTooLong("a", 9, 8),
        QueueFull("a", 8),
        Interrupted("commit", KeyboardInterrupt()),
        TraceError("trace.jsonl", 3, "is no JSON"),
        UnknownName("model", "lama", ["Llama"]),
        RadixCacheError("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes_with_all_they_carry(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
