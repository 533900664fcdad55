from tests.unit.scheduler.waiting.grove import Grove


def test_whoever_needs_the_page_in_flight_is_held_and_nobody_else():
    grove = Grove()
    held, other = grove.add(1, 2), grove.add(3)
    page = grove.hold(1)
    assert grove.first() is other
    grove.forest.remove(other)
    assert grove.first() is None
    grove.forest.release(*page)
    assert grove.first() is held


def test_whoever_comes_later_is_held_too():
    grove = Grove()
    page = grove.hold(1)
    late = grove.add(1, 2)
    assert grove.first() is None
    grove.forest.release(*page)
    assert grove.first() is late


def test_a_hold_behind_a_cached_page_holds_only_below_it():
    grove = Grove()
    grove.cached(1)
    page = grove.hold(1, 2)
    held, beside = grove.add(1, 2, 3), grove.add(1, 3)
    ends_here = grove.add(1)
    assert grove.order() == [beside.number, ends_here.number]
    grove.forest.release(*page)
    assert grove.first() is held


def test_a_hold_at_a_half_cached_run_survives_a_split_and_a_merge_of_it():
    grove = Grove()
    grove.cached(1, 2)
    held = grove.add(1, 2, 3, 4)
    page = grove.hold(1, 2, 3)
    assert grove.first() is None
    splitter = grove.add(1, 2)
    assert grove.first() is splitter
    grove.forest.remove(splitter)
    deeper = grove.add(1, 2, 3)
    assert grove.first() is None
    grove.forest.release(*page)
    assert grove.first() is held
    grove.forest.remove(held)
    assert grove.first() is deeper


def test_two_leaders_hold_until_both_are_gone():
    grove = Grove()
    waiting = grove.add(1)
    pages = [grove.hold(1), grove.hold(1)]
    grove.forest.release(*pages[0])
    assert grove.first() is None
    grove.forest.release(*pages[1])
    assert grove.first() is waiting


def test_a_publication_ends_the_wait_for_that_page():
    grove = Grove()
    waiting = grove.add(1, 2)
    grove.hold(1)
    grove.cached(1)
    assert grove.first() is waiting
    assert grove.matches(waiting) == [1]


def test_an_eviction_brings_back_under_the_hold():
    grove = Grove()
    waiting = grove.add(1, 2)
    page = grove.hold(1)
    grove.cached(1)
    grove.cache.evict(1)
    assert grove.first() is None
    grove.forest.release(*page)
    assert grove.first() is waiting


def test_a_hold_in_one_namespace_holds_nobody_in_another():
    grove = Grove()
    page = grove.hold(1, namespace="a")
    request = grove.add(1, namespace="b")
    assert grove.first() is request
    grove.forest.release(*page)


def test_a_retired_namespace_frees_those_who_were_held_deep_in_it():
    grove = Grove()
    leader = grove.compute(1)
    held = grove.add(1, 2)
    page = grove.hold(1, 2)
    assert grove.first() is None
    grove.cache.retire(None)
    assert grove.first() is held
    grove.forest.release(*page)
    leader.close()
    assert grove.first() is held


def test_who_reads_nothing_is_never_held():
    grove = Grove()
    grove.hold(1)
    blind = grove.add(1, read=False)
    assert grove.first() is blind
