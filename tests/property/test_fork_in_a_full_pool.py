"""A fork publishes first, which gives pages back and locks others: it fails exactly where no page is left."""

import itertools

import pytest

from tests.property.driver import Step
from tests.property.scripts import run
from tests.strategies import Advance, Append, Close, Fork, Open, Publish, Reserve, TakeCopies, Verb, World

WORLD = World(page_size=2, num_pages=18, alphabet=(1, 2), namespaces=(None,), partial_reuse=False)


def fork_finds_its_pages(verbs: list[Verb], num_taken: int) -> bool:
    """Run the verbs beside the oracle, then fork the oldest sequence where another took `num_taken` pages."""
    taker = [Open((2,)), Reserve(-1, 2 * num_taken)]
    steps = [Step(verb, number) for number, verb in enumerate([*verbs, *taker])]
    lockstep = run(WORLD, steps, "lru", seed=1)
    before = lockstep.cache.stats
    assert before.failed_reserves == 0
    lockstep.run(Step(Fork(0), 0))
    after = lockstep.cache.stats
    assert after.forks + after.failed_reserves == before.forks + 1
    return after.forks > before.forks


def computed(prompt: tuple[int, ...]) -> list[Verb]:
    return [Open(prompt), Reserve(-1, None), Advance(-1, None)]


def test_pages_that_a_twin_published_first_come_back_and_get_locked() -> None:
    own, found = (1, 1, 2, 2, 1, 2, 1), set()
    for num_taken, shared, other in itertools.product(range(1, 12), range(0, 7, 2), range(3)):
        verbs = computed(own)
        if twin := own[:shared] + (2, 1) * other:
            verbs += [*computed(twin), Close(-1)]
        if num_taken + 4 + len(twin) // 2 <= WORLD.num_pages:
            found.add(fork_finds_its_pages(verbs, num_taken))
        room = WORLD.num_pages - 4 - num_taken
        if room > 0:
            found.add(fork_finds_its_pages(verbs, num_taken + room))  # nothing free, the twin's pages evicted
    assert found == {True, False}


@pytest.mark.parametrize("end_of_twin", [Publish(-1), Close(-1)])
def test_a_page_that_a_child_still_copies_from_does_not_come_back(end_of_twin: Verb) -> None:
    found = set()
    for num_taken in range(1, 15):
        verbs = [*computed((1, 1, 2)), Fork(-1), TakeCopies(-1)]
        verbs += [Append(0, (2, 1)), Reserve(0, None), Advance(0, None)]
        verbs += [*computed((1, 1, 2, 2, 1)), end_of_twin]
        num_in_use = 3 + 1 + (2 if end_of_twin == Publish(-1) else 0)
        if num_taken + num_in_use <= WORLD.num_pages:
            found.add(fork_finds_its_pages(verbs, num_taken))
    assert found == {True, False}
