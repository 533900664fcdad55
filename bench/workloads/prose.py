"""Text that no file brings: sentences drawn by seed, for models that want words. Imports no cache."""

import random
from collections.abc import Iterator
from typing import Final

_PARTS: Final = (
    ("the captain", "a customer", "my sister", "the old librarian", "every engineer", "the night train"),
    ("looks for", "carefully repairs", "wants to return", "forgot", "describes", "has just found"),
    ("a blue suitcase", "the last invoice", "two tickets to Lisbon", "an unread letter", "the kitchen clock"),
    ("before breakfast", "without saying why", "in the harbour", "since Tuesday", "for 42 euros"),
)


def sentences(seed: int) -> Iterator[str]:
    """Sentences without end, the same for the same seed."""
    draw = random.Random(seed)
    while True:
        yield " ".join(draw.choice(words) for words in _PARTS).capitalize() + "."
